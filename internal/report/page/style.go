package page

import "github.com/kvbench/kvbench/internal/chart"

// css is the whole style of a page.
func css() string {
	light, dark := chart.Light().Variables(), chart.Dark().Variables()
	return ":root{color-scheme:light dark;--soft:#f3f5f8;--link:#0550ae;--warn:#7a4f00;" + light + "}" +
		"@media (prefers-color-scheme:dark){:root{--soft:#1d232a;--link:#79b8ff;--warn:#e8b339;" + dark + "}}" +
		"@media print{:root{--soft:#f3f5f8;--link:#0550ae;--warn:#7a4f00;" + light + "}}" +
		chart.CSS() + `
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--tx);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif;overflow-wrap:anywhere}
header,nav,main,footer{max-width:76rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.2rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .4rem}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--gr)}
h3{font-size:1.05rem;margin:1.4rem 0 .4rem}
p{margin:.5rem 0;max-width:48rem}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:.5rem;background:var(--bg);padding:.4rem .8rem;z-index:1}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.8rem 0}
nav a{display:inline-block;padding:.2rem 0}
.verdict{background:var(--soft);border-left:6px solid var(--mu);padding:.7rem 1rem;margin:.8rem 0;max-width:none;font-size:1.05rem}
.verdict.good{border-color:var(--ok)}.verdict.good strong{color:var(--ok)}
.verdict.bad{border-color:var(--no)}.verdict.bad strong{color:var(--no)}
.verdict.doubt{border-color:var(--warn)}.verdict.doubt strong{color:var(--warn)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:1rem;align-items:start;margin:1rem 0}
figure.chart{margin:0;padding:.7rem;border:1px solid var(--gr);border-radius:6px;min-width:0;max-width:44rem;break-inside:avoid}
figcaption{font-weight:600}
.about,.note{font-size:.875rem;color:var(--mu);margin:.2rem 0}
.missing{border-left:4px solid var(--gr);padding-left:.8rem;color:var(--mu)}
.warnings li{margin:.3rem 0}.warnings li::marker{color:var(--warn);content:"⚠ "}
details{margin-top:.4rem;font-size:.875rem}
summary{cursor:pointer;padding:.3rem 0}
.scroll{overflow-x:auto;max-height:32rem;overflow-y:auto;max-width:100%;margin:.4rem 0}
table{border-collapse:collapse;width:max-content;font-variant-numeric:tabular-nums;overflow-wrap:normal}
caption{text-align:left;font-size:.875rem;color:var(--mu);padding-bottom:.2rem}
th,td{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid var(--gr)}
th{font-weight:600}div.w{width:min(26rem,70vw);overflow-wrap:anywhere}td.n,th.n{text-align:right;white-space:nowrap}
thead th{border-bottom:2px solid var(--mu)}
dl.facts{display:grid;gap:.2rem 1rem;margin:.5rem 0}
dl.facts div{display:grid;grid-template-columns:minmax(8rem,13rem) 1fr;gap:0 1rem}
dt{color:var(--mu)}dd{margin:0}
pre{background:var(--soft);padding:.7rem;overflow-x:auto;white-space:pre-wrap}
footer{padding-bottom:2rem;font-size:.9rem}
@media (max-width:32rem){dl.facts div{grid-template-columns:1fr}body{font-size:15px}figure.chart{padding:.5rem}}
@media print{body{font-size:10pt}nav,.skip{display:none}.scroll{max-height:none;overflow:visible}table{width:auto}td.n,th.n{white-space:normal}a{color:inherit;text-decoration:none}section{break-before:auto}}
`
}
