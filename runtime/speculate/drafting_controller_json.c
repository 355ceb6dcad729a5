#include "runtime/speculate/drafting_controller.h"

#include "format/json/json_write.h"

#include <math.h>

enum { VERSION = 1, LEAST_ROUNDS = 8 /* rounds that drafted */ };

/* The most that statistics of earlier processes count for. */
static const double most_timings = 2; /* at a length */
static const double most_tried = 8;   /* draft tokens at a position */
static const double most_tokens = 24; /* of drafted rounds */

static const double greatest = 1e9; /* of any number in the text */

bool sp_drafting_controller_json_is_new(const struct sp_drafting_controller *b)
{
    return b->n_drafted >= LEAST_ROUNDS;
}

/* ---- writing ---- */

static void put_costs(struct sp_json_out *out, const char *key, const struct sp_cost_model *cost)
{
    const char *comma = "";

    sp_json_out_print(out, ", \"%s\": [", key);
    for (size_t n = 0; n < SP_COST_LENGTHS; n++) {
        if (!(cost->weight[n] > 0)) continue;
        sp_json_out_print(out, "%s[%zu, %.6g, %.3g]", comma, n, cost->mean[n], cost->weight[n]);
        comma = ", ";
    }
    sp_json_out_raw(out, "]");
}

static void put_acceptances(struct sp_json_out *out, const struct sp_drafting_controller *b)
{
    const char *comma = "";

    sp_json_out_raw(out, ", \"accepted\": [");
    for (size_t i = 1; i <= b->max; i++) {
        if (!(b->tried[i] > 0)) continue;
        sp_json_out_print(out, "%s[%zu, %.4g, %.4g]", comma, i, b->tried[i], b->accepted[i]);
        comma = ", ";
    }
    sp_json_out_raw(out, "]");
}

enum sp_status sp_drafting_controller_json_write(struct sp_strbuf *out,
                                                 const struct sp_drafting_controller *b,
                                                 struct sp_err *err)
{
    const struct sp_calibrated_confidence *c = &b->confidence;
    struct sp_json_out writer = {.text = *out};

    sp_json_out_print(&writer, "{\"version\": %d", VERSION);
    put_costs(&writer, "verify", &b->verify);
    put_costs(&writer, "draft", &b->draft);
    sp_json_out_print(&writer, ", \"catch_up\": [%.6g, %.6g]", b->caught_up, b->catch_up_seconds);
    put_acceptances(&writer, b);
    sp_json_out_print(&writer, ", \"confidence\": [%.6g, %.6g, %.6g, %.6g, %.6g]", c->a, c->b,
                      c->h_aa, c->h_ab, c->h_bb);
    sp_json_out_print(&writer, ", \"drafted\": [%.6g, %.6g]}\n", b->tokens, b->seconds);
    *out = writer.text;
    return sp_json_out_check(&writer, err);
}

/* ---- reading ---- */

/* Reads an array of n numbers of at least `least`. */
static bool numbers(double *out, size_t n, const struct sp_json *array, double least)
{
    if (sp_json_kind(array) != SP_JSON_ARRAY || sp_json_len(array) != n) return false;
    for (size_t i = 0; i < n; i++) {
        if (!sp_json_to_double(sp_json_at(array, i), &out[i])) return false;
        if (!(out[i] >= least && out[i] <= greatest)) return false;
    }
    return true;
}

static bool read_costs(struct sp_cost_model *cost, const struct sp_json *rows, size_t max)
{
    double row[3];

    if (sp_json_kind(rows) != SP_JSON_ARRAY) return false;
    for (size_t i = 0; i < sp_json_len(rows); i++) {
        if (!numbers(row, 3, sp_json_at(rows, i), 0) || row[0] > (double)max) return false;
        if (row[2] < 1) return false; /* a time that was never taken */
        sp_cost_model_set(cost, (size_t)row[0], row[1], fmin(row[2], most_timings));
    }
    return true;
}

static bool read_acceptances(struct sp_drafting_controller *b, const struct sp_json *rows)
{
    double row[3];

    if (sp_json_kind(rows) != SP_JSON_ARRAY) return false;
    for (size_t i = 0; i < sp_json_len(rows); i++) {
        double scale;
        size_t n;
        if (!numbers(row, 3, sp_json_at(rows, i), 0)) return false;
        if (row[0] < 1 || row[0] > (double)b->max || row[2] > row[1]) return false;
        n = (size_t)row[0];
        scale = row[1] > most_tried ? most_tried / row[1] : 1;
        b->tried[n] = scale * row[1];
        b->accepted[n] = scale * row[2];
    }
    return true;
}

static bool read_confidence(struct sp_calibrated_confidence *c, const struct sp_json *array)
{
    double n[5];

    if (!numbers(n, 5, array, -greatest)) return false;
    *c = (struct sp_calibrated_confidence){n[0], n[1], n[2], n[3], n[4]};
    return c->b >= 0 && c->h_aa > 0 && c->h_bb > 0 && c->h_aa * c->h_bb > c->h_ab * c->h_ab;
}

static bool read_all(struct sp_drafting_controller *b, const struct sp_json *o)
{
    double drafted[2], caught_up[2], scale;
    int64_t version;

    if (!sp_json_to_i64(sp_json_get(o, "version"), &version) || version != VERSION) return false;
    if (!read_costs(&b->verify, sp_json_get(o, "verify"), SP_COST_LENGTHS - 1)) return false;
    if (!read_costs(&b->draft, sp_json_get(o, "draft"), b->max)) return false;
    if (!numbers(caught_up, 2, sp_json_get(o, "catch_up"), 0)) return false;
    if (!read_acceptances(b, sp_json_get(o, "accepted"))) return false;
    if (!read_confidence(&b->confidence, sp_json_get(o, "confidence"))) return false;
    if (!numbers(drafted, 2, sp_json_get(o, "drafted"), 0)) return false;
    scale = drafted[0] > most_tokens ? most_tokens / drafted[0] : 1;
    b->tokens = scale * drafted[0];
    b->seconds = scale * drafted[1];
    b->caught_up = caught_up[0];
    b->catch_up_seconds = caught_up[1];
    return b->verify.n_timings > 0 && b->draft.n_timings > 0;
}

enum sp_status sp_drafting_controller_json_read(struct sp_drafting_controller *controller,
                                                const struct sp_json *statistics, bool retry,
                                                struct sp_err *err)
{
    struct sp_drafting_controller b = *controller;

    if (!read_all(&b, statistics))
        return sp_fail(err, SP_E_INPUT, "not the statistics of drafting with this pair of models");
    sp_drafting_controller_resume(&b, retry);
    *controller = b;
    return SP_OK;
}
