/* The page: conversations, requests, figures, settings. Conversations and settings stay in the
 * browser's local storage; an API key in the storage of the tab, or in the local storage if the user
 * says so. */
"use strict";
const at = id => document.getElementById(id);
const kept = ["model", "system", "temperature", "seed", "max", "depth", "think"];
const store = {
    read(name, otherwise, place = "localStorage") {
        try { return JSON.parse(window[place].getItem("spectool." + name)) ?? otherwise; }
        catch { return otherwise; }
    },
    write(name, value, place = "localStorage") {
        try { window[place].setItem("spectool." + name, JSON.stringify(value)); }
        catch { /* without storage the page works until it is closed */ }
    },
};
const shortest = 64;    /* tokens of an answer whose rate is no noise */
let conversations = store.read("conversations", []);
let open = null;        /* the conversation shown: {title, messages: [...]} */
let running = null;     /* AbortController of the answer under way */
let answering = null;   /* the answer that grows */
let key = store.read("key", "", "sessionStorage") || store.read("key", "");
let asking = null;      /* promise of the dialog for the key: whether one was entered */

/* ---- conversations ---- */

function showList() {
    at("list").replaceChildren(...conversations.map(c => {
        const row = make("li", c === open ? "open" : ""), title = make("button", "", c.title),
              drop = make("button", "plain", "\u00d7");
        title.onclick = () => { select(c); at("side").classList.remove("shown"); };
        drop.setAttribute("aria-label", "Delete " + c.title);
        drop.onclick = () => {
            conversations = conversations.filter(other => other !== c);
            if (c === open) select(null);
            save();
        };
        row.append(title, drop);
        return row;
    }));
}

function save() {
    store.write("conversations", conversations);
    showList();
}

function select(conversation) {
    running?.abort();
    answering = null;
    open = conversation;
    at("log").replaceChildren(...(open ? open.messages.map(showMessage) : []));
    at("log").scrollTop = at("log").scrollHeight;
    showList();
    at("input").focus();
}

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

/* Returns a function that shows in an element what was added to the content of an answer. */
function showContent(message, element) {
    const view = new MarkdownView(element, (to, pieces) => putTinted(to, pieces, drafted));
    const digits = ([text, isDrafted]) => (isDrafted ? "1" : "0").repeat(text.length);
    let drafted = "", before = "", n = 0; /* before: without the last part, which grows */
    return () => {
        const parts = message.parts ?? [[message.content, false]];
        for (; n < parts.length - 1; n++) before += digits(parts[n]);
        drafted = before + parts.slice(n).map(digits).join("");
        view.update(message.content, message !== answering);
    };
}

/* Returns the element of a message, whose method `update` shows what was added. */
function showMessage(message) {
    const box = make("div", "message " + message.role), text = make("div", "text"), rest = make("div");
    const fold = make("details"), reasoning = new Text();
    const update = message.role === "assistant" ? showContent(message, text)
                                                : () => { text.textContent = message.content; };
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
        if (message.figures?.n) rest.append(showFigures(message));
        else if (message === answering) rest.append(make("div", "figures", "waiting for the first token ..."));
    };
    box.update();
    return box;
}

/* ---- figures ---- */

function describe(f) {
    const words = [f.n + (f.n === 1 ? " token" : " tokens")];
    if (f.rate) words.push(f.rate.toFixed(1) + " tokens/s");
    if (f.drafted) words.push(Math.round(100 * f.accepted / f.drafted) + "% of " + f.drafted +
                              " draft tokens accepted");
    if (f.first) words.push("first token after " + f.first.toFixed(2) + " s");
    return words;
}

function showFigures(message) {
    const line = make("div", "figures");
    for (const words of describe(message.figures)) line.append(make("span", "", words));
    if (message.compared) {
        line.append(make("span", "", message.compared));
    } else if (message.settings && message.figures.drafted) {
        const button = make("button", "plain", "write it again without drafting");
        button.onclick = () => compare(message, button);
        line.append(button);
    }
    if (message.content && message !== answering) line.append(copyButton(() => message.content));
    return line;
}

/* Asks for the same answer without drafting, and compares text and rate. */
async function compare(message, button) {
    if (running) return;
    const again = {role: "assistant", content: "", parts: []}, line = button.parentNode;
    const before = open.messages.slice(0, open.messages.indexOf(message));
    button.disabled = true;
    running = new AbortController();
    showRunning();
    try {
        await stream({...requestOf(before, message.settings), draft_num_predict: 0}, again, () => {
            button.textContent = again.figures.n + " tokens without drafting ...";
        });
        const same = again.content === message.content && again.reasoning === message.reasoning;
        const ratio = (message.figures.rate / again.figures.rate).toFixed(2);
        message.compared = (same ? "the same text without drafting, " : "another text without drafting, ") +
            (again.figures.n < shortest ? "too short to compare the speed" : ratio + " times as fast with it");
        save();
        line.replaceWith(showFigures(message));
    } catch (failure) {
        button.textContent = failure.name === "AbortError" ? "stopped" : failure.message;
    }
    running = null;
    showRunning();
}

/* ---- requests ---- */

async function failureOf(response) {
    try { return new Error((await response.json()).error.message); }
    catch { return new Error("the server answered " + response.status); }
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

/* Sends a request, again with each key that is entered where the server does not accept the last.
 * The response has the time when it was sent, as sentAt. */
async function call(path, options) {
    for (;;) {
        const used = key, sentAt = performance.now(), response = await fetch(path, {...options, headers: {
            "Content-Type": "application/json", ...(used && {Authorization: "Bearer " + used})}});
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
        const {value, done} = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines)
            if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
    }
}

/* Adds a chunk of the answer to the message. */
function take(message, choice) {
    const delta = choice.delta;
    if (delta.reasoning_content) message.reasoning = (message.reasoning ?? "") + delta.reasoning_content;
    if (delta.content) {
        const last = message.parts[message.parts.length - 1];
        message.content += delta.content;
        if (last && last[1] === choice.drafted) last[0] += delta.content;
        else message.parts.push([delta.content, choice.drafted]);
    }
    for (const call of delta.tool_calls ?? []) {
        message.calls ??= [];
        const to = message.calls[call.index] ??= {id: call.id, name: call.function.name, arguments: ""};
        to.arguments += call.function.arguments ?? "";
    }
}

/* Sends a request and fills the message while the answer comes. */
async function stream(request, message, changed) {
    message.figures = {n: 0};
    const response = await call("v1/chat/completions", {
        method: "POST", body: JSON.stringify(request), signal: running.signal});
    let first = 0;
    for await (const event of events(response)) {
        const f = message.figures, now = performance.now();
        if (event.error) throw new Error(event.error.message);
        for (const choice of event.choices ?? []) {
            const delta = choice.delta;
            take(message, choice);
            if (delta.content || delta.reasoning_content || delta.tool_calls) {
                if (!first) { first = now; f.first = (now - response.sentAt) / 1000; }
                f.n++;
                if (now > first) f.rate = 1000 * (f.n - 1) / (now - first);
            }
        }
        if (event.timings) {
            message.figures = {n: event.timings.predicted_n, rate: event.timings.predicted_per_second,
                drafted: event.timings.draft_n, accepted: event.timings.draft_n_accepted, first: f.first};
        }
        changed();
    }
}

function sent(message) {
    if (message.role !== "assistant" || !message.calls) return {role: message.role, content: message.content};
    return {role: "assistant", content: message.content,
            tool_calls: message.calls.map(c => ({id: c.id, type: "function",
                                                 function: {name: c.name, arguments: c.arguments}}))};
}

/* What a request has besides the messages. */
function settings() {
    const number = id => at(id).value === "" ? undefined : Number(at(id).value);
    return {
        model: at("model").value || undefined,
        system: at("system").value.trim(),
        temperature: number("temperature"),
        seed: number("seed") ?? Math.floor(Math.random() * 2 ** 31),
        max_tokens: number("max"),
        draft_num_predict: at("drafting").checked ? number("depth") : 0,
        chat_template_kwargs: at("think").value ? {enable_thinking: at("think").value === "true"} : undefined,
    };
}

/* A message whose answer failed is left out with it: templates want the roles in turn. */
function requestOf(messages, {system, ...others}) {
    const told = messages.filter((m, i) => !m.error && !messages[i + 1]?.error);
    return {
        ...others, stream: true, stream_options: {include_drafted: true},
        messages: [...(system ? [{role: "system", content: system}] : []), ...told.map(sent)],
    };
}

/* ---- talking ---- */

function showRunning() {
    at("send").textContent = running ? "Stop" : "Send";
}

async function ask(text) {
    if (!open) {
        open = {title: text.slice(0, 40), messages: []};
        conversations.unshift(open);
    }
    const conversation = open, log = at("log");
    const question = {role: "user", content: text}, answer = {role: "assistant", content: "", parts: []};
    conversation.messages.push(question);
    answer.settings = settings();
    const request = requestOf(conversation.messages, answer.settings);
    conversation.messages.push(answer);
    answer.error = "the page was closed before the answer was complete";
    save();
    delete answer.error;
    answering = answer;
    const box = showMessage(answer);
    log.append(showMessage(question), box);
    log.scrollTop = log.scrollHeight;
    running = new AbortController();
    showRunning();
    let idleUntil = 0; /* the model may need this processor: the page takes a fifth of its time at most */
    const show = () => {
        const began = performance.now();
        if (!box.isConnected || (answering && began < idleUntil)) return;
        const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
        box.update();
        if (follows) log.scrollTop = log.scrollHeight;
        idleUntil = began + 5 * (performance.now() - began);
    };
    try {
        await stream(request, answer, show);
    } catch (failure) {
        if (failure.name !== "AbortError") answer.error = failure.message;
    }
    running = answering = null;
    showRunning();
    show();
    save();
}

at("form").onsubmit = async event => {
    const text = at("input").value.trim();
    event.preventDefault();
    if (running) { running.abort(); return; }
    if (!text || (!at("model").length && !await listModels()) || running) return;
    at("input").value = "";
    ask(text);
};
at("input").onkeydown = event => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        if (!running) at("form").requestSubmit();
    }
};
document.onkeydown = event => { if (event.key === "Escape") running?.abort(); };
at("new").onclick = () => { select(null); at("side").classList.remove("shown"); };
at("menu").onclick = () => at("side").classList.toggle("shown");
/* On a narrow screen the list covers the page, and a click beside it closes it. */
document.onclick = event => {
    if (!at("side").contains(event.target) && event.target !== at("menu"))
        at("side").classList.remove("shown");
};
at("settings-open").onclick = () => at("settings").showModal();
at("settings").onclose = saveSettings;
at("key-open").onclick = async () => {
    if (await askKey("The key of this server, if it needs one.")) listModels();
};
at("model").onchange = () => { saveSettings(); showModel(); };
at("tint").onchange = () => at("log").classList.toggle("tinted", at("tint").checked);

function saveSettings() {
    const values = Object.fromEntries(kept.map(id => [id, at(id).value]));
    if (at("model").length === 0) values.model = store.read("settings", {}).model; // no list yet
    store.write("settings", values);
}

/* One model is shown by its name, several as a choice. */
function showModel() {
    const several = at("model").length > 1, name = at("model").value;
    at("title").hidden = several;
    at("model").hidden = !several;
    at("title").textContent = name;
    document.title = name + " \u2013 spectool";
}

/* Returns whether there is a list; the notice says why not. */
async function listModels() {
    const select = at("model"), chosen = select.value || store.read("settings", {}).model;
    at("notice").hidden = true;
    try {
        const response = await call("v1/models");
        const names = (await response.json()).data.map(model => model.id);
        select.replaceChildren(...names.map(name => make("option", "", name)));
        if (names.includes(chosen)) select.value = chosen;
        showModel();
    } catch (failure) {
        at("notice").textContent = failure.message;
        at("notice").hidden = false;
    }
    return at("notice").hidden;
}

for (const [id, value] of Object.entries(store.read("settings", {})))
    if (kept.includes(id) && id !== "model") at(id).value = value;
at("log").classList.add("tinted");
showList();
listModels();
