/* Holds a package against the reference decoder of the same file, by passes over the same ids: of
 * the reference decoder, with activations and caches as they are, and rounded as the package's; of
 * the scalar kernels, whose products are compared one by one; of the package, whose logits must
 * have the bits of the scalar kernels. Logits alone would not tell a fault of a kernel from
 * rounding: a sum that is off by its last bit changes codes of activations, and these change later
 * ones. */
#include "runtime/session/session.h"

#include "format/base/mem.h"
#include "runtime/backend/reference.h"
#include "runtime/measure/logit_score.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PACKAGE = SP_REFERENCE_CHECKED + 1, N_PASSES }; /* passes behind those of the modes */

struct reference_check {
    const struct sp_reference_check_request *request;
    struct sp_reference_check *out;
    const struct sp_vector *vector;
    unsigned pass;
    size_t first, n_vocab; /* the row of the ids that is compared first */
    float *rows[PACKAGE];  /* [n_rows][n_vocab] of the other passes; owned */
    bool finite;
};

/* The largest difference between elements of two rows, relative to the largest element. */
static double row_error(const float *row, const float *reference, size_t n)
{
    float error = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        error = fmaxf(error, fabsf(row[i] - reference[i]));
        most = fmaxf(most, fabsf(reference[i]));
    }
    return most > 0 ? (double)error / (double)most : (double)error;
}

static void keep_largest(double *largest, double error)
{
    if (error > *largest) *largest = error;
}

/* Compares row i of the package with the reference's. */
static void compare(struct reference_check *c, size_t i, const float *logits)
{
    const float *reference = c->rows[SP_REFERENCE_FLOAT] + i * c->n_vocab;
    struct sp_reference_check *out = c->out;
    struct sp_logit_score score, other;
    double divergence;

    if (!sp_logit_score(&score, c->vector, logits, c->n_vocab, 0) ||
        !sp_row_compare(&other, &divergence, c->vector, reference, logits, &score, c->n_vocab, 0)) {
        c->finite = false;
        return;
    }
    keep_largest(&out->error, row_error(logits, reference, c->n_vocab));
    if (out->n_equal == i && memcmp(logits, c->rows[SP_REFERENCE_CHECKED] + i * c->n_vocab,
                                    c->n_vocab * sizeof *logits) == 0)
        out->n_equal++;
    out->divergence += divergence / (double)out->n_rows;
    if (score.best == other.best || out->differs) return;
    out->differs = true;
    out->first_different = i;
    out->token = (uint32_t)score.best;
    out->reference_token = (uint32_t)other.best;
}

static int take_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct reference_check *c = context;
    const struct sp_reference_check_request *r = c->request;
    size_t i = row - c->first;

    if (r->progress && r->progress(r->context, c->pass * r->n + row + 1, N_PASSES * r->n)) return 1;
    if (row < c->first) return 0;
    if (c->pass == PACKAGE) {
        compare(c, i, logits);
        return 0;
    }
    memcpy(c->rows[c->pass] + i * n_vocab, logits, n_vocab * sizeof *logits);
    if (c->pass == SP_REFERENCE_ROUNDED)
        keep_largest(&c->out->rounding_error,
                     row_error(logits, c->rows[SP_REFERENCE_FLOAT] + i * n_vocab, n_vocab));
    return 0;
}

static enum sp_status run_model(struct reference_check *c, struct sp_package *package,
                                struct sp_err *err)
{
    const struct sp_reference_check_request *r = c->request;
    const struct sp_session_options options = {
        .size = sizeof options,
        .n_context = r->n,
        .cache = c->pass == SP_REFERENCE_FLOAT ? SP_CACHE_F32 : r->cache,
        .draft_by = SP_DRAFT_BY_NOTHING,
    };
    struct sp_session *session = NULL;
    enum sp_status st;

    if ((st = sp_session_open(&session, package, &options, err))) return st;
    st = sp_session_logits(session, r->ids, r->n, take_row, c, err);
    sp_session_close(session);
    return st;
}

enum sp_status sp_package_check_reference(struct sp_package *package,
                                          const struct sp_reference_check_request *request,
                                          struct sp_reference_check *result, struct sp_err *err)
{
    struct sp_reference_check_request r = {0};
    struct sp_reference_check out = {.size = sizeof out};
    struct reference_check c = {.request = &r,
                                .out = &out,
                                .vector = package->backend.vector,
                                .n_vocab = package->target->config.n_vocab,
                                .finite = true};
    enum sp_status st;

    if ((st = sp_copy_in(&r, sizeof r, request, "sp_reference_check_request", err))) return st;
    out.n_rows = r.n_rows < r.n ? r.n_rows : r.n;
    c.first = r.n - out.n_rows;
    for (size_t i = 0; i < PACKAGE && !st; i++)
        st = sp_new_rows(&c.rows[i], out.n_rows, c.n_vocab, err);
    for (; c.pass < N_PASSES && !st; c.pass++)
        st = run_model(&c, c.pass == PACKAGE ? package : r.references[c.pass], err);
    if (!st && !c.finite) st = sp_fail(err, SP_E_INPUT, "a logit is not finite");
    sp_reference_products(r.references[SP_REFERENCE_CHECKED]->backend.reference, &out.product_error,
                          &out.products_agree);
    if (!st) sp_copy_out(result, &out);
    for (size_t i = 0; i < PACKAGE; i++)
        free(c.rows[i]);
    return st;
}
