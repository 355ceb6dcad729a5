/* The Markdown inside of a paragraph, a heading or a cell: emphasis, code, links, line breaks. Formulas
 * keep their delimiters and all that is between them: \(x_1\), $x_1$, \[x_1\], $$x_1$$. */
"use strict";

/* Where something other than plain text may begin, and the method that reads it. */
const special = /[\\`$*_~\[<&\n]|!\[|https?:\/\//g;
const readers = {
    "\\": "escape", "`": "code", "$": "formula", "*": "emphasis", "_": "emphasis", "~": "emphasis",
    "[": "link", "![": "link", "<": "angle", "&": "entity", "\n": "newline", "http://": "bareLink",
    "https://": "bareLink",
};
const formulas = new RegExp(
    /\\\([^]{0,4000}?\\\)|\\\[[^]{0,4000}?\\\]|\$\$[^]{1,4000}?\$\$/.source +        // \(x\) \[x\] $$x$$
    /|\$(?![\s$])(?:[^$\\\n]|\\.)*(?<!\s)\$(?!\d)/.source, "y");                   // $x$, but no prices
const begunFormula = /(?:\\[(\[]|\$\$)[^]*/y;
const links = new RegExp(
    /!?\[((?:[^\[\]\\`]|\\[^]|`[^`]*`|\[[^\[\]]*\])*)\]/.source +             // label
    /\(\s*(<[^<>\n]*>|(?:[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)/.source +   // address
    /(?:\s+("[^"]*"|'[^']*'|\([^()]*\)))?\s*\)/.source, "y");                 // title
const begunLink = /!?\[([^\[\]]+)\]\([^()\s]*$/y;
const bareLinks = /https?:\/\/(?:[^\s<>`*"()]|\([^\s<>`*"()]*\))+/y;
const angleLinks = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/iy;
const allowedAddress = /^(?:https?:\/\/|mailto:)/i;
const entities = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "\"", "&#39;": "'", "&nbsp;": "\u00a0"};

/* Whether delimiters of this length are a pair; rules 9 and 10 of CommonMark's section on emphasis. */
function arePair(opener, closer) {
    if (opener.char !== closer.char) return false;
    if (closer.char === "~") return opener.n === 2 && closer.n === 2;
    return !(opener.isBoth || closer.isBoth) || (opener.whole + closer.whole) % 3 !== 0 ||
        (opener.whole % 3 === 0 && closer.whole % 3 === 0);
}

class InlineText {
    /* Reads pieces of a text. `put` shows pieces in an element; `open` says that more may follow. */
    constructor(pieces, put, open, inLink = false) {
        Object.assign(this, {put, open, inLink, openers: [], places: []});
        this.text = pieces.map(piece => piece.text).join("").trimEnd();
        for (const {text, at} of pieces)
            for (let i = 0; i < text.length; i++) this.places.push(at + i);
    }

    appendTo(parent) {
        for (let i = 0; i < this.text.length;) {
            special.lastIndex = i;
            const found = special.exec(this.text), at = found ? found.index : this.text.length;
            this.show(parent, i, at);
            i = found ? this[readers[found[0]]](parent, at, found[0]) : at;
        }
        const strong = this.open && this.openers.find(opener => opener.n > 1 && opener.char !== "~");
        if (strong) this.wrap(parent, strong, "strong", strong.n);
    }

    match(pattern, at) {
        pattern.lastIndex = at;
        return pattern.exec(this.text);
    }

    /* The pieces of a part of the text. */
    pieces(from, to) {
        const pieces = [];
        for (let i = from; i < to; i++) {
            if (i > from && this.places[i] === this.places[i - 1] + 1) pieces.at(-1).text += this.text[i];
            else pieces.push({text: this.text[i], at: this.places[i]});
        }
        return pieces;
    }

    /* Shows a part of the text as it is, and returns its end. */
    show(parent, from, to) {
        if (from < to) this.put(parent, this.pieces(from, to));
        return to;
    }

    /* ---- readers: each shows what begins at `at` and returns its end ---- */

    escape(parent, at) {
        const next = this.text[at + 1] ?? "", end = /[(\[]/.test(next) ? this.formulaEnd(at) : at;
        if (end > at) return this.show(parent, at, end);
        if (next === "\n") { parent.append(make("br")); return at + 2; }
        if (/[!-\/:-@\[-`{-~]/.test(next)) return this.show(parent, at + 1, at + 2);
        return this.show(parent, at, at + 1);
    }

    formula(parent, at) {
        return this.show(parent, at, Math.max(this.formulaEnd(at), at + 1));
    }

    /* The end of the formula that begins at `at`; `at` if none does. */
    formulaEnd(at) {
        const found = this.match(formulas, at) ?? (this.open && this.match(begunFormula, at));
        return at + (found ? found[0].length : 0);
    }

    code(parent, at) {
        const fence = this.match(/`+/y, at)[0], begin = at + fence.length;
        const found = this.match(new RegExp("(?<!`)" + fence + "(?!`)", "g"), begin);
        if (!found && !this.open) return this.show(parent, at, begin);
        const end = found ? found.index : this.text.length, inner = this.text.slice(begin, end);
        const padding = found && /^\s.*\S.*\s$/s.test(inner) ? 1 : 0;
        this.put(parent.appendChild(make("code")), this.pieces(begin + padding, end - padding)
            .map(({text, at: place}) => ({text: text.replaceAll("\n", " "), at: place})));
        return end + (found ? fence.length : 0);
    }

    /* A run of delimiters: closes what was opened, and what is left may open. Other than in CommonMark,
     * brackets alone of all punctuation beside it matter: **bold:**text is common, and without spaces
     * between words most of all. */
    emphasis(parent, at, char) {
        const whole = this.match(/([*_~])\1*/y, at)[0].length, end = at + whole;
        const before = this.text[at - 1] ?? " ", after = this.text[end] ?? " ";
        const opens = /[^\s\p{Pe}\p{Pf}]/u.test(after) && (char !== "_" || !/[\p{L}\p{N}]/u.test(before));
        const closes = /[^\s\p{Ps}\p{Pi}]/u.test(before) && (char !== "_" || !/[\p{L}\p{N}]/u.test(after));
        const run = {char, whole, n: whole, isBoth: opens && closes};
        while (closes && run.n > 0) {
            const opener = this.openers.findLast(one => arePair(one, run));
            if (!opener) break;
            const n = opener.n > 1 && run.n > 1 ? 2 : 1;
            this.wrap(parent, opener, char === "~" ? "del" : n === 2 ? "strong" : "em", n);
            run.n -= n;
        }
        if (!opens || !run.n) return this.show(parent, end - run.n, end);
        run.at = end - run.n;
        run.span = parent.appendChild(make("span"));
        this.show(run.span, run.at, end);
        this.openers.push(run);
        return end;
    }

    /* Moves what follows an opener into an element, which takes n of its delimiters. */
    wrap(parent, opener, tag, n) {
        const element = make(tag);
        while (opener.span.nextSibling) element.append(opener.span.nextSibling);
        parent.append(element);
        opener.n -= n;
        opener.span.replaceChildren();
        this.show(opener.span, opener.at, opener.at + opener.n);
        if (opener.n === 0) opener.span.remove();
        this.openers.length = this.openers.indexOf(opener) + (opener.n > 0 ? 1 : 0);
    }

    link(parent, at, begin) {
        const found = this.match(links, at), label = at + begin.length;
        if (!found) {
            const begun = this.open && this.match(begunLink, at);
            if (!begun) return this.show(parent, at, label);
            this.show(parent, label, label + begun[1].length);
            return this.text.length;
        }
        const [all, words, address, title] = found;
        const url = address.replace(/^<|>$/g, "").replace(/\\([!-\/:-@\[-`{-~])/g, "$1");
        if (!allowedAddress.test(url)) return this.show(parent, at, label);
        const element = this.linkTo(parent, url);
        if (title) element.title = title.slice(1, -1);
        if (!words) element.textContent = url;
        new InlineText(this.pieces(label, label + words.length), this.put, this.open, true).appendTo(element);
        return at + all.length;
    }

    /* Appends a link; inside of another link only a span. */
    linkTo(parent, url) {
        const element = parent.appendChild(make(this.inLink ? "span" : "a"));
        if (!this.inLink) Object.assign(element, {href: url, target: "_blank", rel: "noopener noreferrer"});
        return element;
    }

    bareLink(parent, at, begin) {
        const found = this.match(bareLinks, at)?.[0].replace(/[?!.,:;_~'\]]+$/, "");
        if (!found || this.inLink || /\w/.test(this.text[at - 1] ?? ""))
            return this.show(parent, at, at + begin.length);
        return this.show(this.linkTo(parent, found), at, at + found.length);
    }

    angle(parent, at) {
        const found = this.match(angleLinks, at), br = this.match(/<br ?\/?>/iy, at);
        if (br) { parent.append(make("br")); return at + br[0].length; }
        if (!found) return this.show(parent, at, at + 1);
        this.show(this.linkTo(parent, found[1]), at + 1, at + 1 + found[1].length);
        return at + found[0].length;
    }

    entity(parent, at) {
        const found = this.match(/&(?:amp|lt|gt|quot|#39|nbsp);/y, at);
        if (!found) return this.show(parent, at, at + 1);
        this.put(parent, [{text: entities[found[0]], at: this.places[at]}]);
        return at + found[0].length;
    }

    /* Two spaces before the end of a line make a break; others are shown as breaks by the style. */
    newline(parent, at) {
        if (!/ {2}$/.test(this.text.slice(Math.max(at - 2, 0), at))) return this.show(parent, at, at + 1);
        parent.append(make("br"));
        return at + 1;
    }
}
