/* The page: the list of conversations, questions and answers, the models, the settings. Conversations and
 * settings stay in the browser's local storage. */
"use strict";
const at = id => document.getElementById(id);
const kept = ["model", "system", "temperature", "seed", "max", "think", "drafting", "depth", "tint"];
const baseLimit = 256;      /* tokens that a base model, which seldom ends, writes without a setting */
const models = new Map();   /* name: whether it is a base model, which has no chat template */
const running = new Map();  /* conversation: {abort, message} of the answer under way */
const touch = matchMedia("(hover: none) and (pointer: coarse)"); /* a phone */
const narrow = matchMedia("(max-width: 700px)");
let conversations = [];
let open = null;            /* the conversation shown */

const isGrowing = message => [...running.values()].some(answer => answer.message === message);
const isBase = () => models.get(at("model").value);

/* Shows a sentence above the conversation, with a button if there is something to do. */
function notify(sentence, isError = true, ...buttons) {
    at("notice").replaceChildren(sentence, ...buttons);
    at("notice").className = isError ? "error" : "";
    at("notice").hidden = !sentence;
}

/* ---- conversations ---- */

function keep(conversation) {
    if (conversations.includes(conversation) && !store.write("conversation." + conversation.id, conversation))
        notify("The storage of this browser is full: delete conversations, or what is new is lost.");
}

function searched() {
    return at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
}

function showList() {
    const list = make("ul");
    list.append(...conversations.filter(c => matches(c, searched())).map(showRow));
    if (!list.firstChild && conversations.length) list.append(make("li", "figures", "nothing found"));
    morph(at("list"), 0, list);
}

function showRow(c) {
    const row = make("li", c === open ? "open" : ""), title = textButton(c.title, () => select(c));
    row.dataset.id = c.id;
    if (c === open) title.setAttribute("aria-current", "page");
    if (running.has(c)) title.append(make("span", "figures", " answering ..."));
    const rename = textButton("\u270e", () => {
        c.title = prompt("Title", c.title)?.trim() || c.title;
        keep(c);
        showTitle();
    });
    const drop = textButton("\u00d7", () => remove(c));
    rename.setAttribute("aria-label", "Rename " + c.title);
    drop.setAttribute("aria-label", "Delete " + c.title);
    row.append(title, rename, drop);
    return row;
}

function remove(conversation) {
    running.get(conversation)?.abort.abort("stopped");
    conversations = conversations.filter(other => other !== conversation);
    store.drop("conversation." + conversation.id);
    if (conversation === open) select(null);
    showList();
    notify("\u201c" + conversation.title + "\u201d is deleted.", false, textButton("Undo", () => {
        conversations = [conversation, ...conversations];
        keep(conversation);
        select(conversation);
    }));
}

function showTitle() {
    document.title = [open?.title, at("model").value, "spectool"].filter(Boolean).join(" \u2013 ");
    showList();
}

/* Shows a conversation, or an empty page, and makes it the one of the address. */
function select(conversation, isNew = true) {
    const [word] = searched(), found = conversation && word && findMessage(conversation, word);
    if (conversation === open) isNew = false;
    open = conversation;
    if (isNew) history.pushState(null, "", open ? "#" + open.id : location.pathname + location.search);
    showSide(false);
    notify("");
    showConversation();
    at("log").scrollTop = at("log").scrollHeight;
    if (found) at("log").children[open.messages.indexOf(found)].scrollIntoView();
    showRunning();
    focusInput();
}

/* On a touch screen the focus would bring up the keyboard. */
function focusInput() {
    if (!touch.matches) at("input").focus();
}

function showConversation() {
    at("log").replaceChildren(...(open?.messages ?? []).map(showMessage));
    showTitle();
}

function selectAddressed() {
    select(conversations.find(c => c.id === location.hash.slice(1)) ?? null, false);
}

/* Another window has changed the storage. */
window.onstorage = event => {
    const name = event.key?.replace(/^spectool\./, "") ?? "", fresh = readConversation(name);
    const known = conversations.find(c => name === "conversation." + c.id);
    if (!fresh && !known || running.has(known)) return;
    if (!fresh) conversations = conversations.filter(c => c !== known);
    else if (known) Object.assign(known, fresh);
    else conversations.unshift(fresh);
    if (known && known === open) { if (fresh) showConversation(); else select(null); }
    showList();
};

/* ---- answers ---- */

function showRunning() {
    const isRunning = running.has(open);
    at("send").textContent = isRunning ? "Stop" : "Send";
    at("send").classList.toggle("stop", isRunning);
    at("log").setAttribute("aria-busy", isRunning);
    showList();
}

/* Has the model answer the messages, in a message that grows. Returns why the answer ended. */
async function generate(conversation, message, messages, chosen, changed) {
    const abort = new AbortController(), request = requestOf(messages, chosen, models.get(chosen.model));
    running.set(conversation, {abort, message});
    showRunning();
    try {
        return await stream(request, message, abort.signal, changed);
    } finally {
        running.delete(conversation);
        showRunning();
    }
}

/* Writes the last message of a conversation, or its rest if it has a beginning, whether the conversation
 * is shown or not. */
async function write(conversation, message) {
    const log = at("log"), {messages} = conversation, chosen = settings(), before = messages.slice(0, -1);
    let savedAt = 0, idleUntil = 0; // the model may need this processor: the page takes a fifth of its time at most
    const show = () => {
        const began = performance.now(), follows = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
        if (began > savedAt + 1000) { keep(conversation); savedAt = began; }
        if (conversation !== open || (running.has(open) && began < idleUntil)) return;
        log.children[messages.indexOf(message)]?.update();
        if (follows) log.scrollTop = log.scrollHeight;
        idleUntil = began + 5 * (performance.now() - began);
    };
    if (message.content) {
        Object.assign(message, {isContinued: true});
        chosen.seed = message.settings?.seed ?? chosen.seed;
        delete chosen.chat_template_kwargs; // reasoning is over
        before.push(message);
    }
    notify("");
    delete message.error;
    delete message.compared;
    Object.assign(message, {settings: chosen, end: "growing"}, isBase() && {isPlain: true});
    conversation.changed = Date.now();
    conversations = [conversation, ...conversations.filter(c => c !== conversation)];
    const ended = generate(conversation, message, before, chosen, show), {signal} = running.get(conversation).abort;
    keep(conversation);
    showConversation();
    log.scrollTop = log.scrollHeight;
    focusInput();
    try {
        const reason = await ended, isLimit = message.figures.n >= chosen.max_tokens;
        if (reason === "length") message.end = isLimit ? "max" : "length";
        else delete message.end;
    } catch (failure) {
        if (signal.aborted) message.end = signal.reason;
        else { message.error = failure.message; delete message.end; }
    }
    keep(conversation);
    show();
}

/* Asks for the same answer without drafting, and compares text and rate. */
async function compare(message, button) {
    const conversation = open, again = {role: "assistant", content: ""};
    const before = open.messages.slice(0, open.messages.indexOf(message));
    const ended = generate(open, again, before, {...message.settings, draft_num_predict: 0}, () => {
        button.textContent = again.figures.n + " tokens without drafting ...";
    });
    const {signal} = running.get(open).abort;
    button.classList.add("working");
    try {
        await ended;
        const same = again.content === message.content && again.reasoning === message.reasoning;
        const ratio = (message.figures.rate / again.figures.rate).toFixed(2);
        message.compared = (same ? "the same text without drafting, " : "another text without drafting, ") +
            (again.figures.n < shortest ? "too short to compare the speed" : ratio + " times as fast with it");
        keep(conversation);
    } catch (failure) {
        if (!signal.aborted) notify(failure.message);
    }
    if (conversation === open) showConversation();
}

/* ---- questions ---- */

const emptyAnswer = () => ({role: "assistant", content: ""});

function ask(text) {
    const answer = emptyAnswer();
    if (!open) {
        open = makeConversation(titleOf(text));
        conversations.unshift(open);
        history.pushState(null, "", "#" + open.id);
    }
    open.messages.push({role: "user", content: text}, answer);
    write(open, answer);
}

function retry(i) {
    const answer = emptyAnswer();
    addVersion(open.messages, i, answer);
    write(open, answer);
}

function resume(i) {
    write(open, open.messages[i]);
}

/* Shows another version of a message; the focus stays on the button with this label. */
function chooseShown(i, k, label) {
    chooseVersion(open.messages, i, k);
    keep(open);
    showConversation();
    const buttons = [...at("log").children[i].querySelectorAll(".versions button:enabled")];
    (buttons.find(button => button.ariaLabel === label) ?? buttons[0]).focus();
}

/* Turns a question into a field; what is sent from there is another version of it. */
function edit(i) {
    const {messages} = open, box = at("log").children[i], form = make("form", "edit");
    const field = make("textarea"), line = make("div", "buttons"), cancel = textButton("Cancel", () => {
        box.replaceWith(showMessage(messages[i]));
        focusInput();
    });
    cancel.type = "button";
    field.value = messages[i].content;
    field.setAttribute("aria-label", "Message");
    line.append(make("button", "", "Send"), cancel);
    form.append(field, line);
    form.onsubmit = event => {
        const answer = emptyAnswer();
        event.preventDefault();
        if (!field.value.trim() || running.has(open)) return;
        addVersion(messages, i, {role: "user", content: field.value});
        messages.push(answer);
        write(open, answer);
    };
    field.oninput = () => grow(field);
    field.onkeydown = event => {
        if (event.key === "Escape") cancel.click();
        sendByEnter(event, form);
    };
    box.replaceChildren(form);
    grow(field);
    field.focus();
}

/* On a touch screen Enter begins a line, as its keyboard has no Shift+Enter. */
function sendByEnter(event, form) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || touch.matches) return;
    event.preventDefault();
    if (!running.has(open)) form.requestSubmit();
}

function setInput(text) {
    at("input").value = text;
    grow(at("input"));
    store.write("input", text, "sessionStorage");
}

at("form").onsubmit = async event => {
    event.preventDefault();
    if (running.has(open)) { running.get(open).abort.abort("stopped"); return; }
    if (!at("input").value.trim() || (!models.size && !await listModels()) || running.has(open)) return;
    const text = isBase() ? at("input").value : at("input").value.trim();
    setInput("");
    ask(text);
};
at("input").oninput = () => setInput(at("input").value);
at("input").onkeydown = event => {
    if (event.key === "ArrowUp" && !at("input").value && open)
        setInput(open.messages.findLast(message => message.role === "user").content);
    sendByEnter(event, at("form"));
};

/* ---- settings and models ---- */

/* What a request has besides the messages. */
function settings() {
    const number = id => at(id).value === "" ? undefined : Number(at(id).value);
    return {
        model: at("model").value || undefined,
        system: at("system").value.trim(),
        temperature: number("temperature"),
        seed: number("seed") ?? Math.floor(Math.random() * 2 ** 31),
        max_tokens: number("max") ?? (isBase() ? baseLimit : undefined),
        draft_num_predict: at("drafting").checked ? number("depth") : 0,
        chat_template_kwargs: at("think").value ? {enable_thinking: at("think").value === "true"} : undefined,
    };
}

/* Says below the message which settings are in use. */
function showSettings() {
    const value = (id, words) => at(id).value && words + at(id).value;
    const words = [!isBase() && at("system").value.trim() && "system prompt", value("temperature", "temperature "),
        value("seed", "seed "), value("max", "longest answer "),
        !isBase() && at("think").value && "reasoning " + at("think").selectedOptions[0].textContent,
        at("drafting").checked ? value("depth", "draft tokens ") : "no drafting"].filter(Boolean);
    at("in-use").textContent = words.join(" \u00b7 ");
    at("in-use").hidden = !words.length;
    at("log").classList.toggle("tinted", at("tint").checked);
    at("max").placeholder = isBase() ? baseLimit : "no limit";
    at("input").placeholder = isBase() ? "Text to continue"
        : touch.matches || narrow.matches ? "Message" : "Message (Shift+Enter: new line)";
}

function saveSettings() {
    const read = field => field.type === "checkbox" ? field.checked : field.value;
    const values = Object.fromEntries(kept.map(id => [id, read(at(id))]));
    if (!models.size) values.model = store.read("settings", {}).model; // no list yet
    store.write("settings", values);
    showSettings();
}

function loadSettings() {
    for (const [id, value] of Object.entries(store.read("settings", {})))
        if (kept.includes(id) && id !== "model") at(id)[typeof value === "boolean" ? "checked" : "value"] = value;
    showSettings();
}

/* One model is shown by its name, several as a choice. */
function showModel() {
    at("title").hidden = models.size > 1;
    at("model").hidden = models.size < 2;
    at("title").textContent = at("model").selectedOptions[0]?.textContent ?? "spectool";
    showTitle();
    showSettings();
}

/* Returns whether a model is a base model, or null if it does not generate. A model that cannot be
 * described stays in the list, and the sentence comes when it is used. */
async function kindOf(model) {
    try {
        const {template, capabilities} = await (await call("api/show", {model})).json();
        return capabilities.includes("completion") ? !template : null;
    } catch { return false; }
}

/* Returns whether there is a list; the notice says why not. */
async function listModels() {
    const select = at("model"), chosen = select.value || store.read("settings", {}).model;
    try {
        const names = (await (await call("v1/models")).json()).data.map(model => model.id);
        const kinds = await Promise.all(names.map(async name => [name, await kindOf(name)]));
        models.clear();
        select.replaceChildren();
        for (const [name, isBase] of kinds.filter(([, kind]) => kind !== null)) {
            models.set(name, isBase);
            select.add(new Option(name + (isBase ? " (base)" : ""), name));
        }
        const first = [...models.keys()].find(name => !models.get(name));
        if (first || models.has(chosen)) select.value = models.has(chosen) ? chosen : first;
        showModel();
        notify(models.size ? "" : "No model of this server generates text.");
    } catch (failure) {
        notify(failure.message);
    }
    return models.size > 0;
}

/* ---- buttons and keys ---- */

at("new").onclick = () => select(null);
at("search").oninput = showList;
at("export").onclick = () => {
    const link = make("a"), file = new Blob([JSON.stringify({conversations}, null, 1)], {type: "application/json"});
    link.href = URL.createObjectURL(file);
    link.download = "spectool-conversations.json";
    link.click();
    URL.revokeObjectURL(link.href);
};
at("import").onclick = () => at("file").click();
at("file").onchange = async () => {
    const [file] = at("file").files;
    try {
        const n = addConversations(conversations, await file.text());
        conversations.sort((a, b) => b.changed - a.changed).forEach(keep);
        notify(!n ? "The list has all conversations of the file already." : n === 1 ? "1 new conversation is in the list."
            : n + " new conversations are in the list.", false);
    } catch (failure) {
        notify(file.name + ": " + failure.message);
    }
    at("file").value = "";
    showList();
};
/* On a narrow screen the list covers the page, and a click beside it closes it. */
function showSide(isShown) {
    at("side").classList.toggle("shown", isShown);
    at("menu").setAttribute("aria-expanded", isShown);
}
at("menu").onclick = () => {
    showSide(!at("side").classList.contains("shown"));
    at("new").focus();
};
document.onclick = event => {
    if (!at("side").contains(event.target) && event.target !== at("menu")) showSide(false);
};
at("settings-open").onclick = at("in-use").onclick = () => at("settings").showModal();
at("settings").onclose = () => { saveSettings(); focusInput(); };
at("tint").onchange = showSettings;
at("key-open").onclick = async () => {
    if (await askKey("The key of this server, if it needs one.")) listModels();
};
at("model").onchange = () => { saveSettings(); showModel(); };
document.onkeydown = event => {
    if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (at("side").classList.contains("shown")) showSide(false);
    else running.get(open)?.abort.abort("stopped");
};
window.onpopstate = selectAddressed;
window.onpagehide = () => {
    for (const [conversation, {abort, message}] of running) {
        abort.abort(message.end = "closed");
        keep(conversation);
    }
};

conversations = readConversations();
loadSettings();
setInput(store.read("input", "", "sessionStorage"));
selectAddressed();
listModels();
