/* Tests that every template takes conversations of all orders of roles, and loses nothing. */
#include "format/base/file.h"
#include "runtime/chat/chat_probe.h"
#include "runtime/chat/chat_normalize.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/template_cases.h"
#include "tests/support/unit_test.h"

#define FOLDER SHARED "/chat_templates"

/* What is needed to render with a template. */
struct opened {
    const char *path;
    struct sp_template *template;
    struct sp_chat_format format;
    unsigned refused;
};

static struct opened open_template(const char *path)
{
    static const char tokens[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
    const struct sp_text text = whole_text(tokens);
    struct opened o = {.path = path};
    size_t size;

    o.template = keep_template(scratch_read(path, &size),
                               strstr(path, "/go/") ? SP_TEMPLATE_GO : SP_TEMPLATE_JINJA);
    assert_ok(sp_template_read_tokens(o.template, &text, NULL));
    assert_ok(sp_chat_format_learn(&o.format, o.template, NULL, NULL));
    assert_ok(sp_chat_learn_refusals(&o.refused, o.template, &o.format, NULL));
    return o;
}

/* Appends the message of a letter: system, user, assistant, the assistant's call, its result. */
static size_t put_message(char *to, size_t size, char letter, size_t i)
{
    static const char *const roles[] = {['s' - 'a'] = "system",
                                        ['u' - 'a'] = "user",
                                        ['a' - 'a'] = "assistant",
                                        ['t' - 'a'] = "tool"};

    if (letter == 'c')
        return (size_t)snprintf(
            to, size,
            "%s{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call_abcdef%zu\","
            "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
            i ? "," : "", i);
    return (size_t)snprintf(to, size, "%s{\"role\":\"%s\",\"content\":\"M%zu.\"%s%zu\"}",
                            i ? "," : "", roles[letter - 'a'], i,
                            letter == 't' ? ",\"name\":\"f\",\"tool_call_id\":\"call_abcdef"
                                          : ",\"x\":\"",
                            letter == 't' ? i - 1 : i);
}

/* Renders the conversation of some letters; fails if a part is lost. */
static void check(const struct opened *o, const char *letters)
{
    static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";
    struct sp_template_request request = {.messages = NULL};
    struct sp_err err = {0};
    unsigned changed = 0;
    char json[4096] = "[", *text = NULL;
    size_t n = 1, size;

    for (size_t i = 0; letters[i]; i++)
        n += put_message(json + n, sizeof json - n, letters[i], i);
    snprintf(json + n, sizeof json - n, "]");
    assert_ok(sp_json_parse(&request.messages, json, strlen(json), SP_JSON_STRICT, NULL));
    if (strchr(letters, 'c'))
        assert_ok(sp_json_parse(&request.tools, tools, strlen(tools), SP_JSON_STRICT, NULL));
    request.input =
        (struct sp_template_input){.generation_prompt = true, .now = {2025, 6, 15, 12, 0, 0}};
    assert_ok(sp_chat_normalize(&changed, &request, o->refused, &o->format.calls, why));
    if (sp_template_render(&text, &size, o->template, &request.input, &err)) {
        fail_msg("%s: %s: %s", o->path, letters, err.text);
    } else {
        for (size_t i = 0; letters[i]; i++) {
            const char *word = keep_format("M%zu.", i);
            if (letters[i + 1 + strspn(letters + i + 1, "sa")] == 'c' && letters[i] == 'a' &&
                changed & SP_CHAT_TEXT_LOST)
                continue;
            if (letters[i] != 'c' && !strstr(text, word))
                fail_msg("%s: %s: lost %s: %s", o->path, letters, word, text);
        }
    }
    free(text);
    sp_template_request_release(&request);
}

/* All conversations of up to five messages that begin with the user, system messages excepted. */
static void check_orders(const struct opened *o)
{
    static const char *const steps[] = {"s", "u", "a", "ct"};
    for (size_t code = 0; code < 1024; code++) {
        char letters[16] = "";
        size_t n = 0;
        for (size_t c = code, i = 0; i < 5; i++, c /= 4)
            n += (size_t)snprintf(letters + n, sizeof letters - n, "%s", steps[c % 4]);
        if (strchr(letters, 'c') && o->format.calls.style == SP_TOOL_CALL_UNKNOWN) continue;
        if (letters[strspn(letters, "s")] == 'u') check(o, letters);
    }
}

TEST(orders_of_roles)
{
    static const char *const folders[] = {FOLDER "/jinja", FOLDER "/jinja_snapshot", FOLDER "/go"};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (!golden_exists(folders[i])) skip();
        for (const char *const *name = folder_names(folders[i]); *name; name++) {
            struct opened o = open_template(keep_format("%s/%s", folders[i], *name));
            check_orders(&o);
        }
    }
}

static void assert_normalized(unsigned refused, const char *sent, const char *wanted,
                              const char *wanted_changes)
{
    struct sp_template_request request = {.messages = NULL};
    const struct sp_tool_call_format calls = {.style = SP_TOOL_CALL_OBJECT};
    char changes[SP_CHAT_CHANGES_TEXT];
    unsigned changed = 0;

    assert_ok(sp_json_parse(&request.messages, sent, strlen(sent), SP_JSON_STRICT, NULL));
    assert_ok(sp_chat_normalize(&changed, &request, refused, &calls, NULL));
    assert_string_equal(keep_printed(request.messages), wanted);
    assert_string_equal(sp_chat_describe_changes(changes, changed), wanted_changes);
    sp_template_request_release(&request);
}

#define SYSTEM(text) "{\"role\":\"system\",\"content\":\"" text "\"}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define CALL(id, arguments)                                                                        \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" id                       \
    "\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]}"
#define RESULT(id) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\"}"
#define EDITED(role, text) "{\"content\":\"" text "\",\"role\":\"" role "\"}"

/* A conversation is changed only as far as its template needs it. */
TEST(changes)
{
    static const char sent[] = "[" SYSTEM("a") "," USER("b") "," SYSTEM("c") "," USER("d") "]";

    assert_normalized(0, sent, sent, "");
    assert_normalized(SP_CHAT_SYSTEM_FIRST, sent,
                      "[" EDITED("system", "a\\n\\nc") "," USER("b") "," USER("d") "]",
                      "system moved to the start");
    assert_normalized(SP_CHAT_SYSTEM_FIRST | SP_CHAT_USERS_APART, sent,
                      "[" EDITED("system", "a\\n\\nc") "," EDITED("user", "b\\n\\nd") "]",
                      "system moved to the start, user merged");
    assert_normalized(SP_CHAT_NO_SYSTEM, sent,
                      "[" EDITED("user", "a\\n\\nc\\n\\nb") "," USER("d") "]",
                      "system put before user");
    assert_normalized(
        SP_CHAT_SHORT_IDS | SP_CHAT_ANSWER_TOOLS,
        "[" USER("a") "," CALL("call_abc", "{}") "," RESULT("call_abc") "," USER("b") "]",
        "[" USER("a") "," CALL("6sr448bhu", "{}") "," RESULT(
            "6sr448bhu") ",{\"role\":\"assistant\",\"content\":\"OK.\"}," USER("b") "]",
        "assistant inserted, ids shortened");
    assert_normalized(0, "[" CALL("a", "\"\"") "]", "[" CALL("a", "{}") "]", "arguments filled in");
    assert_normalized(SP_CHAT_WHOLE_ARGUMENTS, "[" CALL("a", "\"{\\\"x\"") "]",
                      "[" CALL("a", "{\"arguments\":\"{\\\"x\"}") "]", "arguments made objects");
}
