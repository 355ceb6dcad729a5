/* Fuzzes the pooling section: a record that is read is printed and read again as the same. */
#include "format/config/pooling.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_pooling_config config, again;
    struct sp_json *root = NULL;
    struct sp_err err = {0};
    const struct sp_text input = {(char *)(uintptr_t)data, size};
    struct sp_text text;

    if (sp_pooling_read(&config, &root, &input, 64, &err)) return 0;
    if (sp_pooling_print(&text, &config, sp_json_get(root, "prompts"),
                         sp_json_get_text(root, "default_prompt"), &err) ||
        (config.max_tokens && sp_pooling_read(&again, NULL, &text, 64, &err)) ||
        (config.max_tokens && memcmp(&config, &again, sizeof config) != 0))
        abort();
    free(text.at);
    sp_json_free(root);
    return 0;
}
