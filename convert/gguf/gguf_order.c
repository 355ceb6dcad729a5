/* Two changes of order: rows of queries and keys are permuted so that neighbors rotate together,
 * and value heads of the gated delta rule, published by key head, are tiled: the first value head
 * of all key heads, then the second. */
#include "convert/gguf/gguf_writer.h"
#include "format/base/affix.h"

#include <inttypes.h>
#include <string.h>

uint64_t sp_gguf_stored_at(const struct sp_gguf_order *order, uint64_t i)
{
    uint64_t inside, run;

    if (order->run == 0 || i < order->first) return i;
    inside = (i - order->first) % (order->n * order->m * order->run);
    run = inside / order->run;
    return i - inside + (run % order->m * order->n + run / order->m) * order->run +
           inside % order->run;
}

/* A size of the model; *out is unchanged if the file does not state it. */
static enum sp_status get_size(uint64_t *out, const struct sp_gguf_model *m, const char *key,
                               struct sp_err *err)
{
    struct sp_gguf_writer w = {.model = m};

    *out = sp_gguf_size(&w, key, *out);
    return sp_fail_as(err, &w.err);
}

/* ---- permuted queries and keys ---- */

/* Rows of a head of q or k. */
static enum sp_status read_head_dim(uint64_t *out, const struct sp_gguf_weight *w,
                                    const struct sp_gguf_model *m, bool is_k, struct sp_err *err)
{
    uint64_t heads = 0, rows = w->shape[0];
    enum sp_status st;

    if ((st = get_size(&heads, m, "attention.head_count", err))) return st;
    if (is_k && (st = get_size(&heads, m, "attention.head_count_kv", err))) return st;
    if (heads == 0 || rows % heads) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor %s: %" PRIu64 " rows do not consist of %" PRIu64 " heads",
                       w->tensor->name, rows, heads);
    }
    *out = rows / heads;
    return SP_OK;
}

static enum sp_status find_permutation(struct sp_gguf_weight *w, const struct sp_gguf_model *m,
                                       struct sp_err *err)
{
    bool is_q = strstr(w->name, ".q_proj.") != NULL, is_k = strstr(w->name, ".k_proj.") != NULL;
    uint64_t rows = w->shape[0], head = m->heads.head_dim;
    enum sp_status st;

    /* The first factor of an adapter's product has rows of another kind. */
    if ((!is_q && !is_k) || sp_ends_with(w->name, ".lora_a")) return SP_OK;
    if (m->family.gguf.permuted == SP_GGUF_PERMUTED_MATRICES && w->rank == 1) return SP_OK;
    if (!m->is_adapter && (st = read_head_dim(&head, w, m, is_k, err))) return st;
    if (head == 0 || head % 2 || rows % head) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor %s: %" PRIu64 " rows do not consist of heads of even size",
                       w->tensor->name, rows);
    }
    w->rows = (struct sp_gguf_order){.n = 2, .m = head / 2, .run = 1};
    return SP_OK;
}

/* ---- tiled value heads ---- */

static enum sp_status read_heads(struct sp_gguf_heads *out, const struct sp_gguf_model *m,
                                 struct sp_err *err)
{
    uint64_t inner = 0;
    struct sp_gguf_heads h = {0};
    enum sp_status st;

    if (m->is_adapter) {
        *out = m->heads;
        return SP_OK;
    }
    if ((st = get_size(&h.keys, m, "ssm.group_count", err))) return st;
    if ((st = get_size(&h.values, m, "ssm.time_step_rank", err))) return st;
    if ((st = get_size(&h.key_dim, m, "ssm.state_size", err))) return st;
    if ((st = get_size(&inner, m, "ssm.inner_size", err))) return st;
    if (h.keys == 0 || h.values == 0 || h.values % h.keys || inner == 0 || inner % h.values) {
        return sp_fail(err, SP_E_INPUT,
                       "%s.ssm.inner_size %" PRIu64 " is not divided into %" PRIu64
                       " value heads of %" PRIu64 " key heads",
                       m->arch->name, inner, h.values, h.keys);
    }
    h.value_dim = inner / h.values;
    *out = h;
    return SP_OK;
}

/* Whether a tensor is the one of this name or, of a product in its place, the factor that has its
 * rows or columns. */
static bool is_factor_of(const char *name, const char *of, bool has_cols)
{
    size_t len = strlen(of);

    if (strncmp(name, of, len) != 0) return false;
    return name[len] == '\0' || strcmp(name + len, has_cols ? ".lora_a" : ".lora_b") == 0;
}

static enum sp_status find_tiles(struct sp_gguf_weight *w, const struct sp_gguf_model *m,
                                 struct sp_err *err)
{
    static const struct {
        const char *name;
        bool behind_keys; /* rows of queries and keys come first */
        bool single;      /* a head is one row */
        bool by_cols;     /* heads are columns */
    } tiled[] = {
        {"linear_attn.in_proj_qkv.weight", true, false, false},
        {"linear_attn.conv1d.weight", true, false, false},
        {"linear_attn.in_proj_z.weight", false, false, false},
        {"linear_attn.in_proj_a.weight", false, true, false},
        {"linear_attn.in_proj_b.weight", false, true, false},
        {"linear_attn.A_log", false, true, false},
        {"linear_attn.dt_bias", false, true, false},
        {"linear_attn.out_proj.weight", false, false, true},
    };
    const char *name = strstr(w->name, "linear_attn.");
    struct sp_gguf_heads h = {0};
    enum sp_status st;

    if (name == NULL) return SP_OK;
    if ((st = read_heads(&h, m, err)) || h.keys == h.values) return st;
    for (size_t i = 0; i < sizeof tiled / sizeof *tiled; i++) {
        struct sp_gguf_order order = {.n = h.keys, .m = h.values / h.keys};
        bool by_cols = tiled[i].by_cols;
        uint64_t size = by_cols ? w->shape[w->rank - 1] : w->shape[0];
        if (!is_factor_of(name, tiled[i].name, by_cols)) continue;
        order.first = tiled[i].behind_keys ? 2 * h.keys * h.key_dim : 0;
        order.run = tiled[i].single ? 1 : h.value_dim;
        if (size < order.first || size - order.first != h.values * order.run) {
            return sp_fail(err, SP_E_INPUT,
                           "tensor %s: %" PRIu64 " %s, but %" PRIu64 " value heads need %" PRIu64,
                           w->tensor->name, size, by_cols ? "columns" : "rows", h.values,
                           order.first + h.values * order.run);
        }
        *(by_cols ? &w->cols : &w->rows) = order;
    }
    return SP_OK;
}

enum sp_status sp_gguf_find_orders(struct sp_gguf_weight *weight, const struct sp_gguf_model *model,
                                   struct sp_err *err)
{
    enum sp_status st = model->family.gguf.permuted ? find_permutation(weight, model, err) : SP_OK;

    if (st || !model->family.gguf.v_heads_tiled) return st;
    return find_tiles(weight, model, err);
}
