//go:build browser

package browsertest

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// probe is evaluated in the page; the page's own policy keeps its scripts from
// running, not those of the debugger.
//
//go:embed probe.js
var probe string

// found is what probe returns.
type found struct {
	Problems []string `json:"problems"`
	Charts   int      `json:"charts"`
	Texts    int      `json:"texts"`
	Wide     float64  `json:"wide"`     // of the content, in CSS pixels
	Window   float64  `json:"window"`   // of the window
	Contrast float64  `json:"contrast"` // the lowest of any text
	Reach    []string `json:"reach"`    // what the keyboard should reach, in order
}

// program finds the browser.
func program(t testing.TB) string {
	t.Helper()
	name := os.Getenv("TEST_BROWSER")
	if name == "" {
		name = "chromium"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("no browser to test with: %v; install chromium, or name one in TEST_BROWSER", err)
	}
	return path
}

// Browser starts a browser that ends with the test.
func Browser(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program(t)), chromedp.NoSandbox, chromedp.DisableGPU)
	alloc, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return ctx
}

// tab is a page that is open.
type tab struct {
	t        testing.TB
	ctx      context.Context
	file     string
	problems []string
}

func (p *tab) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// do runs steps that return nothing.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", p.file, err)
	}
}

// call sends a command to a tab and returns what it answers.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.file, command.Method, err)
	}
	return r
}

// evaluate returns the value of an expression in a tab.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", p.file, err)
	}
	return v
}

// patience is how long one page may take in all.
const patience = 2 * time.Minute

// openTab opens a tab that listens, and then the page in it.
func openTab(t testing.TB, browser context.Context, file string) (p *tab, heard func() []string) {
	t.Helper()
	abs, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	address := (&url.URL{Scheme: "file", Path: abs}).String()
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	if heard, err = listen(ctx, address); err != nil { // opens the tab
		t.Fatal(err)
	}
	ctx, end = context.WithTimeout(ctx, patience)
	t.Cleanup(end)
	p = &tab{t: t, ctx: ctx, file: filepath.Base(file)}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, runtime.Enable, cdp.Empty{})
	p.do(chromedp.Navigate(address))
	return p, heard
}

// size sets the window, as that of a phone if it is narrow.
func (p *tab) size(width int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
}

// theme sets what the reader prefers, and on what medium it is read.
func (p *tab) theme(theme, medium string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
}

// Check reports what Problems finds.
func Check(t testing.TB, browser context.Context, file string, pictures int) {
	t.Helper()
	for _, text := range Problems(t, browser, file, pictures) {
		t.Errorf("%s: %s", filepath.Base(file), text)
	}
}

// Problems opens a page and returns what is wrong:
//
//   - the console says something, something is fetched, or a policy is violated
//   - a picture is not drawn, or a part of one lies outside of it
//   - text has a contrast below 4.5:1, in the light or in the dark theme
//   - the page is wider than its window, be it that of a phone or of a desk
//   - the keyboard does not reach all that can be used, in order, or a table does
//     not unfold
//   - the tree for screen readers lacks landmarks, or a picture in it its name
//   - it does not print
//
// At least so many pictures must be there. A page that cannot be opened ends the
// test.
func Problems(t testing.TB, browser context.Context, file string, pictures int) []string {
	t.Helper()
	p, heard := openTab(t, browser, file)
	var f found
	seen := map[string]bool{} // what is wrong everywhere is said once
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 390, 768, 1400} {
			p.theme(theme, "")
			p.size(width)
			f = evaluate[found](p, probe)
			where := fmt.Sprintf("%s theme, %d wide", theme, width)
			for _, text := range f.Problems {
				if !seen[text] {
					seen[text] = true
					p.problem("%s: %s", where, text)
				}
			}
			if f.Wide > f.Window {
				p.problem("%s: the content is %v wide", where, f.Wide)
			}
			if f.Charts < pictures {
				p.problem("%s: %d pictures, want at least %d", where, f.Charts, pictures)
			}
		}
	}
	t.Logf("%s: %d pictures, %d texts, lowest contrast %.2f, %d places for the keyboard", p.file, f.Charts, f.Texts, f.Contrast, len(f.Reach))
	p.keyboard(f.Reach)
	p.screenReader(f.Charts)
	p.printing()
	return append(p.problems, heard()...)
}

// listen collects what the page says and asks for.
func listen(ctx context.Context, address string) (heard func() []string, err error) {
	var mu sync.Mutex
	var out []string
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, fmt.Sprintf(format, args...))
	}
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			say("console: %s", e.Type)
		case *runtime.EventExceptionThrown:
			say("exception: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			say("log, %s: %s", e.Entry.Level, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if e.Request.URL != address && !strings.HasPrefix(e.Request.URL, "data:") {
				say("it asked for %s", e.Request.URL)
			}
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return out
	}, err
}

// mostTabs bounds how far the keyboard is followed on a long page.
const mostTabs = 100

// keyboard walks through the page as someone without a mouse does.
func (p *tab) keyboard(reach []string) {
	p.t.Helper()
	if len(reach) < 3 {
		p.problem("only %d things can be reached", len(reach))
		return
	}
	unfolded := false
	for i, want := range reach[:min(len(reach), mostTabs)] {
		p.do(chromedp.KeyEvent(kb.Tab))
		got := evaluate[string](p, `window.kvbenchName(document.activeElement)`)
		if got != want {
			p.problem("tab %d reached %q, want %q", i+1, got, want)
			return
		}
		if i == 0 && !strings.Contains(got, "Skip to the content") {
			p.problem("the first thing reached is %q, not the link to the content", got)
		}
		if strings.HasPrefix(got, "summary") && !unfolded {
			unfolded = true
			p.do(chromedp.KeyEvent(kb.Enter))
			if !evaluate[bool](p, `document.activeElement.parentElement.open && document.activeElement.parentElement.querySelector("table").getBoundingClientRect().height > 0`) {
				p.problem("%q does not unfold with the enter key", got)
				return
			}
			p.do(chromedp.KeyEvent(kb.Enter))
		}
	}
}

// screenReader looks at the page as assistive software does.
func (p *tab) screenReader(pictures int) {
	p.t.Helper()
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	roles := map[string]int{}
	for _, n := range call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored {
			continue
		}
		role := text(n.Role)
		roles[role]++
		switch role {
		case "image", "img", "region", "link", "navigation", "table":
			if strings.TrimSpace(text(n.Name)) == "" {
				p.problem("for a screen reader, one %s has no name", role)
			}
		}
	}
	if n := roles["image"] + roles["img"]; n < pictures {
		p.problem("a screen reader finds %d pictures of %d; it finds %v", n, pictures, roles)
	}
	for _, role := range []string{"main", "banner", "contentinfo", "heading"} {
		if roles[role] == 0 {
			p.problem("a screen reader finds no %s", role)
		}
	}
}

// printing makes a PDF and looks at the style of print.
func (p *tab) printing() {
	p.t.Helper()
	call(p, emulation.ClearDeviceMetricsOverride, cdp.Empty{})
	p.theme("dark", "print")
	if ground := evaluate[string](p, `getComputedStyle(document.body).backgroundColor`); ground != "rgb(255, 255, 255)" {
		p.problem("prints on %s", ground)
	}
	pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
	if err != nil || !strings.HasPrefix(string(pdf), "%PDF-") || len(pdf) < 10_000 {
		p.problem("the print has %d bytes: %v", len(pdf), err)
	}
}

// Opening is how long a page takes to open.
type Opening struct {
	Loaded time.Duration // from the navigation until everything is there
	Laid   time.Duration // a whole layout after a change of width
	Nodes  int           // elements
}

// Open measures how a page opens and how long it takes to lay it out anew.
func Open(t testing.TB, browser context.Context, file string) Opening {
	t.Helper()
	p, _ := openTab(t, browser, file)
	loaded := evaluate[float64](p, `(n => n.loadEventEnd - n.startTime)(performance.getEntriesByType("navigation")[0])`)
	p.size(390)
	laid := evaluate[float64](p, `(() => { const t = performance.now(); document.body.style.width = "380px"; document.body.offsetHeight; const d = performance.now() - t; document.body.style.width = ""; return d })()`)
	nodes := evaluate[int](p, `document.getElementsByTagName("*").length`)
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return Opening{ms(loaded), ms(laid), nodes}
}
