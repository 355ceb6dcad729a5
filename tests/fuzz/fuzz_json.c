/* Fuzzes the JSON parser: a text is refused, or printed as JSON that parses to the same value. */
#include "format/json/json_write.h"
#include "tests/fuzz/fuzz.h"

static void round_trip(const char *text, size_t size, enum sp_json_strictness strictness)
{
    struct sp_json *root = NULL, *again = NULL;
    char *printed = NULL, *second = NULL;
    struct sp_err err = {0};

    if (sp_json_parse(&root, text, size, strictness, &err)) {
        if (err.text[0] == '\0') abort();
        return;
    }
    if (sp_json_print(&printed, root, NULL)) abort();
    if (sp_json_parse(&again, printed, strlen(printed), strictness, NULL)) abort();
    if (sp_json_print(&second, again, NULL) || strcmp(printed, second) != 0) abort();
    for (struct sp_json_iter it = {0}; sp_json_next(root, &it);)
        if (!sp_json_has(root, it.key) || sp_json_get(root, it.key) != it.value) abort();
    sp_json_free(root);
    sp_json_free(again);
    free(printed);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    round_trip((const char *)data, size, SP_JSON_STRICT);
    round_trip((const char *)data, size, SP_JSON_LENIENT);
    return 0;
}
