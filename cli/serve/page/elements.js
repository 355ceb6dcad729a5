/* Elements of the page, and how they change. */
"use strict";

function make(tag, name, text) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
}

/* Makes the children of an element, from index `from` on, equal to those of another. What is equal
 * stays, and with it selections and scroll positions. */
function morph(element, from, fresh) {
    for (const child of [...fresh.childNodes]) {
        const old = element.childNodes[from++];
        if (!old) element.append(child);
        else if (old.isEqualNode(child)) continue;
        else if (old.nodeType === Node.TEXT_NODE && child.data?.startsWith(old.data))
            old.appendData(child.data.slice(old.length));
        else if (old.cloneNode().isEqualNode(child.cloneNode())) morph(old, 0, child);
        else old.replaceWith(child);
    }
    while (element.childNodes.length > from) element.lastChild.remove();
}

function textButton(text, action, name = "") {
    const button = make("button", "plain " + name, text);
    button.onclick = () => action(button);
    return button;
}

/* A button that copies the text that `read` returns, which gets the button. */
function copyButton(read) {
    return textButton("Copy", async button => {
        try { await navigator.clipboard.writeText(read(button)); }
        catch { copyBySelection(read(button)); }
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }, "copy");
}

/* Browsers have navigator.clipboard only for pages of this machine or over HTTPS. */
function copyBySelection(text) {
    const field = document.body.appendChild(make("textarea"));
    field.value = text;
    field.select();
    document.execCommand("copy");
    field.remove();
}

/* Makes a field as high as its text. */
function grow(field) {
    field.style.height = "auto";
    field.style.height = field.scrollHeight + field.offsetHeight - field.clientHeight + "px";
}
