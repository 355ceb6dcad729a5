/* Fuzzes results of bench: the bytes are refused with a message, or all figures are positive. */
#include "cli/bench/bench_result.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_bench_result result = {.path = "result"};
    struct sp_err err = {0};

    if (sp_bench_result_parse(&result, (const char *)data, size, &err)) {
        if (err.text[0] == '\0') abort();
    } else {
        const struct sp_bench *b = &result.bench;
        if (b->n_depths == 0 || b->n_prompts == 0 || b->name == NULL) abort();
        if (!(sp_bench_prefill_rate(b) > 0) || !(b->depths[0].verify_seconds[0] > 0)) abort();
        for (size_t i = 0; i < b->n_prompts; i++) {
            if (!(b->prompts[i].plain.rate > 0)) abort();
            for (size_t k = 0; k < b->n_draft_lens; k++)
                if (!(b->prompts[i].drafted[k].rate > 0)) abort();
        }
    }
    sp_bench_result_release(&result);
    return 0;
}
