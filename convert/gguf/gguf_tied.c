#include "convert/gguf/gguf_tied.h"

#include "convert/gguf/gguf_names.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_COMPARED = 1000 }; /* rows of embedding and head, at most */

/* Embedding and head are one matrix, rounded twice, if they differ by less than this part of its
 * size: more than two bits lose, far less than two matrices differ. */
#define SAME_MATRIX 0.1

/* *out = the root of the mean square of a - b over that of b, over rows across both matrices. */
static enum sp_status compare_rows(double *out, const struct sp_gguf_model *m,
                                   const struct sp_gguf_weight *a, const struct sp_gguf_weight *b,
                                   struct sp_err *err)
{
    enum sp_status st;
    uint64_t rows = a->shape[0], cols = a->shape[1], step = rows / N_COMPARED + 1;
    double difference = 0, square = 0;
    uint8_t *bytes = NULL;
    float *x = NULL, *y;
    size_t size, n, other;

    if (!sp_gguf_weight_scratch(&size, a, cols) || !sp_gguf_weight_scratch(&other, b, cols) ||
        !sp_mul(&n, (size_t)cols, 2))
        return sp_fail(err, SP_E_INPUT, "tensor %s: its rows are too long", a->tensor->name);
    if (other > size) size = other;
    if ((st = sp_new(&bytes, size, 1, err)) || (st = sp_new(&x, n, sizeof *x, err))) goto done;
    y = x + cols;
    for (uint64_t row = 0; row < rows; row += step) {
        if ((st = sp_gguf_weight_read(x, m, a, cols, row, 1, 1, bytes, size, err)) ||
            (st = sp_gguf_weight_read(y, m, b, cols, row, 1, 1, bytes, size, err)))
            goto done;
        for (uint64_t k = 0; k < cols; k++) {
            double d = (double)x[k] - (double)y[k];
            difference += d * d;
            square += (double)y[k] * (double)y[k];
        }
    }
    *out = square > 0 ? sqrt(difference / square) : 0;
done:
    free(bytes);
    free(x);
    return st;
}

static void remove_weight(struct sp_gguf_model *m, size_t i)
{
    free(m->weights[i].name);
    memmove(m->weights + i, m->weights + i + 1, (m->n - i - 1) * sizeof *m->weights);
    m->n--;
}

enum sp_status sp_gguf_tie_head(struct sp_gguf_model *m, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_gguf_weight *head = sp_gguf_weight_find(m, "lm_head.weight");
    const struct sp_gguf_weight *embedding = sp_gguf_embedding(m);
    const struct sp_gguf_weight *coarse;
    const char *kept;
    double difference = 1;

    m->tied = head == NULL;
    if (head == NULL || embedding == NULL || head->rank != 2 || embedding->rank != 2 ||
        memcmp(head->shape, embedding->shape, 2 * sizeof *head->shape) != 0)
        return SP_OK;
    if ((st = compare_rows(&difference, m, head, embedding, err))) return st;
    if (!(difference < SAME_MATRIX)) return SP_OK;
    coarse = head->tensor->size > embedding->tensor->size ? embedding : head;
    kept = coarse == head ? "token_embd.weight" : "output.weight";
    st = sp_warn(warnings, err,
                 "%s: token_embd.weight and output.weight are the same matrix; %s, the more "
                 "precise one, is used for both",
                 sp_gguf_path(m->file), kept);
    if (st) return st;
    if (coarse == embedding) { /* its name passes to the head's numbers */
        struct sp_gguf_weight *both = (struct sp_gguf_weight *)(uintptr_t)embedding;
        both->tensor = head->tensor;
        both->scale = head->scale;
        coarse = head;
    }
    m->tied = true;
    remove_weight(m, (size_t)(coarse - m->weights));
    return SP_OK;
}
