/* Tests the page at / in headless Chromium: a conversation, drafted tokens, the comparison without
 * drafting, stopping, errors, storage, dark mode, the width of a phone, API keys, the choice of a
 * model and Markdown; and what page_checks.js checks in the page. With SPECTOOL_SCREENSHOTS=FOLDER
 * it also takes pictures. */
#include "tests/support/browser.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <sys/stat.h>
#include <unistd.h>

static struct browser page;
static char address[64];

#define LAST "document.querySelector('.message:last-child')"
#define QUESTION "Tell me a story."
#define STORED "localStorage.getItem('spectool.conversation.' + open.id)"

/* ---- the servers: tiny_server, one with a key and two models, and one with a base model ---- */

#define OTHER "A-Model-8x22B-Instruct-with-a-long-name-q4"

static struct server keyed, mixed;

static void start_keyed(void)
{
    char other[320];
    const char *options[] = {other, "--threads", "2", NULL};

    snprintf(other, sizeof other, "%s", packed_path(OTHER ".bin"));
    assert_int_equal(link(served_file, other), 0);
    assert_int_equal(link(served_file, packed_path("first.bin")), 0);
    setenv("SPECTOOL_API_KEY", "secret", 1);
    keyed = server_start(packed_path("first.bin"), options);
    unsetenv("SPECTOOL_API_KEY");
}

/* Packs the tiny model without its tokenizer_config.json, which has the chat template. */
static const char *pack_base(void)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
    const char *folder = scratch_path("base-model"), *path = packed_path("base.bin");
    char from[512], to[512];

    assert_int_equal(mkdir(folder, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, TESTDATA "/tiny/target/%s", files[i]);
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    assert_int_equal(
        link(packed_file(packed_modelfile(folder, NULL), SP_DTYPE_NONE, SP_DTYPE_NONE), path), 0);
    return path;
}

/* A model that chats, a base model, and one that makes embeddings and does not generate. */
static void start_mixed(void)
{
    const char *options[] = {pack_base(),
                             packed_file(packed_modelfile(TESTDATA "/embeddings/bert", NULL),
                                         SP_DTYPE_NONE, SP_DTYPE_NONE),
                             "--threads", "2", NULL};

    mixed = server_start(served_file, options);
}

static void open_server(const struct server *s)
{
    snprintf(address, sizeof address, "http://127.0.0.1:%u/", s->port);
    browser_open(&page, address);
}

static int setup(void **state)
{
    page = browser_start();
    if (served_setup(state)) return 1;
    start_keyed();
    start_mixed();
    browser_show_as(&page, 1100, 700, false);
    open_server(&tiny_server);
    browser_await(&page, "document.title", "tiny \xe2\x80\x93 spectool");
    return 0;
}

static int teardown(void **state)
{
    browser_stop(&page);
    return served_teardown(state);
}

static void run(const char *statement)
{
    browser_value(&page, statement);
}

static void set(const char *id, const char *value)
{
    run(keep_format("document.getElementById('%s').value = '%s'", id, value));
}

/* Types a message and sends it by Enter. */
static void ask(const char *text)
{
    run("document.getElementById('input').focus()");
    browser_type(&page, text);
    browser_press(&page, "Enter");
}

static void await_answer(size_t n_messages)
{
    browser_await(&page, "document.querySelectorAll('.message').length",
                  keep_format("%zu", n_messages));
    browser_await(&page, "document.getElementById('send').textContent", "Send");
}

/* Presses a button of the last message. */
static void press(const char *text)
{
    run(keep_format("[..." LAST
                    ".querySelectorAll('button')].find(b => b.textContent === '%s').click()",
                    text));
}

/* The answer is that of the API. */
TEST(test_answer)
{
    struct sp_json *json = served_post(
        "/v1/chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": \"" QUESTION
                                "\"}], \"max_tokens\": 100, \"temperature\": 0}");

    set("temperature", "0");
    set("max", "100");
    ask(QUESTION);
    await_answer(2);
    browser_await(&page, "document.querySelector('.user .text').textContent", QUESTION);
    browser_await(&page, LAST ".querySelector('.text').textContent",
                  json_text(json, "choices.0.message.content"));
    browser_await(&page,
                  "/tokens\\/s.*% of \\d+ draft tokens accepted.*first token after/.test(" LAST
                  ".querySelector('.figures').textContent)",
                  "true");
}

/* Drafted tokens are tinted if the user wants it. */
TEST(test_tint)
{
    static const char color[] =
        "getComputedStyle(" LAST ".querySelector('.drafted')).backgroundColor";

    browser_await(&page, LAST ".querySelectorAll('.drafted').length > 0", "true");
    browser_await(&page, color, "rgba(0, 0, 0, 0)");
    run("document.getElementById('tint').click()");
    browser_await(&page, color, "rgb(205, 236, 207)");
    browser_picture(&page, "light");
}

TEST(test_comparison)
{
    press("Compare without drafting");
    browser_await(&page,
                  "/the same text without drafting, (too short|[0-9.]+ times)/.test(" LAST
                  ".querySelector('.figures').textContent)",
                  "true");
}

TEST(test_dark)
{
    browser_show_as(&page, 1100, 700, true);
    browser_await(&page, "getComputedStyle(document.body).backgroundColor", "rgb(25, 26, 27)");
    browser_await(&page, "getComputedStyle(" LAST ".querySelector('.drafted')).backgroundColor",
                  "rgb(31, 74, 42)");
    browser_picture(&page, "dark");
    browser_show_as(&page, 1100, 700, false);
}

/* On a phone nothing is wider than the screen, and a button shows the conversations. */
TEST(test_phone)
{
    static const char list[] = "getComputedStyle(document.getElementById('side')).display";

    browser_show_as(&page, 360, 640, false);
    browser_await(&page, "innerWidth", "360");
    browser_await(&page, "document.documentElement.scrollWidth <= innerWidth", "true");
    browser_await(&page, list, "none");
    browser_picture(&page, "phone");
    run("document.getElementById('menu').click()");
    browser_await(&page, list, "flex");
    browser_picture(&page, "phone-list");
    run("document.getElementById('log').click()");
    browser_await(&page, list, "none");
    run("document.getElementById('menu').click()");
    browser_await(&page, list, "flex");
    run("document.querySelector('#list li button').click()");
    browser_await(&page, list, "none");
    run("document.getElementById('settings-open').click()");
    browser_await(&page, "document.getElementById('settings').open", "true");
    browser_await(&page,
                  "document.getElementById('settings').getBoundingClientRect().right <= innerWidth",
                  "true");
    browser_picture(&page, "phone-settings");
    run("document.getElementById('settings').close()");
    browser_show_as(&page, 1100, 700, false);
}

/* Escape stops an answer, whose beginning stays. Markup is shown as it is. */
TEST(test_stop)
{
    set("max", "1900");
    run("(send => { fetch = async (...all) => { await new Promise(go => window.go = go); return "
        "send(...all); }; window.release = () => { fetch = send; window.go(); }; })(fetch)");
    ask("<b>1 & 2</b>");
    browser_await(&page, LAST ".textContent", "waiting for the first token ...");
    browser_await(&page, STORED ".split('<b>').length", "2");
    run("release()");
    browser_await(&page, LAST ".querySelector('.text').textContent.length > 0", "true");
    browser_press(&page, "Escape");
    await_answer(4);
    browser_await(&page, "document.querySelectorAll('.user .text')[1].textContent", "<b>1 & 2</b>");
    browser_await(&page, "document.querySelectorAll('b').length", "0");
    browser_await(&page, LAST ".querySelectorAll('.error').length", "0");
    browser_await(&page, LAST ".querySelector('.text').textContent.length > 0", "true");
}

/* The error of the server is shown, and the next message can be sent. */
TEST(test_error)
{
    set("max", "8");
    set("temperature", "999");
    ask("hot");
    await_answer(6);
    browser_await(&page, LAST ".querySelector('.error').textContent",
                  "temperature is 999, expected a number 0..100");
    browser_await(&page, LAST ".querySelector('.figures').textContent", "Try again");
    browser_picture(&page, "error");
    set("temperature", "0");
    ask("cold");
    await_answer(8);
    browser_await(&page, LAST ".querySelectorAll('.error').length", "0");
    browser_await(&page,
                  "requestOf(open.messages, settings()).messages.map(m => m.role[0]).join('')",
                  "uauaua");
}

/* Conversations and settings are still there after the page is loaded again. A message is stored
 * once, not with each answer. */
TEST(test_storage)
{
    browser_await(&page, STORED ".split('<b>').length", "2");
    run("document.getElementById('settings').showModal()");
    run("document.getElementById('settings').close()");
    browser_await(&page, "JSON.parse(localStorage.getItem('spectool.settings')).max", "8");
    browser_open(&page, address);
    browser_await(&page, "document.getElementById('max').value", "8");
    browser_await(&page, "document.getElementById('tint').checked", "true");
    browser_await(&page, "document.querySelectorAll('#list li').length", "1");
    run("document.querySelector('#list li button').click()");
    await_answer(8);
    browser_await(&page, "document.querySelector('.user .text').textContent", QUESTION);
    run("document.querySelector('#list li button:last-child').click()");
    browser_await(&page, "document.querySelectorAll('#list li').length", "0");
    browser_await(&page, "Object.keys(localStorage).join()", "spectool.settings");
}

/* A refused request is the one line that the browser itself writes to the console. */
TEST(test_console)
{
    const char *problems = page.problems, *refused = strstr(problems, "status of 400");

    assert_non_null(refused);
    if (strchr(problems, '\n') != strrchr(problems, '\n')) fail_msg("%s", problems);
}

/* ---- the checks of page_checks.js ---- */

/* Leaves the page and opens its address again. */
static void reopen(void)
{
    const char *url = browser_value(&page, "location.href");

    browser_open(&page, "about:blank");
    browser_open(&page, url);
}

static void check(void **state)
{
    if (strcmp(*state, "afterReload") == 0) reopen();
    browser_await(&page, "models.size > 0", "true");
    if (strcmp(browser_value(&page, "typeof checks"), "undefined") == 0)
        browser_run_file(&page, "", TESTDATA "/../tests/serve/page_checks.js");
    run(keep_format("check('%s')", (const char *)*state));
    browser_await(&page, "result", "right");
}

CASES(check, "elsewhere", "beforeReload", "afterReload", "retry", "edit", "escape", "progress",
      "failure", "search", "files", "undo", "windows", "storage");

/* ---- a server with an API key and two models ---- */

#define KEY_IS_ASKED "document.getElementById('ask-key').open"
#define KEY_SENTENCE "document.getElementById('key-sentence').textContent"
#define MODEL "document.getElementById('model')"

/* Waits for the dialog, and enters a key over that which it shows. */
static void enter_key(const char *sentence, const char *key)
{
    browser_await(&page, KEY_IS_ASKED, "true");
    browser_await(&page, KEY_SENTENCE, sentence);
    browser_type(&page, key);
    browser_press(&page, "Enter");
}

/* The page asks for the key at once. A message that was typed without it is sent when it is there,
 * and the time until the first token does not include that until the key is (1000 s here). */
TEST(test_key)
{
    browser_show_as(&page, 390, 844, true);
    open_server(&keyed);
    browser_await(&page, KEY_SENTENCE, "This server needs an API key.");
    browser_await(&page, "document.title", "spectool");
    browser_picture(&page, "phone-key");
    browser_show_as(&page, 1280, 800, false);
    browser_picture(&page, "key");
    run("document.querySelector('#ask-key button.plain').click()");
    browser_await(&page, "document.getElementById('notice').textContent",
                  "This server needs an API key.");
    browser_await(&page, "document.title", "spectool");
    browser_picture(&page, "no-key");
    set("max", "8");
    ask("Hi");
    browser_await(&page, KEY_IS_ASKED, "true");
    run("(now => { performance.now = () => now.call(performance) + 1e6; })(performance.now)");
    enter_key("This server needs an API key.", "wrong");
    enter_key("The server does not accept this API key.", "secret");
    await_answer(2);
    browser_await(&page, LAST ".querySelector('.text').textContent.length > 0", "true");
    browser_await(&page, "open.messages[1].figures.first < 500", "true");
    browser_await(&page, "document.getElementById('notice').hidden", "true");
    browser_await(&page, KEY_IS_ASKED, "false");
}

/* The choice of several models is beside the title, and kept. */
TEST(test_models)
{
    browser_await(&page, MODEL ".checkVisibility()", "true");
    run("select(null)");
    browser_await(&page, "document.title", "first \xe2\x80\x93 spectool");
    run(MODEL ".value = '" OTHER "'");
    run(MODEL ".dispatchEvent(new Event('change'))");
    browser_await(&page, "document.title", OTHER " \xe2\x80\x93 spectool");
    browser_await(&page, "settings().model", OTHER);
    browser_picture(&page, "models");
    browser_show_as(&page, 390, 844, false);
    browser_await(&page, "innerWidth", "390");
    browser_await(&page, "document.documentElement.scrollWidth <= innerWidth", "true");
    browser_picture(&page, "phone-models");
    browser_show_as(&page, 1280, 800, true);
    browser_picture(&page, "dark-models");
}

/* The key is that of the tab, unless the user has it kept. */
TEST(test_key_storage)
{
    browser_open(&page, address);
    browser_await(&page, "document.title", OTHER " \xe2\x80\x93 spectool");
    browser_await(&page, KEY_IS_ASKED, "false");
    browser_await(&page, "sessionStorage.getItem('spectool.key')", "\"secret\"");
    browser_await(&page, "localStorage.getItem('spectool.key')", "\"\"");
    run("document.getElementById('settings-open').click()");
    run("document.getElementById('key-open').click()");
    browser_picture(&page, "dark-key-settings");
    run("document.getElementById('key-kept').click()");
    enter_key("The key of this server, if it needs one.", "secret");
    browser_await(&page, "localStorage.getItem('spectool.key')", "\"secret\"");
    run("document.getElementById('settings').close()");
    run("sessionStorage.clear()");
    browser_open(&page, address);
    browser_await(&page, "document.title", OTHER " \xe2\x80\x93 spectool");
    browser_await(&page, KEY_IS_ASKED, "false");
}

/* A key that the server no longer accepts is asked for again; without one the answer fails. */
TEST(test_changed_key)
{
    set("max", "8");
    run("key = 'old'");
    ask("Hi");
    enter_key("The server does not accept this API key.", "secret");
    await_answer(2);
    browser_await(&page, LAST ".querySelector('.text').textContent.length > 0", "true");
    run("key = 'old'");
    ask("Hi");
    browser_await(&page, KEY_IS_ASKED, "true");
    browser_press(&page, "Escape");
    await_answer(4);
    browser_await(&page, KEY_IS_ASKED, "false");
    browser_await(&page, LAST ".querySelector('.error').textContent",
                  "The server does not accept this API key.");
}

/* ---- a server with a base model ---- */

/* Of a base model and one that chats, the latter is the first choice. A model that does not
 * generate is none. */
TEST(test_first_choice)
{
    browser_show_as(&page, 390, 844, false);
    open_server(&mixed);
    browser_await(&page, MODEL ".length", "2");
    browser_await(&page, "models.get(" MODEL ".value)", "false");
}

static void check_mixed(void **state)
{
    if (strcmp(*state, "input") == 0) browser_show_as(&page, 1280, 800, false);
    check(state);
}

CASES(check_mixed, "touch", "input", "base");

/* ---- Markdown ---- */

static void picture_markdown(void)
{
    static const int widths[] = {390, 800, 1400};

    for (int i = 0; i < 6; i++) {
        bool dark = i % 2 == 1;
        browser_show_as(&page, widths[i / 2], 1000, dark);
        browser_await(&page, "document.documentElement.scrollWidth <= innerWidth", "true");
        for (int part = 0; part < 2; part++) {
            run(part ? "at('log').scrollTop = 1e6" : "at('log').scrollTop = 0");
            browser_picture(&page, keep_format("markdown-%d-%s-%d", widths[i / 2],
                                               dark ? "dark" : "light", part));
        }
    }
}

/* An answer in Markdown is shown as such, its drafted tokens tinted, and copied as Markdown. */
TEST(test_markdown)
{
    browser_run_file(&page, "const cases = ", TESTDATA "/markdown.json");
    run("answerMarkdown(cases.at(-1).markdown)");
    run("select(null)");
    ask("Write a program.");
    await_answer(2);
    browser_await(&page, "open.messages[1].content === cases.at(-1).markdown", "true");
    browser_await(&page, LAST ".querySelectorAll('h1, h2, h3, h4, pre, table, hr').length", "9");
    browser_await(&page, LAST ".querySelector('.code span').textContent", "c");
    browser_await(&page, "isTinted(" LAST ".querySelector('.code code'))", "true");
    run(LAST ".querySelector('.actions button').click()");
    browser_await(&page, "copied === cases.at(-1).markdown", "true");
    run(LAST ".querySelectorAll('.code button')[1].click()");
    browser_await(&page, "copied", "cc -std=c11 -Wall -Wextra -o greet greet.c");
    run("navigator.clipboard.writeText = () => Promise.reject()");
    run("document.execCommand = () => { copied = document.activeElement.value; }");
    run(LAST ".querySelectorAll('.code button')[2].click()");
    browser_await(&page, "copied", "greet Ada Grace");
    browser_await(&page, "document.querySelectorAll('body > textarea').length", "0");
    picture_markdown();
}

GROUP_FIXTURE(setup, teardown);
