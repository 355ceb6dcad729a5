/* How the hidden states of an embedding model's text become one vector: llama.cpp's pooling types.
 */
#include "convert/gguf/gguf_config.h"
#include "convert/gguf/gguf_writer.h"

#include <inttypes.h>
#include <stdio.h>

enum sp_status sp_gguf_pooling_text(char **text, size_t *size, struct sp_pooling_config *out,
                                    const struct sp_gguf_model *model, unsigned max_tokens,
                                    struct sp_err *err)
{
    static const enum sp_pooling_mode modes[] = {SP_POOL_NONE, SP_POOL_MEAN, SP_POOL_CLS,
                                                 SP_POOL_LAST};
    struct sp_pooling_config pooling = {.normalize = true, .max_tokens = max_tokens};
    char key[SP_GGUF_KEY_SIZE];
    uint64_t type = 0;
    enum sp_status st;

    snprintf(key, sizeof key, "%s.pooling_type", model->arch->name);
    if ((st = sp_gguf_get_u64(model->file, key, UINT32_MAX, &type, err))) return st;
    if (type >= sizeof modes / sizeof *modes) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s is %" PRIu64 ", expected 0 (none), 1 (mean), 2 (cls) or 3 (last)", key,
                       type);
    }
    if (modes[type] == SP_POOL_NONE) return SP_OK;
    pooling.mode = modes[type];
    if ((st = sp_pooling_print(text, size, &pooling, NULL, NULL, err))) return st;
    *out = pooling;
    return SP_OK;
}
