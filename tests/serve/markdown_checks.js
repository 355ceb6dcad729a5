/* Checks of cli/serve/page/markdown.js, which test_serve_markdown.c calls in a browser. Each returns
 * what is wrong, and "" if nothing is. */
"use strict";

const putPlain = (element, pieces) => element.append(...pieces.map(piece => piece.text));

function shown(markdown, complete = true) {
    const box = make("div");
    new MarkdownView(box, putPlain).update(markdown, complete);
    return box;
}

/* Feeds a view piece by piece, and calls `look` after each. */
function streamed(markdown, size, look = () => {}) {
    const box = make("div"), view = new MarkdownView(box, putPlain);
    for (let end = size; end < markdown.length; end += size) {
        view.update(markdown.slice(0, end), false);
        look(box, end);
    }
    view.update(markdown, true);
    return box;
}

function different(what, is, wanted) {
    let from = 0;
    if (is === wanted) return "";
    while (is[from] === wanted[from]) from++;
    from = Math.max(from - 100, 0);
    return what + "\n  is     " + is.slice(from, from + 300) + "\n  wanted " + wanted.slice(from, from + 300) + "\n";
}

/* ---- equality with another implementation ---- */

/* The HTML of an element's children: only what Markdown means, with whitespace as it is shown. */
function canonical(element) {
    const write = node => {
        if (node.nodeType === Node.TEXT_NODE)
            return (node.parentNode.closest("pre") ? node.data : node.data.replace(/\s+/g, " "))
                .replaceAll("<", "&lt;");
        const inner = [...node.childNodes].map(write).join(""), tag = node.tagName.toLowerCase().replace(/^s$/, "del");
        if (tag === "img") return node.alt;
        if (tag === "span") return inner;
        const attributes = ["href", "title", "class", "start"].filter(name => node.getAttribute(name))
            .map(name => " " + name + "=" + node.getAttribute(name));
        if (tag === "a") attributes[0] = " href=" + node.href;
        if (/center|right/.test(node.style.textAlign)) attributes.push(" " + node.style.textAlign);
        return "<" + tag + attributes.join("") + ">" + inner + "</" + tag + ">";
    };
    const blocks = /\s*(<\/?(?:p|ul|ol|li|blockquote|h\d|hr|table|thead|tbody|tr|th|td|pre|br)\b[^>]*>)\s*/g;
    return [...element.childNodes].map(write).join("").replace(blocks, "$1").replace(/\n+<\/code>/g, "</code>");
}

function canonicalView(box) {
    const copy = box.cloneNode(true);
    copy.normalize();
    for (const code of copy.querySelectorAll(".code")) code.replaceWith(code.querySelector("pre"));
    for (const scroll of copy.querySelectorAll(".scroll")) scroll.replaceWith(scroll.firstChild);
    return canonical(copy);
}

const canonicalHtml = html => canonical(new DOMParser().parseFromString(html, "text/html").body);

/* Whether each Markdown is shown as this HTML. */
function compare(cases, complete) {
    return cases.map(([markdown, html]) => different(JSON.stringify(markdown),
        canonicalView(shown(markdown, complete)), canonicalHtml(html))).join("");
}

const checkCases = cases => compare(cases.map(({markdown, html}) => [markdown, html]), true);

/* What the page shows otherwise than CommonMark, on purpose. */
const own = [
    ["**\u300c\u6587\u5b57\u300d**\u6587 **bold:**text",
        "<p><strong>\u300c\u6587\u5b57\u300d</strong>\u6587 <strong>bold:</strong>text</p>"],
    ["a<br>b<BR/>c<br />d", "<p>a<br>b<br>c<br>d</p>"],
    ["![alt](https://i.example/a.png \"t\")",
        "<p><a href='https://i.example/a.png' title='t'>alt</a></p>"],
    ["![](https://a.example)", "<p><a href='https://a.example'>https://a.example</a></p>"],
    ["[a](x.html) [b](#c) [d](ftp://e.example)", "<p>[a](x.html) [b](#c) [d](ftp://e.example)</p>"],
    ["[a][b]\n\n[b]: https://c.example",
        "<p>[a][b]</p><p>[b]: <a href='https://c.example'>https://c.example</a></p>"],
    ["\\(a_1 * b_2 * c\\) and \\[x*y*z\\]", "<p>\\(a_1 * b_2 * c\\) and \\[x*y*z\\]</p>"],
    ["$a_1$ $x*y*z$ $$p*q*r$$ **$5** and $10",
        "<p>$a_1$ $x*y*z$ $$p*q*r$$ <strong>$5</strong> and $10</p>"],
    ["$5 *now*, $10 *then*", "<p>$5 <em>now</em>, $10 <em>then</em></p>"],
    ["text\n\\[\nx_1\n= *y*\n- z\n# 1\n\\]\n*a*",
        "<p>text</p><div class=formula>\\[\nx_1\n= *y*\n- z\n# 1\n\\]</div><p><em>a</em></p>"],
    ["$$\na\\\\\n+ b\n$$", "<div class=formula>$$\na\\\\\n+ b\n$$</div>"],
    ["- [ ] *open*\n- [x] done\n- [y] [ ]", "<ul><li class=task>\u2610 <em>open</em></li>" +
        "<li class=task>\u2611 done</li><li>[y] [ ]</li></ul>"],
    ["\\[x\\](y)", "<p>\\[x\\](y)</p>"],
    ["\\[ *not* a formula \\(", "<p>[ <em>not</em> a formula (</p>"],
    ["$$$ is *much*\n\n- $$", "<p>$$$ is <em>much</em></p><ul><li>$$</li></ul>"],
    ["$$x$$ is *good*", "<p>$$x$$ is <em>good</em></p>"],
];

const checkOwn = () => compare(own, true);

/* ---- a growing text ---- */

/* The end is as if all had come at once, wherever the text is cut. */
function checkStreams(cases) {
    const texts = [...cases.map(one => one.markdown), ...own.map(one => one[0])];
    const all = texts.join("\n\nNext\n\n");
    const check = (text, size) => different(size + " at a time: " + JSON.stringify(text).slice(0, 200),
        streamed(text, size).innerHTML, shown(text).innerHTML);
    return [5, 15, 85].map(size => check(all, size)).join("") +
        texts.map(text => [1, 3, 17].map(size => check(text + "\n\nEnd\n\nmore", size)).join("")).join("");
}

/* What has only begun is shown as if it ended well. */
const begun = [
    ["**bo", "<p><strong>bo</strong></p>"],
    ["a **bold*", "<p>a <strong>bold</strong></p>"],
    ["a `co", "<p>a <code>co</code></p>"],
    ["a\n-", "<p>a</p>"],
    ["a\n1.", "<p>a</p>"],
    ["- a\n*", "<ul><li>a</li></ul>"],
    ["``", ""],
    ["a **", "<p>a</p>"],
    ["```py\nx = `", "<pre><code class=language-py>x = </code></pre>"],
    ["| a | b |\n|--", "<table><thead><tr><th>a</th><th>b</th></tr></thead></table>"],
    ["[a](https://x.ex", "<p>a</p>"],
    ["\\(a*b*c", "<p>\\(a*b*c</p>"],
    ["$$\na\n- b", "<div class=formula>$$\na\n- b</div>"],
    ["> ", ""],
    ["5 * 3", "<p>5 * 3</p>"],
];

const checkBegun = () => compare(begun, false);

/* Elements stay while the text grows, and the number of those made grows as the text does. */
function checkWork() {
    const section = "## Head\n\nSome **text** with `code`.\n\n- a\n- b\n\n```c\nint x;\n```\n\n";
    const create = document.createElement;
    const work = n => {
        let made = 0, first = null, kept = true;
        document.createElement = function (tag) { made++; return create.call(document, tag); };
        streamed(section.repeat(n), 3, box => {
            kept &&= first === null || first === box.firstChild;
            first ??= box.firstChild;
        });
        document.createElement = create;
        return kept ? made : Infinity;
    };
    const few = work(20), many = work(80);
    return many <= 4.2 * few ? "" : few + " elements for 20 sections, " + many + " for 80";
}

/* ---- places in the source ---- */

/* Each piece stands in the source where it says, and nothing is shown twice. */
function misplaced(markdown) {
    const seen = new Set();
    let wrong = "";
    new MarkdownView(make("div"), (element, pieces) => {
        for (const {text, at} of pieces) {
            for (let i = 0; i < text.length; i++) {
                const there = markdown[at + i] ?? "\n", isSpace = /\s/.test(text[i]) && /\s/.test(there);
                const isNew = !seen.has(at + i) || /[*_~]/.test(text[i]);
                if (!isNew || !(text[i] === there || there === "&" || isSpace))
                    wrong = JSON.stringify(markdown) + ": " + JSON.stringify(text) + " is not at " + at + "\n";
                seen.add(at + i);
            }
        }
    }).update(markdown, true);
    return wrong;
}

const checkPlaces = cases => cases.map(({markdown}) => misplaced(markdown)).join("");

/* ---- hostile texts ---- */

const hostile = [
    "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))",
    "[a](\tjavascript:alert(1))", "![a](javascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)", "[a](vbscript:x)", "<javascript:alert(1)>",
    "[a](&#106;avascript:alert(1))", "[a](https://x.example\"onmouseover=\"alert(1))",
    "[a](https://x.example 'x\" onclick=\"alert(1)')", "```\"><img/src=x/onerror=alert(1)>\n<b>\n```",
    "`<script>alert(1)</script>`",
    "| <img src=x onerror=alert(1)> | b |\n|---|---|\n| <svg onload=alert(1)> | <iframe src=javascript:alert(1)> |",
    "- <img src=x onerror=alert(1)>\n> <b>", "# <style>*{display:none}</style>",
    "&lt;img src=x onerror=alert(1)&gt;", "https://x.example/<img>",
    "[<img src=x onerror=alert(1)>](https://a.example)", "[a](//x.example)", "[a](file:///etc/passwd)",
    "$<img src=x onerror=alert(1)>$", "<a href=javascript:alert(1)>b</a>",
];
const tags = ("A BLOCKQUOTE BR BUTTON CODE DEL DIV EM H1 H2 H3 H4 H5 H6 HR LI OL P PRE SPAN STRONG TABLE TBODY " +
    "TD TH THEAD TR UL").split(" ");
const attributes = "class href target rel title start style".split(" ");

/* The elements in a box that Markdown has no use for, or that could do harm. */
function harmful(box) {
    return [...box.querySelectorAll("*")].filter(element => {
        const isKnown = tags.includes(element.tagName) &&
            element.getAttributeNames().every(name => attributes.includes(name));
        const isSafeLink = element.tagName !== "A" || (/^(https?|mailto):$/.test(element.protocol) &&
            element.target === "_blank" && /\bnoopener\b/.test(element.rel));
        return !isKnown || !isSafeLink;
    }).map(element => element.outerHTML + "\n").join("");
}

function checkHostile() {
    let wrong = "";
    window.alert = () => { wrong += "a script ran\n"; };
    const look = box => {
        document.body.replaceChildren(box);
        wrong += harmful(box);
    };
    for (const text of hostile) look(streamed(text, 1, look));
    for (const text of hostile.filter(one => /^<|^\[a\]\(javascript/.test(one)))
        wrong += different(text, shown(text).textContent, text);
    document.body.replaceChildren();
    return wrong;
}

/* Random texts of these words have no harmful elements, all is at its place, and they may grow. */
const words = ["a", "b ", " ", "  ", "    ", "\n", "\n\n", "- ", "1. ", "2) ", "> ", "# ", "```", "~~~\n", "`", "``", "*", "**",
    "***", "_", "__", "~~", "[", "](", ")", "](https://a.example)", "![", "<", ">", "<br>", "https://b.example/(c)", "$", "$$",
    "\\[", "\\]", "\\(", "\\)", "\\", "|", "| a | b |\n|---|:-:|\n", "---", "===", "&lt;", "\t", "\r\n", "<img src=x>"];

function checkRandom() {
    let state = 1, wrong = "";
    const below = n => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return Math.floor(state / 2 ** 32 * n);
    };
    for (let i = 0; i < 3000 && !wrong; i++) {
        let text = "";
        for (let n = 1 + below(16); n > 0; n--) text += words[below(words.length)];
        text += below(2) ? "\n\nEnd\n\nmore" : "";
        const whole = shown(text);
        wrong = harmful(whole) + misplaced(text) +
            different(JSON.stringify(text), streamed(text, 1 + below(4)).innerHTML, whole.innerHTML);
    }
    return wrong;
}

const endless = [
    ">", "> ", "- ", "1. ", "*a ", "_a *b ", "**", "* ", "[", "![", "[a](", "`", "` ``", "\\(", "$",
    "$a ", "$$a ", "| ", "|a|\n|-|\n", "<", "&", "~~a ", "https://", "(", " ", "\t", "\n", "  \n", "#",
    "# ", "```\n", "a\n", "***a ", "[a]", "&amp;", "**a** ",
];

/* Texts that repeat themselves without end, as small models write them, take no more than a moment,
 * at one of three tries. */
function checkEndless() {
    const time = text => {
        const began = performance.now();
        shown(text);
        shown(text, false);
        return performance.now() - began;
    };
    return endless.map(unit => {
        const text = unit.repeat(Math.ceil(20000 / unit.length)), isQuick = [1, 2, 3].some(() => time(text) < 2000);
        return isQuick ? "" : JSON.stringify(unit) + " takes more than two seconds\n";
    }).join("");
}
