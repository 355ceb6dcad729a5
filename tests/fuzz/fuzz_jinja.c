/* Fuzzes Jinja templates, rendered with a conversation. A template may be refused, but must not
 * crash, hang or exceed its heap. */
#include "runtime/template/jinja/jinja.h"
#include "tests/fuzz/fuzz.h"

enum { MEMORY = 16 << 20, WORK = 3 * 1000 * 1000 };

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"be \\u00e9\"}, {\"role\": \"user\", "
    "\"content\": [{\"type\": \"text\", \"text\": \"a<b>\"}]}, {\"role\": \"assistant\", "
    "\"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": "
    "1, \"y\": [1.5, true, null]}}}]}], \"tools\": [{\"type\": \"function\", \"function\": "
    "{\"name\": \"f\", \"parameters\": {\"properties\": {\"x\": {\"type\": \"integer\"}}}}}], "
    "\"s\": \"Hello World\", \"l\": [3, 1, 2], \"n\": null, \"big\": 12345678901234567890, \"f\": "
    "2.5, \"i\": -7, \"bos_token\": \"<s>\", \"add_generation_prompt\": true}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sp_template_time now = {2025, 6, 15, 12, 0, 0};
    struct sp_err err = {0};
    const struct sp_jinja_node *body;
    struct sp_json *json = NULL;
    struct sp_value vars;
    struct sp_heap tree, heap;
    struct sp_builder out = {.heap = &heap};

    if (size > SP_TEMPLATE_MAX_TEXT) return 0;
    sp_heap_init(&tree, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, &err);
    sp_heap_init(&heap, MEMORY, WORK, &err);
    body = sp_jinja_compile(&tree, (const char *)data, size);
    if (tree.status) goto done;
    if (sp_json_parse(&json, variables, strlen(variables), SP_JSON_STRICT, &err)) abort();
    vars = sp_value_from_json(&heap, json);
    if (heap.status) abort();
    (void)!sp_jinja_render(&out, body, vars, now);
    if (err.status == SP_E_BUG) abort();
done:
    sp_json_free(json);
    sp_heap_release(&heap);
    sp_heap_release(&tree);
    return 0;
}
