/* Shows the Markdown of an answer while it grows: CommonMark as models write it, with GitHub's tables,
 * tasks and strikethrough. Raw HTML, reference links, and links to other places than the web stay text.
 *
 * Elements come from createElement and text from text nodes, never from innerHTML, so no text of a
 * model becomes markup. All that is shown keeps its place in the source, by which the page tints drafted
 * tokens: a line, and every piece of one, is {text, at}, where `at` is an offset into the source.
 *
 * A block is final when a complete line after it belongs to another one. Final blocks are not read
 * again, and of the others only the nodes that differ are changed. */
"use strict";

const blockStarts = {
    fence: /^ {0,3}(`{3,}(?!.*`)|~{3,})[ \t]*(.*)$/,
    heading: /^ {0,3}(#{1,6})(?:[ \t]+|$)/,
    rule: /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/,
    quote: /^ {0,3}> ?/,
    item: /^(?<mark> {0,3}(?:[-*+]|(?<number>\d{1,9})[.)]))(?<space>[ \t]+|$)/,
    formula: /^ {0,3}(\$\$|\\\[)/,
};
const underline = /^ {0,3}(?:=+|-+)[ \t]*$/;
const delimiterRow = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
/* The beginnings of lines that could still become different blocks. */
const undecided = /^[\s>*+_#|=`~:$\\-]*(?:\d{1,9}[.)]?)?\s*$/;
const deepest = 16; /* quotes and lists within each other */

const isBlank = line => !/\S/.test(line.text);
const after = ({text, at}, n) => ({text: text.slice(n), at: at + n});

/* The width of the indentation; a tab reaches to the next multiple of four. */
function indentation({text}) {
    let width = 0;
    for (const c of text.match(/^[ \t]*/)[0]) width += c === "\t" ? 4 - width % 4 : 1;
    return width;
}

/* The line without its indentation, or without this width of it. */
function dedent(line, width = Infinity) {
    let n = 0;
    if (!/^[ \t]/.test(line.text)) return line;
    while (/[ \t]/.test(line.text[n] ?? "") && indentation({text: line.text.slice(0, n)}) < width) n++;
    return after(line, n);
}

/* The lines as pieces of one text. */
function joined(lines) {
    return lines.map(({text, at}, i) => ({text: i < lines.length - 1 ? text + "\n" : text, at}));
}

/* Whether the line ends a paragraph above it. */
function interrupts({text}) {
    const item = blockStarts.item.exec(text);
    if (["fence", "heading", "rule", "quote", "formula"].some(kind => blockStarts[kind].test(text))) return true;
    return item !== null && item[0].length < text.length && (item.groups.number ?? "1") === "1";
}

/* Whether the line continues a paragraph at the end of the lines, those of a quote or an item, without
 * their marks. */
function isLazy(line, lines) {
    return lines.length > 0 && !isBlank(line) && !isBlank(lines.at(-1)) && !interrupts(line) &&
        !blockStarts.item.test(line.text);
}

/* The cells of a row of a table, each as pieces. */
function cellsOf(line) {
    const row = after(line, line.text.match(/^\s*\|?/)[0].length), cells = [[]];
    for (const {0: text, index} of row.text.trimEnd().matchAll(/(?:[^|\\]|\\(?!\|))+|\\?\|/g)) {
        const piece = {text, at: row.at + index};
        if (text === "|") cells.push([]);
        else cells.at(-1).push(text === "\\|" ? after(piece, 1) : piece);
    }
    if (cells.length > 1 && !cells.at(-1).length) cells.pop();
    return cells.map(([first, ...others]) => first ? [dedent(first), ...others] : []);
}

class MarkdownView {
    /* Shows in a box. `put` appends pieces to an element. */
    constructor(box, put) {
        Object.assign(this, {box, put, begun: 0, nFinal: 0, depth: 0, open: false});
    }

    /* Shows the source, which begins with that of the last call. Until it is complete, what it has
     * begun is shown as if it ended well. */
    update(source, complete) {
        const lines = this.linesOf(source, complete), fresh = make("div");
        let nFinal = this.nFinal;
        for (let i = 0; i < lines.length;) {
            const start = i;
            if (isBlank(lines[i])) { i++; continue; }
            this.open = !complete;
            i = this.block(lines, start, fresh);
            if (complete || i >= lines.length - 1) continue;
            this.open = false;
            fresh.lastChild.remove();
            this.block(lines, start, fresh);
            nFinal++;
            this.begun = lines[i].at;
        }
        morph(this.box, this.nFinal, fresh);
        this.nFinal = nFinal;
    }

    /* The lines that are not final. While the source is not complete, the last one lacks what is
     * undecided, and the delimiters at its end. */
    linesOf(source, complete) {
        let at = this.begun;
        const lines = source.slice(at).split("\n").map(text => {
            const line = {text: text.replace(/\r$/, ""), at};
            at += text.length + 1;
            return line;
        });
        const last = lines.at(-1);
        if (!complete) last.text = last.text.replace(undecided, "").replace(/[*_`~\\!\[]+$/, "");
        if (!last.text) lines.pop();
        return lines;
    }

    /* Appends all blocks of the lines, and returns whether blank lines separate some of them. */
    blocks(lines, parent) {
        let isLoose = false;
        this.depth++;
        for (let i = 0; i < lines.length;) {
            if (isBlank(lines[i])) { i++; continue; }
            if (parent.lastChild && isBlank(lines[i - 1])) isLoose = true;
            i = this.block(lines, i, parent);
        }
        this.depth--;
        return isLoose;
    }

    inline(element, pieces) {
        new InlineText(pieces, this.put, this.open).appendTo(element);
    }

    /* ---- each appends the block that begins at lines[i] and returns the index after it ---- */

    block(lines, i, parent) {
        const begins = kind => blockStarts[kind].test(lines[i].text);
        if (indentation(lines[i]) >= 4) return this.indentedCode(lines, i, parent);
        if (begins("fence")) return this.fencedCode(lines, i, parent);
        if (begins("heading")) return this.heading(lines, i, parent);
        if (begins("rule")) { parent.append(make("hr")); return i + 1; }
        if (begins("quote") && this.depth < deepest) return this.quote(lines, i, parent);
        if (begins("item") && this.depth < deepest) return this.list(lines, i, parent);
        if (begins("formula")) return this.formula(lines, i, parent);
        if (this.beginsTable(lines, i)) return this.table(lines, i, parent);
        return this.paragraph(lines, i, parent);
    }

    paragraph(lines, i, parent) {
        let end = i + 1, tag = "p";
        for (; end < lines.length && !isBlank(lines[end]); end++) {
            if (underline.test(lines[end].text)) { tag = lines[end].text.includes("=") ? "h1" : "h2"; break; }
            if (interrupts(lines[end]) || this.beginsTable(lines, end)) break;
        }
        this.inline(parent.appendChild(make(tag)), joined(lines.slice(i, end).map(line => dedent(line))));
        return tag === "p" ? end : end + 1;
    }

    heading(lines, i, parent) {
        const [marks, {length: level}] = blockStarts.heading.exec(lines[i].text);
        const {text, at} = after(lines[i], marks.length), title = text.replace(/(?:^|[ \t]+)#+[ \t]*$/, "");
        this.inline(parent.appendChild(make("h" + level)), [{text: title, at}]);
        return i + 1;
    }

    fencedCode(lines, i, parent) {
        const [, fence, info] = blockStarts.fence.exec(lines[i].text), width = indentation(lines[i]);
        const close = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \t]*$`);
        let end = i + 1;
        while (end < lines.length && !close.test(lines[end].text)) end++;
        this.code(parent, info.split(/\s/)[0], lines.slice(i + 1, end).map(line => dedent(line, width)));
        return Math.min(end + 1, lines.length);
    }

    indentedCode(lines, i, parent) {
        let end = i + 1;
        for (let next = end; next < lines.length && (isBlank(lines[next]) || indentation(lines[next]) >= 4);)
            if (!isBlank(lines[next++])) end = next;
        this.code(parent, "", lines.slice(i, end).map(line => dedent(line, 4)));
        return end;
    }

    code(parent, language, lines) {
        const block = make("div", "code"), head = make("div", "head"), pre = make("pre");
        const code = make("code", language && "language-" + language);
        head.append(make("span", "", language), copyButton(button =>
            button.closest(".code").querySelector("code").textContent));
        this.put(code, joined(lines));
        pre.append(code);
        block.append(head, pre);
        parent.append(block);
    }

    quote(lines, i, parent) {
        const own = [];
        for (; i < lines.length; i++) {
            const marks = blockStarts.quote.exec(lines[i].text);
            if (!marks && !isLazy(lines[i], own)) break;
            own.push(after(lines[i], marks ? marks[0].length : 0));
        }
        this.blocks(own, parent.appendChild(make("blockquote")));
        return i;
    }

    list(lines, i, parent) {
        const read = line => line && !blockStarts.rule.test(line.text) && blockStarts.item.exec(line.text);
        const first = read(lines[i]), {number} = first.groups;
        const list = parent.appendChild(make(number ? "ol" : "ul"));
        const isLike = item => item && item.groups.mark.at(-1) === first.groups.mark.at(-1);
        let isLoose = false;
        if (number && number !== "1") list.start = Number(number);
        for (let item = first; isLike(item); item = read(lines[i])) {
            const {mark, space} = item.groups, isAlone = item[0].length === lines[i].text.length;
            const width = mark.length + (isAlone || space.length > 4 ? 1 : space.length);
            const own = [after(lines[i], width)], li = list.appendChild(make("li"));
            const {text, at} = own[0], task = /^\[([ xX])\](?= )/.exec(text);
            if (task) {
                li.className = "task";
                own[0] = {text: (task[1] === " " ? "\u2610" : "\u2611") + text.slice(3), at: at + 2};
            }
            if (li.previousSibling && isBlank(lines[i - 1])) isLoose = true;
            for (i++; i < lines.length; i++) {
                const isInside = isBlank(lines[i]) || indentation(lines[i]) >= width;
                if (!isInside && !isLazy(lines[i], own)) break;
                own.push(isInside ? dedent(lines[i], width) : lines[i]);
            }
            if (this.blocks(own, li)) isLoose = true;
        }
        if (!isLoose) for (const p of list.querySelectorAll(":scope > li > p")) p.replaceWith(...p.childNodes);
        return i;
    }

    /* A formula of lines of its own, whatever these lines look like; none of them is blank. */
    formula(lines, i, parent) {
        const begin = blockStarts.formula.exec(lines[i].text), close = begin[1] === "$$" ? "$$" : "\\]";
        let end = i;
        const closes = () => lines[end].text.indexOf(close, end === i ? begin[0].length : 0) >= 0;
        while (end < lines.length && !isBlank(lines[end]) && !closes()) end++;
        if (end === lines.length ? !this.open : !lines[end].text.trimEnd().endsWith(close))
            return this.paragraph(lines, i, parent);
        this.put(parent.appendChild(make("div", "formula")), joined(lines.slice(i, end + 1)));
        return Math.min(end + 1, lines.length);
    }

    /* While more may follow, a line that begins as a row is taken for the head of a table. */
    beginsTable(lines, i) {
        const {text} = lines[i], next = lines[i + 1];
        if (!next) return this.open && /^\s*\|/.test(text);
        return text.includes("|") && next.text.includes("|") && delimiterRow.test(next.text) &&
            cellsOf(lines[i]).length === cellsOf(next).length;
    }

    table(lines, i, parent) {
        const table = make("table"), body = make("tbody"), head = cellsOf(lines[i]);
        const marks = lines[i + 1] ? cellsOf(lines[i + 1]).map(cell => cell[0]?.text ?? "") : [];
        const addRow = (section, tag, cells) => {
            const row = section.appendChild(make("tr"));
            for (let column = 0; column < head.length; column++) {
                const cell = row.appendChild(make(tag)), mark = marks[column] ?? "";
                if (/:\s*$/.test(mark)) cell.style.textAlign = mark.startsWith(":") ? "center" : "right";
                this.inline(cell, cells[column] ?? []);
            }
        };
        addRow(table.appendChild(make("thead")), "th", head);
        for (i += 2; i < lines.length && !isBlank(lines[i]) && !interrupts(lines[i]); i++)
            addRow(body, "td", cellsOf(lines[i]));
        if (body.lastChild) table.append(body);
        parent.appendChild(make("div", "scroll")).append(table);
        return Math.min(i, lines.length);
    }
}
