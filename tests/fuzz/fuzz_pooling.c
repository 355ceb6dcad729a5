/* Fuzzes the pooling section: a record that is read is printed and read again as the same. */
#include "format/config/pooling.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_pooling_config config, again;
    struct sp_json *root = NULL;
    struct sp_err err = {0};
    char *text = NULL;
    size_t n;

    if (sp_pooling_read(&config, &root, (const char *)data, size, 64, &err)) return 0;
    if (sp_pooling_print(&text, &n, &config, sp_json_get(root, "prompts"),
                         sp_json_get_text(root, "default_prompt"), &err) ||
        (config.max_tokens && sp_pooling_read(&again, NULL, text, n, 64, &err)) ||
        (config.max_tokens && memcmp(&config, &again, sizeof config) != 0))
        abort();
    free(text);
    sp_json_free(root);
    return 0;
}
