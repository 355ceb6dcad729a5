/* Conversations: what they are made of, and how the browser keeps them. Each has a key of its own in the
 * local storage, so that two windows do not overwrite each other's conversations.
 *
 * A conversation is {id, title, changed, messages}; a message is {role, content} and, if it is an answer,
 * what `shapes` lists. A message that was written more than once has `versions`: for each version the
 * messages from there on, and null for the version that is shown. */
"use strict";

const store = {
    read(name, otherwise, place = "localStorage") {
        try { return JSON.parse(window[place].getItem("spectool." + name)) ?? otherwise; }
        catch { return otherwise; }
    },
    /* Returns whether there was room. Without storage the page works until it is closed. */
    write(name, value, place = "localStorage") {
        try { window[place].setItem("spectool." + name, JSON.stringify(value)); }
        catch (failure) { return failure.name !== "QuotaExceededError"; }
        return true;
    },
    drop(name) {
        try { localStorage.removeItem("spectool." + name); } catch { /* there is none */ }
    },
    names() {
        try { return Object.keys(localStorage).map(name => name.replace(/^spectool\./, "")); }
        catch { return []; }
    },
};

function makeConversation(title, messages = []) {
    const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
    return {id, title, changed: Date.now(), messages};
}

/* ---- versions ---- */

/* Puts a message in the place of the messages from index i on, which become another version. An answer
 * that has failed without a text is no version. */
function addVersion(messages, i, message) {
    const tail = messages.splice(i), versions = tail[0].versions ?? [null];
    delete tail[0].versions;
    if (tail.length > 1 || tail[0].content || tail[0].reasoning)
        versions.splice(versions.indexOf(null), 1, tail, null);
    if (versions.length > 1) message.versions = versions;
    messages.push(message);
}

/* Shows version k of the message at index i. */
function chooseVersion(messages, i, k) {
    const {versions} = messages[i];
    delete messages[i].versions;
    versions[versions.indexOf(null)] = messages.splice(i);
    messages.push(...versions[k]);
    versions[k] = null;
    messages[i].versions = versions;
}

/* ---- files and the storage, which may have anything ---- */

const isText = value => typeof value === "string";
const isObject = value => typeof value === "object" && value !== null;
const shapes = {
    role: value => value === "user" || value === "assistant",
    content: isText,
    reasoning: isText,
    error: isText,
    end: isText,                       /* why the answer is not complete: a key of `endings` */
    isPlain: value => value === true,  /* a base model continued the text */
    isContinued: value => value === true,
    compared: isText,                  /* the result of the comparison without drafting */
    settings: isObject,                /* what the request had besides messages */
    figures: value => isObject(value) && Object.values(value).every(n => n === null || Number.isFinite(n)),
    calls: value => Array.isArray(value) && value.every(call => isText(call?.name) && isText(call.arguments)),
    /* the lengths of the content's parts, which in turn were not drafted and were */
    runs: (value, {content}) => Array.isArray(value) && value.every(n => Number.isSafeInteger(n) && n >= 0) &&
        value.reduce((sum, n) => sum + n, 0) === content?.length,
    versions: value => Array.isArray(value) && value.filter(tail => tail === null).length === 1 &&
        value.every(tail => tail === null || (tail.length > 0 && checkMessages(tail))),
};

/* Throws what is wrong. */
function checkMessages(messages) {
    if (!Array.isArray(messages)) throw new Error("a conversation has no list of messages");
    for (const [i, message] of messages.entries()) {
        const members = isObject(message) ? Object.keys(message) : [];
        const bad = ["role", "content", ...members].find(name => !shapes[name]?.(message?.[name], message));
        if (bad) throw new Error(`message ${i + 1}: "${bad}" cannot be read`);
    }
    return true;
}

/* Returns the conversations of a list; one without title, such as the body of a request, gets one. */
function checkConversations(list) {
    if (!Array.isArray(list)) list = list?.conversations ?? [list];
    return list.map(({id, title, changed, messages} = {}) => {
        checkMessages(messages);
        const made = makeConversation(isText(title) ? title : titleOf(messages[0]?.content ?? ""), messages);
        return {...made, ...(isText(id) && {id}), ...(Number.isFinite(changed) && {changed})};
    });
}

function readConversation(name) {
    try { return checkConversations([store.read(name)])[0]; }
    catch { return null; }
}

/* Earlier versions of the page had all conversations under one key, the newest first. */
function moveOldConversations() {
    const old = store.read("conversations", []);
    store.drop("conversations");
    for (const [i, {title, messages}] of old.entries()) {
        const made = makeConversation(title, messages.map(({parts, ...message}) => message));
        store.write("conversation." + made.id, {...made, changed: made.changed - i});
    }
}

/* Returns those of the storage, the newest first. */
function readConversations() {
    moveOldConversations();
    const found = store.names().filter(name => name.startsWith("conversation.")).map(readConversation);
    return found.filter(Boolean).sort((a, b) => b.changed - a.changed);
}

/* Adds those of a file to the list, but none twice, and returns how many are new. */
function addConversations(list, text) {
    let n = 0;
    for (const c of checkConversations(JSON.parse(text))) {
        const known = list.find(other => other.id === c.id);
        if (known && JSON.stringify(known.messages) === JSON.stringify(c.messages)) continue;
        if (known) c.id = makeConversation("").id;
        list.push(c);
        n++;
    }
    return n;
}

/* ---- titles and search ---- */

function titleOf(text) {
    const line = text.trim().replace(/\s+/g, " ");
    return line.length > 60 ? line.slice(0, 59) + "\u2026" : line;
}

/* Returns the first message that has the word, in lower case. */
function findMessage(conversation, word) {
    return conversation.messages.find(message => message.content.toLowerCase().includes(word));
}

/* Whether the title or a message has each of the words. */
function matches(conversation, words) {
    return words.every(word => conversation.title.toLowerCase().includes(word) || findMessage(conversation, word));
}
