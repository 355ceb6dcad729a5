/* How messages are shown: the text, the reasoning, tool calls, why an answer ended, its figures, and the
 * buttons that change the conversation. */
"use strict";

const shortest = 64;    /* tokens of an answer whose rate is no noise */
const endings = {       /* of answers that are not complete */
    stopped: "Stopped.",
    closed: "Stopped, because the page was closed or loaded again.",
    growing: "Another window is writing this answer, or was closed.",
    max: "Stopped at the limit of tokens for an answer.",
    length: "Stopped, because the context of the model is full.",
};

/* Appends pieces of an answer to an element. Those that were drafted, which have a 1 in `drafted` at
 * their place, are in spans. */
function putTinted(element, pieces, drafted) {
    let run = "", kind;
    const end = () => {
        if (run) element.append(kind === "1" ? make("span", "drafted", run) : run);
        run = "";
    };
    for (const {text, at} of pieces) {
        for (let i = 0; i < text.length; i++) {
            const next = drafted[at + i] ?? kind;
            if (next !== kind) end();
            kind = next;
            run += text[i];
        }
    }
    end();
}

/* Whether one request wrote the message to its end. */
const isWhole = ({end, error, isContinued}) => !error && !isContinued && (!end || end === "max");

/* Returns a function that shows in an element what was added to the content of an answer. */
function showContent(message, element) {
    let drafted;
    const put = (to, pieces) => putTinted(to, pieces, drafted), view = new MarkdownView(element, put);
    return () => {
        const fresh = make("div");
        drafted = (message.runs ?? []).map((n, i) => String(i % 2).repeat(n)).join("");
        if (!message.isPlain) return view.update(message.content, !isGrowing(message));
        put(fresh, [{text: message.content, at: 0}]);
        return morph(element, 0, fresh);
    };
}

/* Returns the element of a message, whose method `update` shows what was added. */
function showMessage(message) {
    const box = make("article", "message " + message.role), text = make("div", "text"), rest = make("div");
    const fold = make("details"), reasoning = new Text(), isAnswer = message.role === "assistant";
    const update = isAnswer ? showContent(message, text) : () => { text.textContent = message.content; };
    box.ariaLabel = isAnswer ? "Answer" : "Question";
    fold.append(make("summary", "", "Reasoning"), make("div", "text"));
    fold.lastChild.append(reasoning);
    box.append(text, rest);
    box.update = () => {
        if (message.reasoning && !fold.parentNode) box.prepend(fold);
        reasoning.appendData((message.reasoning ?? "").slice(reasoning.length));
        update();
        rest.replaceChildren(...(message.calls ?? []).map(call =>
            make("div", "call", call.name + "(" + call.arguments + ")")));
        if (message.error) rest.append(make("div", "error", message.error));
        else if (message.end && !isGrowing(message)) rest.append(make("div", "ending", endings[message.end]));
        rest.append(isAnswer ? showFigures(message) : showActions(message));
    };
    box.update();
    return box;
}

/* ---- figures ---- */

function describe({n, rate, drafted, accepted, first}) {
    const words = [n + (n === 1 ? " token" : " tokens")];
    if (rate) words.push(rate.toFixed(1) + " tokens/s");
    if (drafted) words.push(Math.round(100 * accepted / drafted) + "% of " + drafted + " draft tokens accepted");
    if (first) words.push("first token after " + first.toFixed(2) + " s");
    return words;
}

/* What is done of the prompt, and how long the rest takes at the rate so far. */
function describePrompt({total, cache, processed, time_ms: time} = {}) {
    const left = time / 1000 * (total - processed) / (processed - cache);
    if (!(processed < total)) return "waiting for the first token ...";
    return `processing the prompt: ${processed} of ${total} tokens` +
        (Number.isFinite(left) ? `, ${Math.ceil(left)} s left` : "");
}

function showFigures(message) {
    const line = make("div", "figures"), add = words => line.append(make("span", "", words));
    if (models.size > 1 && message.settings) add(message.settings.model);
    if (message.figures?.n) describe(message.figures).forEach(add);
    else if (isGrowing(message)) add(describePrompt(promptOf.get(message)));
    if (isGrowing(message)) return line;
    if (message.compared) add(message.compared);
    line.append(showActions(message));
    return line;
}

/* The buttons of a message. */
function showActions(message) {
    const line = make("div", "actions"), isAnswer = message.role === "assistant";
    const add = (text, action) => line.append(textButton(text, action)), i = () => open.messages.indexOf(message);
    if (message.content) line.append(copyButton(() => message.content));
    if (isAnswer) add("Try again", () => retry(i()));
    else add("Edit", () => edit(i()));
    if (message.content && message === open.messages.at(-1) && (message.end || message.error || message.isPlain))
        add("Continue", () => resume(i()));
    if (message.figures?.drafted && message.settings && !message.compared && isWhole(message))
        add("Compare without drafting", button => compare(message, button));
    if (message.versions) line.append(showVersions(message, i));
    return line;
}

function showVersions({versions}, i) {
    const place = versions.indexOf(null), line = make("span", "versions");
    const turn = (text, label, by) => {
        const button = textButton(text, () => chooseShown(i(), place + by, label));
        button.ariaLabel = label;
        button.disabled = versions[place + by] === undefined;
        return button;
    };
    line.append(turn("\u2039", "Previous version", -1), place + 1 + " of " + versions.length,
                turn("\u203a", "Next version", 1));
    return line;
}
