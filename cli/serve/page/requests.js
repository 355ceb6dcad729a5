/* Requests to the server: the API key, the stream of an answer, and what of it a message keeps. The key
 * stays in the storage of the tab, or in the local storage if the user says so. */
"use strict";

let key = store.read("key", "", "sessionStorage") || store.read("key", "");
let asking = null;      /* promise of the dialog for the key: whether one was entered */

async function failureOf(response) {
    try { return new Error((await response.json()).error.message); }
    catch { return new Error("The server answered " + response.status + "."); }
}

/* Shows the field for the key. Requests that need a key at the same time share the answer. */
function askKey(sentence) {
    asking ??= new Promise(entered => {
        const dialog = at("ask-key");
        at("key-sentence").textContent = sentence;
        at("key").value = key;
        at("key-kept").checked = store.read("key", "") !== "";
        dialog.returnValue = "";
        dialog.onclose = () => {
            asking = null;
            if (dialog.returnValue) keepKey(at("key").value, at("key-kept").checked);
            entered(dialog.returnValue !== "");
        };
        dialog.showModal();
        at("key").select();
    });
    return asking;
}

function keepKey(entered, inBrowser) {
    key = entered;
    store.write("key", key, "sessionStorage");
    store.write("key", inBrowser ? key : "");
}

/* Throws a sentence for a connection that fails; browsers have words of their own for that. */
const lost = sentence => () => { throw new Error(sentence); };

/* Sends a request, again with each key that is entered where the server does not accept the last.
 * The response has the time when it was sent, as sentAt. */
async function call(path, body, signal) {
    for (;;) {
        const used = key, sentAt = performance.now(), options = {signal, headers: {
            "Content-Type": "application/json", ...(used && {Authorization: "Bearer " + used})}};
        if (body) Object.assign(options, {method: "POST", body: JSON.stringify(body)});
        const response = await fetch(path, options).catch(lost("The server cannot be reached."));
        if (response.ok) return Object.assign(response, {sentAt});
        if (response.status !== 401) throw await failureOf(response);
        const sentence = used ? "The server does not accept this API key." : "This server needs an API key.";
        if (used === key && !await askKey(sentence)) throw new Error(sentence);
    }
}

/* Yields the JSON objects of a stream of server-sent events. */
async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const {value, done} = await reader.read().catch(lost("The connection to the server was lost."));
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines)
            if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
    }
}

/* Adds text to the content, of which draft tokens and others are told apart. */
function addText(message, text, drafted) {
    const runs = message.runs ??= [message.content.length], isNext = (runs.length % 2 === 0) !== (drafted ?? false);
    message.content += text;
    if (isNext) runs.push(text.length);
    else runs[runs.length - 1] += text.length;
}

/* Adds a chunk of the answer to the message, and returns whether it had a part of it. */
function take(message, choice) {
    const {content, reasoning_content: reasoning, tool_calls: calls = []} = choice.delta ?? {content: choice.text};
    if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
    if (content) addText(message, content, choice.drafted);
    for (const call of calls) {
        message.calls ??= [];
        const to = message.calls[call.index] ??= {id: call.id, name: call.function.name, arguments: ""};
        to.arguments += call.function.arguments ?? "";
    }
    return Boolean(content || reasoning || calls.length);
}

/* How much of the prompt is processed, of answers that have not begun. */
const promptOf = new WeakMap();

/* Sends a request and fills the message while the answer comes. Returns why it ended. */
async function stream(request, message, signal, changed) {
    message.figures = {n: 0};
    promptOf.delete(message);
    const path = "prompt" in request ? "v1/completions" : "v1/chat/completions";
    const response = await call(path, request, signal);
    let first = 0, reason = null;
    for await (const event of events(response)) {
        signal.throwIfAborted(); // what has come already is not shown
        const f = message.figures, now = performance.now();
        if (event.error) throw new Error(event.error.message);
        if (event.prompt_progress) promptOf.set(message, event.prompt_progress);
        for (const choice of event.choices ?? []) {
            reason = choice.finish_reason ?? reason;
            if (!take(message, choice)) continue;
            if (!first) { first = now; f.first = (now - response.sentAt) / 1000; }
            f.n++;
            if (now > first) f.rate = 1000 * (f.n - 1) / (now - first);
        }
        if (event.timings) {
            message.figures = {n: event.timings.predicted_n, rate: event.timings.predicted_per_second,
                drafted: event.timings.draft_n, accepted: event.timings.draft_n_accepted};
            if (f.first) message.figures.first = f.first;
        }
        changed();
    }
    if (!reason) throw new Error("The server closed the connection before the answer was complete.");
    return reason;
}

/* ---- what a request has ---- */

function sent({role, content, calls}) {
    const toCall = ({id, name, arguments: given}) => ({id, type: "function", function: {name, arguments: given}});
    return {role, content, ...(calls && {tool_calls: calls.map(toCall)})};
}

/* The messages that the model is told: without answers that have no text, and without the questions of
 * these, as templates want the roles in turn. */
function toldOf(messages) {
    const isEmpty = message => message?.role === "assistant" && !message.content && !message.calls;
    return messages.filter((message, i) => !isEmpty(message) && !isEmpty(messages[i + 1]));
}

/* The request for an answer to the messages, or for the rest of it if the last message is an answer. A
 * base model continues a text, of which each question begins a paragraph. */
function requestOf(messages, {system, chat_template_kwargs, ...others}, isBase) {
    const told = toldOf(messages), options = {include_drafted: true};
    const request = {...others, stream: true, stream_options: options, return_progress: true};
    if (isBase) return {...request, prompt: told.reduce((text, {role, content}) =>
        text + (text && role === "user" ? "\n\n" : "") + content, "")};
    return {...request, chat_template_kwargs,
            messages: [...(system ? [{role: "system", content: system}] : []), ...told.map(sent)]};
}
