/* Fuzzes Go templates, rendered with data and as a conversation. A template may be refused, but
 * must not crash, hang or exceed its heap. */
#include "runtime/template/go/gotemplate.h"
#include "tests/fuzz/fuzz.h"

enum { MEMORY = 16 << 20, WORK = 3 * 1000 * 1000 };

static const char messages[] =
    "[{\"role\": \"system\", \"content\": \"be \\u00e9\"}, {\"role\": \"user\", \"content\": "
    "\"a<b>\"}, {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": "
    "{\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": [1.5, true, null]}}}]}, {\"role\": "
    "\"tool\", \"content\": \"7\"}, {\"role\": \"user\", \"content\": \"z\"}]";
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"required\": [\"x\"], \"properties\": {\"x\": {\"type\": [\"integer\", "
    "\"null\"], \"enum\": [1, 2]}, \"o\": {\"anyOf\": [{\"type\": \"string\"}]}}}}}]";
static const char values[] =
    "{\"System\": \"s\", \"L\": [\"x\", 1, null], \"M\": {\"b\": 1, \"a\": {\"c\": []}}, \"N\": 3}";

static void render(const struct sp_gotemplate *t, const struct sp_go_chat *chat,
                   const struct sp_json *vars)
{
    struct sp_err err = {0};
    struct sp_heap heap;
    struct sp_builder out = {.heap = &heap};
    struct sp_value data;
    enum sp_status st;

    sp_heap_init(&heap, MEMORY, WORK, &err);
    if (vars != NULL) {
        data = sp_go_value(&heap, vars);
        if (heap.status) abort();
        st = sp_gotemplate_render(&out, t, data, SP_GOTEMPLATE_ALL, chat->now);
    } else {
        st = sp_go_chat(&out, t, chat);
    }
    if (st == SP_E_BUG) abort();
    sp_heap_release(&heap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_err err = {0};
    struct sp_heap tree;
    const struct sp_gotemplate *t;
    struct sp_json *json[3] = {NULL, NULL, NULL};
    const char *const texts[3] = {messages, tools, values};
    struct sp_go_chat chat = {.think = true, .is_think_set = true, .now = {2025, 6, 15, 12, 0, 0}};

    if (size > SP_TEMPLATE_MAX_TEXT) return 0;
    sp_heap_init(&tree, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, &err);
    if ((t = sp_gotemplate_compile(&tree, (const char *)data, size)) == NULL) goto done;
    for (int i = 0; i < 3; i++)
        if (sp_json_parse(&json[i], texts[i], strlen(texts[i]), SP_JSON_STRICT, &err)) abort();
    chat.messages = json[0];
    chat.tools = json[1];
    render(t, &chat, NULL);
    render(t, &chat, json[2]);
    for (int i = 0; i < 3; i++)
        sp_json_free(json[i]);
done:
    sp_heap_release(&tree);
    return 0;
}
