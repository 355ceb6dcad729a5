/* Checks of the page, which test_serve_page.c calls in a browser, one after the other. Each throws what
 * is wrong. Answers are compared with those of the API, which the page does not read. */
"use strict";

const realFetch = fetch;
const nap = () => new Promise(go => setTimeout(go, 20));
const last = () => at("log").lastElementChild, textOf = element => element.querySelector(".text").textContent;
const storedAs = id => JSON.parse(localStorage.getItem("spectool.conversation." + id));

function expect(what, is, wanted) {
    const [a, b] = [is, wanted].map(value => JSON.stringify(value));
    if (a !== b) throw new Error(what + " is " + a + ", not " + b);
}

async function until(condition) {
    for (let i = 0; i < 1500; i++, await nap()) if (condition()) return;
    throw new Error("never: " + condition);
}

const answered = () => until(() => running.size === 0);

function press(place, name) {
    const found = [...place.querySelectorAll("button")].find(button =>
        (button.getAttribute("aria-label") ?? button.textContent) === name && button.checkVisibility());
    if (!found) throw new Error("no button " + name);
    found.click();
    return found;
}

function send(text, max) {
    at("max").value = max ?? 8;
    at("temperature").value = 0;
    setInput(text);
    press(at("form"), "Send");
}

async function apiText(path, request) {
    const body = JSON.stringify({temperature: 0, ...request});
    const {choices: [choice]} = await (await realFetch(path, {method: "POST", body})).json();
    return choice.text ?? choice.message.content;
}

const apiAnswer = (questions, max) => apiText("v1/chat/completions", {max_tokens: max,
    messages: questions.map((content, i) => ({role: i % 2 ? "assistant" : "user", content}))});

/* Replaces fetch for requests of answers; returns the function that puts it back. */
function replaceFetch(answer) {
    window.fetch = (path, options) => (/completions/.test(path) ? answer : realFetch)(path, options);
    return () => { window.fetch = realFetch; };
}

/* Has answers come slowly. */
function slowDown() {
    const wait = new TransformStream({async transform(chunk, out) {
        for (const event of chunk.split(/(?<=\n\n)/)) { await nap(); out.enqueue(event); }
    }});
    return replaceFetch(async (path, options) => {
        const {body} = await realFetch(path, options);
        const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(wait);
        return new Response(events.pipeThrough(new TextEncoderStream()));
    });
}

/* Returns the requests for answers that are sent from now on. */
function watchRequests() {
    const requests = [];
    replaceFetch((path, options) => {
        requests.push({path, ...JSON.parse(options.body)});
        return realFetch(path, options);
    });
    return requests;
}

const checks = {
    /* An answer goes on, and is kept, while another conversation is shown. */
    async elsewhere() {
        const back = slowDown();
        press(at("side"), "New conversation");
        send("Tell me a story.", 100);
        const {id} = open;
        await until(() => storedAs(id).messages[1].content);
        press(at("side"), "New conversation");
        expect("messages shown", at("log").children.length, 0);
        expect("the button", at("send").textContent, "Send");
        expect("the row", /answering/.test(at("list").firstChild.textContent), true);
        const early = storedAs(id).messages[1];
        expect("its end in the storage", early.end, "growing");
        window.dispatchEvent(new StorageEvent("storage", {key: "spectool.conversation." + id})); // has no effect
        await until(() => storedAs(id).messages[1].content.length > early.content.length);
        await answered();
        back();
        at("list").querySelector("button").click();
        expect("the answer", textOf(last()), (await apiAnswer(["Tell me a story."], 100)).trim());
        expect("the stored answer", storedAs(id).messages[1].content, open.messages[1].content);
        expect("the address", location.hash, "#" + id);
        history.back();
        await until(() => !open);
        history.forward();
        await until(() => open?.id === id);
    },

    /* After these two the page is loaded again, which ends the second answer. */
    async beforeReload() {
        slowDown();
        press(at("side"), "New conversation");
        send("Tell me a story.", 100);
        setInput("not sent");
        await until(() => open.messages[1].content.length > 40);
    },
    async afterReload() {
        const [, answer] = open.messages, begun = answer.content, {seed} = answer.settings, requests = watchRequests();
        expect("what was typed", at("input").value, "not sent");
        expect("the title", document.title, "Tell me a story. \u2013 tiny \u2013 spectool");
        expect("the end", last().querySelector(".ending").textContent,
               "Stopped, because the page was closed or loaded again.");
        expect("the beginning", begun, (await apiAnswer(["Tell me a story."], 100)).slice(0, begun.length));
        at("max").value = 20;
        at("temperature").value = 0;
        at("think").value = "true";
        answer.compared = "the same text";
        press(last(), "Continue");
        at("think").value = "";
        await answered();
        expect("the seed, and reasoning", [requests[0].seed, requests[0].chat_template_kwargs], [seed, undefined]);
        expect("the comparison", answer.compared, undefined);
        expect("the request", requests[0].messages, [{role: "user", content: "Tell me a story."},
                                                     {role: "assistant", content: begun}]);
        expect("the rest", answer.content.startsWith(begun) && answer.content.length > begun.length, true);
        expect("the limit", last().querySelector(".ending").textContent,
               "Stopped at the limit of tokens for an answer.");
        expect("its tokens", answer.figures.n, 20);
        expect("its parts", answer.runs.reduce((sum, n) => sum + n), answer.content.length);
    },

    /* Both answers are kept, and the next question follows the one that is shown. */
    async retry() {
        press(at("side"), "New conversation");
        send("Tell me a story.", 8);
        await answered();
        const first = open.messages[1].content;
        at("max").value = 16;
        press(last(), "Try again");
        await answered();
        const second = open.messages[1].content;
        expect("longer", second.length > first.length, true);
        expect("the place", last().querySelector(".versions").textContent.includes("2 of 2"), true);
        press(last(), "Previous version");
        expect("the first", textOf(last()), first.trim());
        expect("the focus", document.activeElement.ariaLabel, "Next version");
        const requests = watchRequests();
        send("And then?");
        await answered();
        expect("the request", requests[0].messages.map(m => m.content), ["Tell me a story.", first, "And then?"]);
        press(at("log").children[1], "Next version");
        expect("the second", [textOf(last()), at("log").children.length], [second.trim(), 2]);
        press(at("log").children[1], "Previous version");
        expect("messages", storedAs(open.id).messages.map(m => m.content).slice(0, 3),
               ["Tell me a story.", first, "And then?"]);
    },

    /* An edited question has its own answers; Escape and Cancel leave it as it was. */
    async edit() {
        const field = () => at("log").querySelector(".edit textarea");
        press(at("log").children[0], "Edit");
        field().value = "no";
        field().dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
        expect("the question", textOf(at("log").children[0]), "Tell me a story.");
        press(at("log").children[0], "Edit");
        expect("the field", [field().value, document.activeElement === field()], ["Tell me a story.", true]);
        field().value = "Tell me a tale.";
        at("max").value = 8;
        field().dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
        await answered();
        expect("the answer", open.messages[1].content, await apiAnswer(["Tell me a tale."], 8));
        press(at("log").children[0], "Previous version");
        expect("messages", open.messages.length, 4);
        expect("versions of the answer", open.messages[1].versions.length, 2);
    },

    /* A conversation that is answered becomes the first of the list; Escape stops its answer. */
    async escape() {
        press(at("side"), "New conversation");
        send("Count from 3 to 15.", 4);
        await answered();
        const older = open;
        press(at("side"), "New conversation");
        send("Two.", 4);
        await answered();
        select(older);
        const back = slowDown();
        at("max").value = 100;
        press(last(), "Try again");
        expect("the first", conversations[0] === older, true);
        await until(() => older.messages[1].content);
        document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
        await answered();
        back();
        expect("the end", last().querySelector(".ending").textContent, "Stopped.");
    },

    /* Until the first token comes, the page says how long the prompt still takes. */
    async progress() {
        let isSeen;
        const event = (content, prompt_progress, finish_reason) => new TextEncoder().encode("data: " +
            JSON.stringify({choices: [{delta: {content}, finish_reason}], prompt_progress}) + "\n\n");
        const back = replaceFetch(async () => new Response(new ReadableStream({async start(body) {
            for (const [processed, time_ms] of [[100, 0], [300, 2000]])
                for (isSeen = false; !isSeen; await nap())
                    body.enqueue(event("", {total: 900, cache: 100, processed, time_ms}));
            body.enqueue(event("Hi", undefined, "length"));
            body.close();
        }})));
        const shows = async text => {
            await until(() => last().querySelector(".figures").textContent.startsWith(text));
            isSeen = true;
        };
        press(at("side"), "New conversation");
        send("Read this.");
        await shows("processing the prompt: 100 of 900 tokens");
        await shows("processing the prompt: 300 of 900 tokens, 6 s left"); // 600 tokens at 100 a second
        await answered();
        back();
        expect("the answer", open.messages[1].content, "Hi");
        expect("its end", last().querySelector(".ending").textContent,
               "Stopped, because the context of the model is full.");
        await shows("1 token");
        expect("the request", requestOf(open.messages, {}).return_progress, true);
    },

    /* A server that is not there, and one that goes away in the middle. */
    async failure() {
        press(at("side"), "New conversation");
        let back = replaceFetch(async () => { throw new TypeError("Failed to fetch"); });
        send("Tell me a story.");
        await answered();
        expect("the error", last().querySelector(".error").textContent, "The server cannot be reached.");
        back();
        press(last(), "Try again");
        await answered();
        expect("the answer", [open.messages[1].content, open.messages[1].versions, open.messages[1].error],
               [await apiAnswer(["Tell me a story."], 8), undefined, undefined]);
        for (const [end, sentence] of [
            ["error", "The connection to the server was lost."],
            ["close", "The server closed the connection before the answer was complete."]]) {
            const chunk = new TextEncoder().encode('data: {"choices": [{"delta": {"content": "Once"}}]}\n\n');
            back = replaceFetch(async () => new Response(new ReadableStream({
                start: body => body.enqueue(chunk),
                async pull(body) {
                    await nap();
                    body[end](...(end === "error" ? [new TypeError("network error")] : []));
                },
            })));
            press(last(), "Try again");
            await answered();
            back();
            expect("the error", last().querySelector(".error").textContent, sentence);
            expect("buttons", [...last().querySelectorAll("button")].map(button => button.textContent).slice(0, 3),
                   ["Copy", "Try again", "Continue"]);
        }
        expect("the end", storedAs(open.id).messages[1].end, undefined);
    },

    /* Words are found in titles and messages, and the message that has the first is shown. */
    async search() {
        const find = text => {
            at("search").value = text;
            at("search").oninput();
            return [...at("list").children].map(row => row.firstChild.textContent);
        };
        conversations.length = 0;
        for (const [title, content] of [["Kings", "A queen."], ["Rain", "A king in the rain."], ["Tea", "Hot."]])
            conversations.push(makeConversation(title, [{role: "user", content}]));
        expect("one word", find("king"), ["Kings", "Rain"]);
        expect("two words", find(" RAIN  king "), ["Rain"]);
        expect("no word", find("snow"), ["nothing found"]);
        expect("all", find(""), ["Kings", "Rain", "Tea"]);
        const many = Array.from({length: 60}, (_, i) => ({role: "user", content: "line " + i}));
        conversations.push(makeConversation("Many", many));
        find("7");
        at("list").querySelector("button").click();
        const {top} = at("log").children[7].getBoundingClientRect();
        expect("in sight", top >= 0 && top < innerHeight / 2, true);
        find("");
    },

    /* What is exported and imported again is the same. */
    async files() {
        let file;
        URL.createObjectURL = blob => { file = blob; return "#"; };
        HTMLAnchorElement.prototype.click = () => {};
        const load = async (text, name = "a.json") => {
            const files = new DataTransfer();
            files.items.add(new File([text], name));
            at("file").files = files.files;
            await at("file").onchange();
            return at("notice").textContent.trim();
        };
        const answer = {role: "assistant", content: "Yes.", runs: [1, 3], figures: {n: 2}, versions: [
            [{role: "assistant", content: "No.", end: "stopped"}, {role: "user", content: "No?"}], null]};
        conversations = [makeConversation("A title", [{role: "user", content: "Is it?"}, answer])];
        const before = JSON.stringify(conversations);
        press(at("side"), "Export");
        const text = await file.text();
        expect("none is new", await load(text), "The list has all conversations of the file already.");
        conversations = [];
        expect("one is new", await load(text), "1 new conversation is in the list.");
        expect("the same", JSON.stringify(conversations), before);
        conversations[0].messages[1].content = "Yes!";
        expect("both stay", [await load(text), conversations.length, conversations[0].id === conversations[1].id],
               ["1 new conversation is in the list.", 2, false]);
        expect("a request", await load('{"messages": [{"role": "user", "content": " Hi \\n there"}]}'),
               "1 new conversation is in the list.");
        expect("its title", conversations[0].title, "Hi there");
        for (const [member, message] of [
            ["role", {role: "system", content: "x"}], ["content", {role: "user", content: [{type: "text"}]}],
            ["runs", {role: "user", content: "x", runs: [2]}], ["images", {role: "user", content: "x", images: []}],
            ["versions", {role: "user", content: "x", versions: [[], null]}]])
            expect(member, await load(JSON.stringify({messages: [message]})),
                   `a.json: message 1: "${member}" cannot be read`);
        expect("no messages", await load('{"a": 1}'), "a.json: a conversation has no list of messages");
        expect("no JSON", /^a.json: /.test(await load("{")), true);
        expect("the list", conversations.length, 3);
    },

    /* A deleted conversation is gone from the storage, and comes back. */
    async undo() {
        const [conversation] = conversations;
        press(at("list").firstChild, "Delete " + conversation.title);
        expect("stored", storedAs(conversation.id), null);
        expect("the sentence", at("notice").textContent, "\u201cHi there\u201d is deleted.Undo");
        press(at("notice"), "Undo");
        expect("stored", storedAs(conversation.id).title, "Hi there");
        expect("open", open === conversation, true);
        press(at("list").firstChild, "Delete Hi there");
        expect("closed", [open, at("log").children.length], [null, 0]);
        press(at("notice"), "Undo");
        window.prompt = () => " Another title ";
        press(at("list").firstChild, "Rename Hi there");
        expect("the title", [at("list").querySelector("button").textContent, storedAs(conversation.id).title],
               ["Another title", "Another title"]);
    },

    /* What another window stores is shown. */
    async windows() {
        const tell = (id, value) => {
            const name = "spectool.conversation." + id;
            if (value) localStorage.setItem(name, JSON.stringify(value));
            else localStorage.removeItem(name);
            window.dispatchEvent(new StorageEvent("storage", {key: name}));
        };
        const other = makeConversation("Theirs", [{role: "user", content: "Hello"}]);
        tell(other.id, other);
        expect("the first", conversations[0].title, "Theirs");
        select(conversations[0]);
        other.messages.push({role: "assistant", content: "Hi", end: "growing"});
        tell(other.id, other);
        expect("shown", [textOf(last()), last().querySelector(".ending").textContent],
               ["Hi", "Another window is writing this answer, or was closed."]);
        tell(other.id, null);
        expect("gone", [open, conversations.some(c => c.id === other.id)], [null, false]);
    },

    /* A full storage is not silent; what cannot be read is left alone. */
    async storage() {
        localStorage.setItem("spectool.conversation.bad", "{");
        const answer = {role: "assistant", content: "b", parts: [["b", false]], figures: {n: 1}};
        localStorage.setItem("spectool.conversations",
                             JSON.stringify([{title: "Old", messages: [{role: "user", content: "a"}, answer]}]));
        conversations = readConversations();
        expect("an old conversation", conversations.filter(c => c.title === "Old").map(c => c.messages[1]),
               [{role: "assistant", content: "b", figures: {n: 1}}]);
        expect("the old key", localStorage.getItem("spectool.conversations"), null);
        expect("a bad one", localStorage.getItem("spectool.conversation.bad"), "{");
        for (const [id, changed] of [["a", 1], ["z", 2]])
            store.write("conversation." + id, {...makeConversation(id, []), id, changed});
        expect("the newest first", readConversations().map(c => c.id).filter(id => "az".includes(id)), ["z", "a"]);
        Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
        keep(conversations[0]);
        expect("the notice", at("notice").checkVisibility() && at("notice").textContent,
               "The storage of this browser is full: delete conversations, or what is new is lost.");
    },

    /* The field grows with its text; Up brings the last question back; settings in use are named. */
    async input() {
        const height = () => at("input").offsetHeight, low = height();
        setInput("a\nb\nc\nd\ne");
        expect("higher", height() > 2 * low, true);
        setInput("x\n".repeat(200));
        expect("bounded", height() <= innerHeight * 0.41, true);
        setInput("");
        expect("low again", height(), low);
        select(makeConversation("t", [{role: "user", content: "old"}]));
        at("input").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowUp"}));
        expect("recalled", at("input").value, "old");
        setInput("");
        Object.assign(at("system"), {value: "Be brief."});
        Object.assign(at("temperature"), {value: 0.5});
        Object.assign(at("max"), {value: ""});
        at("drafting").checked = false;
        saveSettings();
        expect("in use", at("in-use").textContent, "system prompt \u00b7 temperature 0.5 \u00b7 no drafting");
        expect("the request", [settings().system, settings().draft_num_predict], ["Be brief.", 0]);
        at("drafting").checked = true;
        for (const id of ["system", "temperature"]) at(id).value = "";
        saveSettings();
        expect("none in use", at("in-use").hidden, true);
    },

    /* On a touch screen Enter begins a line, and the button sends. */
    async touch() {
        const enter = new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true});
        expect("a touch screen", touch.matches, true);
        expect("the hint", at("input").placeholder, "Message");
        setInput("Hi");
        at("input").dispatchEvent(enter);
        expect("a new line", [enter.defaultPrevented, at("log").children.length], [false, 0]);
        send("Hi");
        await answered();
        expect("sent", at("log").children.length, 2);
    },

    /* A model without a chat template continues the text, and is not the first choice. */
    async base() {
        const prompt = "There was once", requests = watchRequests(), chat = at("model").value;
        press(at("side"), "New conversation");
        at("model").value = [...models].find(([, isBase]) => isBase)[0];
        at("model").onchange();
        expect("the name", at("model").selectedOptions[0].textContent, "base (base)");
        expect("hints", [at("input").placeholder, at("max").placeholder], ["Text to continue", "256"]);
        send(prompt, 12);
        await answered();
        const text = await apiText("v1/completions", {model: "base", prompt, max_tokens: 12});
        expect("the text", textOf(last()), text);
        press(last(), "Continue");
        await answered();
        const all = prompt + open.messages[1].content;
        expect("more", all.startsWith(prompt + text) && all.length > (prompt + text).length, true);
        send("A cat", 12);
        await answered();
        at("model").value = chat;
        expect("requests", requests.map(r => [r.path, r.prompt]), [
            ["v1/completions", prompt], ["v1/completions", prompt + text], ["v1/completions", all + "\n\nA cat"]]);
    },
};

/* ---- Markdown ---- */

let copied = "";

/* Replaces the server by one that answers with a text, seven characters at a time; every second piece
 * was drafted. What is copied goes to `copied`. */
function answerMarkdown(text) {
    const encoder = new TextEncoder(), event = (content, i, end) => encoder.encode("data: " + JSON.stringify(
        {choices: [{delta: {content}, drafted: i % 2 === 1, finish_reason: end ? "stop" : null}]}) + "\n\n");
    const pieces = text.match(/[^]{1,7}/g);
    replaceFetch(async () => new Response(new ReadableStream({async start(stream) {
        for (const [i, piece] of pieces.entries()) {
            stream.enqueue(event(piece, i, i === pieces.length - 1));
            if (i % 9 === 0) await nap();
        }
        stream.close();
    }})));
    Object.defineProperty(navigator, "clipboard", {value: {writeText: async words => { copied = words; }}});
}

/* Whether every second piece of a code block is in a span. */
function isTinted(code) {
    let place = open.messages[1].content.indexOf(code.textContent);
    return [...code.childNodes].every(node => [...node.textContent].every(() =>
        (Math.floor(place++ / 7) % 2 === 1) === (node.className === "drafted")));
}

/* Runs a check; its result is in `result`. */
let result;
function check(name) {
    result = undefined;
    checks[name]().then(() => { result = "right"; }, failure => { result = failure.message; });
}
