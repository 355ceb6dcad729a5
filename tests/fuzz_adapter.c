/* Any adapter_config.json is refused with a sentence, or gives every module a rank that may be and
 * a finite scale. */
#include "convert/adapter_config.h"

#include "format/regex.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const modules[] = {"model.layers.0.self_attn.q_proj", "lm_head", ""};
    struct sp_adapter_config config;
    struct sp_matcher *matcher = NULL;
    struct sp_err err = {0};

    if (sp_adapter_config_parse(&config, (const char *)data, size, &err)) {
        if (err.text[0] == '\0' || err.status == SP_E_BUG) abort();
        return 0;
    }
    if (sp_matcher_open(&matcher, &err)) abort();
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        uint64_t rank;
        double scale;
        enum sp_status st =
            sp_adapter_config_find(&rank, &scale, &config, modules[i], matcher, &err);

        if (st == SP_E_BUG) abort();
        if (st == SP_OK && (rank > SP_ADAPTER_MAX_RANK || !isfinite(scale))) abort();
    }
    sp_matcher_close(matcher);
    sp_adapter_config_release(&config);
    return 0;
}
