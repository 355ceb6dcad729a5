/* Fuzzes adapters. An adapter_config.json is refused with a message, or gives every module a valid
 * rank and a finite scale. The same bytes as the record of merged adapters in a packed file are
 * refused, or written again with one more adapter. */
#include "convert/adapter/adapter.h"
#include "convert/adapter/merge.h"

#include "format/tokenizer/regex.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void append_to_record(const char *text, size_t size)
{
    struct sp_merge_record *records, *more;
    struct sp_err err = {0};
    char words[SP_MERGE_WORDS];
    const struct sp_text before = {(char *)(uintptr_t)text, size};
    struct sp_text joined;
    size_t n, n_more;

    if (sp_merge_records_read(&records, &n, text, size, &err)) {
        if (err.text[0] == '\0' || err.status == SP_E_BUG) abort();
        return;
    }
    for (size_t i = 0; i < n; i++)
        sp_merge_words(words, &records[i]);
    if (sp_merge_records_add(&joined, &before, &records[n - 1], &err)) abort();
    if (sp_merge_records_read(&more, &n_more, joined.at, joined.size, &err) == SP_OK) {
        if (n_more != n + 1) abort();
        free(more);
    }
    free(joined.at);
    free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const modules[] = {"model.layers.0.self_attn.q_proj", "lm_head", ""};
    struct sp_adapter_config config;
    struct sp_regex_matcher *matcher = NULL;
    struct sp_err err = {0};

    append_to_record((const char *)data, size);
    if (sp_adapter_config_parse(&config, (const char *)data, size, &err)) {
        if (err.text[0] == '\0' || err.status == SP_E_BUG) abort();
        return 0;
    }
    if (sp_regex_matcher_open(&matcher, &err)) abort();
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        uint64_t rank;
        double scale;
        enum sp_status st =
            sp_adapter_config_find(&rank, &scale, &config, modules[i], matcher, &err);
        if (st == SP_E_BUG) abort();
        if (st == SP_OK && (rank > SP_ADAPTER_MAX_RANK || !isfinite(scale))) abort();
    }
    sp_regex_matcher_close(matcher);
    sp_adapter_config_release(&config);
    return 0;
}
