/* How an embedding model's hidden states become one vector: llama.cpp's pooling types. */
#include "convert/gguf/gguf_writer.h"
#include "format/base/warnings.h"
#include "format/config/pooling.h"

#include <inttypes.h>
#include <stdio.h>

/* EmbeddingGemma is published with two layers, which its converter leaves out unless told. */
static enum sp_status find_dense(struct sp_pooling_config *p, const struct sp_gguf_model *m,
                                 char **warnings, struct sp_err *err)
{
    while (p->n_dense < SP_MAX_DENSE) {
        const struct sp_gguf_weight *w;
        char name[40];
        snprintf(name, sizeof name, SP_DENSE_PREFIX "%u.linear.weight", p->n_dense);
        if ((w = sp_gguf_weight_find(m, name)) == NULL) break;
        if (w->rank != 2 || w->shape[0] > UINT32_MAX || w->shape[1] > UINT32_MAX)
            return sp_fail(err, SP_E_INPUT, "tensor %s is not a matrix", w->tensor->name);
        p->dense[p->n_dense++] =
            (struct sp_dense_config){.n_in = (unsigned)w->shape[1], .n_out = (unsigned)w->shape[0]};
    }
    if (p->n_dense || !m->arch->embeds) return SP_OK;
    return sp_warn(warnings, err,
                   "%s: dense_2.weight and dense_3.weight are missing; the published model has "
                   "them, and its embeddings differ",
                   sp_gguf_path(m->file));
}

static enum sp_status read_type(uint64_t *type, char key[SP_GGUF_KEY_SIZE],
                                const struct sp_gguf_model *model, struct sp_err *err)
{
    snprintf(key, SP_GGUF_KEY_SIZE, "%s.pooling_type", model->arch->name);
    return sp_gguf_get_u64(model->file, key, UINT32_MAX, type, err);
}

enum sp_status sp_gguf_pooling_check_rank(const struct sp_gguf_model *model, struct sp_err *err)
{
    enum { CLS = 2, RANK = 4 };
    char key[SP_GGUF_KEY_SIZE];
    uint64_t type = RANK;
    enum sp_status st = read_type(&type, key, model, err);

    if (st || type == RANK || type == CLS) return st;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s is %" PRIu64
                   ", but the file has a classification head, cls.output: expected "
                   "4 (rank) or 2 (cls)",
                   key, type);
}

enum sp_status sp_gguf_pooling_text(struct sp_text *text, struct sp_pooling_config *out,
                                    const struct sp_gguf_model *model, unsigned max_tokens,
                                    char **warnings, struct sp_err *err)
{
    static const enum sp_pooling_mode modes[] = {SP_POOL_NONE, SP_POOL_MEAN, SP_POOL_CLS,
                                                 SP_POOL_LAST};
    struct sp_pooling_config pooling = {.normalize = true, .max_tokens = max_tokens};
    char key[SP_GGUF_KEY_SIZE];
    uint64_t type = 0;
    enum sp_status st;

    if ((st = read_type(&type, key, model, err))) return st;
    if (type >= sizeof modes / sizeof *modes) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s is %" PRIu64 ", expected 0 (none), 1 (mean), 2 (cls) or 3 (last)", key,
                       type);
    }
    if (modes[type] == SP_POOL_NONE) return SP_OK;
    pooling.mode = modes[type];
    if ((st = find_dense(&pooling, model, warnings, err))) return st;
    if ((st = sp_pooling_print(text, &pooling, NULL, NULL, err))) return st;
    *out = pooling;
    return SP_OK;
}
