// Looks at the page that it is evaluated in and returns what it found.
(() => {
	const problems = [], say = (text) => { if (problems.length < 20) problems.push(text) };

	// A name of an element, by which the test knows it again.
	window.kvbenchName = (e) => e.tagName.toLowerCase() + " " + (e.getAttribute("aria-label") || e.textContent.trim().slice(0, 80)) + (e.id ? " #" + e.id : "");

	// Every picture is drawn, and all of it lies within its edges.
	const charts = [...document.querySelectorAll("svg.chart")];
	for (const svg of charts) {
		const name = svg.querySelector("title").textContent, box = svg.viewBox.baseVal, at = svg.getBoundingClientRect();
		if (at.width < 100 || at.height < 20) say(`picture "${name}" is ${at.width} x ${at.height}`);
		let shapes = 0;
		for (const e of svg.querySelectorAll("path, circle, text")) {
			const b = e.getBBox();
			if (b.width + b.height === 0) say(`picture "${name}": a ${e.tagName} has no size: ${e.outerHTML.slice(0, 120)}`);
			if (b.x < -1 || b.y < -1 || b.x + b.width > box.width + 1 || b.y + b.height > box.height + 1)
				say(`picture "${name}": a ${e.tagName} reaches out of it: ${JSON.stringify([b.x, b.y, b.width, b.height])} ${e.textContent.slice(0, 40)}`);
			const style = getComputedStyle(e);
			if (style.fill === "none" && style.stroke === "none") say(`picture "${name}": a ${e.tagName} has no colour`);
			shapes++;
		}
		if (shapes < 1) say(`picture "${name}" is empty`);
	}

	// Contrast of text, as WCAG 2 defines it.
	const parse = (c) => { const m = c.match(/rgba?\(([^)]+)\)/); return m ? m[1].split(/[ ,/]+/).map(Number) : null };
	const lum = (c) => { const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }; return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]) };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c && (c[3] === undefined || c[3] === 1)) return c } return [255, 255, 255] };
	let contrast = 21, texts = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = new Set();
	for (let n = walker.nextNode(); n; n = walker.nextNode()) {
		const e = n.parentElement;
		if (!n.textContent.trim() || seen.has(e) || ["title", "desc", "style"].includes(e.tagName.toLowerCase())) continue;
		seen.add(e);
		const style = getComputedStyle(e), colour = parse(e.tagName === "text" ? style.fill : style.color);
		const a = lum(colour), b = lum(ground(e)), c = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		texts++;
		if (c < 4.5) say(`contrast ${c.toFixed(2)} of "${n.textContent.trim().slice(0, 40)}"`);
		contrast = Math.min(contrast, c);
	}

	// What the keyboard should reach: links, summaries and regions that scroll,
	// where no fold hides them.
	const folded = (e) => { for (let p = e.parentElement; p; p = p.parentElement) if (p.tagName === "DETAILS" && !p.open && !(e.tagName === "SUMMARY" && e.parentElement === p)) return true; return false };
	const reach = [...document.querySelectorAll('a[href], summary, [tabindex="0"]')].filter((e) => !folded(e) && getComputedStyle(e).display !== "none").map(window.kvbenchName);

	const root = document.scrollingElement;
	return { problems, charts: charts.length, texts, wide: root.scrollWidth, window: root.clientWidth, contrast, reach };
})()
