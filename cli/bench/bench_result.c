#include "cli/bench/bench_result.h"

#include "format/base/file.h"
#include "format/packfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "spectool bench --json"

/* Returns a member that must exist. */
static enum sp_status find(const struct sp_json **out, const struct sp_json *object,
                           const char *key, enum sp_json_kind kind, struct sp_err *err)
{
    *out = sp_json_get(object, key);
    if (*out != NULL && sp_json_kind(*out) == kind) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "not a result of " COMMAND ": %s %s", key,
                   *out ? "has the wrong type" : "is missing");
}

static enum sp_status read_text(const char **out, const struct sp_json *object, const char *key,
                                struct sp_err *err)
{
    const struct sp_json *v;
    enum sp_status st = find(&v, object, key, SP_JSON_STRING, err);

    if (st == SP_OK) *out = sp_json_to_string(v, NULL);
    return st;
}

static enum sp_status read_count(size_t *out, const struct sp_json *object, const char *key,
                                 int64_t most, struct sp_err *err)
{
    const struct sp_json *v;
    int64_t n = 0;
    enum sp_status st = find(&v, object, key, SP_JSON_INT, err);

    if (st || (st = sp_json_get_i64(object, key, 1, most, &n, err))) return st;
    *out = (size_t)n;
    return SP_OK;
}

/* Reads a rate or a time, which is positive. */
static enum sp_status read_figure(double *out, const struct sp_json *object, const char *key,
                                  struct sp_err *err)
{
    double figure = 0;

    if (!sp_json_to_double(sp_json_get(object, key), &figure) || !isfinite(figure) || figure <= 0) {
        return sp_fail(err, SP_E_INPUT, "not a result of " COMMAND ": %s is not a positive number",
                       key);
    }
    *out = figure;
    return SP_OK;
}

/* Finds an array of 1 to `most` elements. */
static enum sp_status find_array(const struct sp_json **out, const struct sp_json *object,
                                 const char *key, size_t most, struct sp_err *err)
{
    enum sp_status st = find(out, object, key, SP_JSON_ARRAY, err);

    if (st || (sp_json_len(*out) > 0 && sp_json_len(*out) <= most)) return st;
    return sp_fail(err, SP_E_INPUT, "%s has %zu elements, expected 1 to %zu", key,
                   sp_json_len(*out), most);
}

static enum sp_status read_passes(struct sp_bench_depth *d, const struct sp_json *from,
                                  struct sp_err *err)
{
    const struct sp_json *passes;
    size_t n_rows = 0;
    enum sp_status st;

    if ((st = read_count(&d->n_before, from, "depth", UINT32_MAX, err))) return st;
    if ((st = find_array(&passes, from, "passes", SP_BENCH_ROW_COUNTS, err))) return st;
    for (size_t k = 0; k < SP_BENCH_ROW_COUNTS; k++) {
        const struct sp_json *pass = sp_json_at(passes, k);
        if ((st = read_count(&n_rows, pass, "rows", SP_BENCH_MAX_ROWS, err))) return st;
        if (n_rows != sp_bench_row_counts[k]) {
            return sp_fail(err, SP_E_INPUT, "pass %zu has %zu rows, expected %zu", k + 1, n_rows,
                           sp_bench_row_counts[k]);
        }
        if ((st = read_figure(&d->verify_seconds[k], pass, "seconds", err))) return st;
    }
    return SP_OK;
}

static enum sp_status read_draft_len(int *out, const struct sp_json *from, struct sp_err *err)
{
    const char *word = sp_json_get_text(from, "draft_depth");
    int64_t n = 0;

    if (word && strcmp(word, "auto") == 0) {
        *out = SP_DRAFT_LENGTH_AUTO;
        return SP_OK;
    }
    if (!sp_json_to_i64(sp_json_get(from, "draft_depth"), &n) || n < 0 || n > SP_BENCH_MOST_DRAFT)
        return sp_fail(err, SP_E_INPUT, "draft_depth is neither a number nor \"auto\"");
    *out = (int)n;
    return SP_OK;
}

/* Reads the rates with drafting of a prompt. All prompts have the same draft lengths. */
static enum sp_status read_drafted(struct sp_bench *b, struct sp_bench_prompt *p,
                                   const struct sp_json *from, bool first, struct sp_err *err)
{
    const struct sp_json *lens;
    enum sp_status st;

    if (!sp_json_has(from, "draft_depths")) {
        b->draft_lens[0] = SP_DRAFT_LENGTH_AUTO;
        b->n_draft_lens = 1;
        return read_figure(&p->drafted[0].rate, from, "drafted_rate", err);
    }
    if ((st = find_array(&lens, from, "draft_depths", SP_BENCH_MAX_DRAFT_LENS, err))) return st;
    if (!first && sp_json_len(lens) != b->n_draft_lens)
        return sp_fail(err, SP_E_INPUT, "its prompts have different draft depths");
    b->n_draft_lens = sp_json_len(lens);
    for (size_t k = 0; k < b->n_draft_lens; k++) {
        const struct sp_json *runs = sp_json_at(lens, k);
        if ((st = read_draft_len(&b->draft_lens[k], runs, err))) return st;
        if ((st = read_figure(&p->drafted[k].rate, runs, "drafted_rate", err))) return st;
    }
    return SP_OK;
}

static enum sp_status read_prompt(struct sp_bench *b, const struct sp_json *from,
                                  struct sp_err *err)
{
    bool first = b->n_prompts == 0;
    struct sp_bench_prompt *p = &b->prompts[b->n_prompts++];
    enum sp_status st;

    if ((st = read_count(&p->ids.n, from, "prompt_tokens", UINT32_MAX, err))) return st;
    if ((st = read_figure(&p->plain.rate, from, "plain_rate", err))) return st;
    return b->info.draft ? read_drafted(b, p, from, first, err) : SP_OK;
}

static enum sp_status read_all(struct sp_bench_result *r, struct sp_err *err)
{
    struct sp_bench *b = &r->bench;
    const struct sp_json *depths, *prompts, *json = r->json;
    size_t n_threads = 0;
    double rate = 0;
    enum sp_status st;

    b->synthetic = sp_json_get_text(json, "synthetic");
    b->info.draft = sp_json_get_text(json, "draft");
    if ((st = read_text(&b->name, json, "file", err)) ||
        (st = read_text(&b->info.kernels, json, "kernels", err)) ||
        (st = read_count(&n_threads, json, "threads", UINT16_MAX, err)) ||
        (st = read_count(&r->options.n_repeat, json, "repeat", UINT16_MAX, err)) ||
        (st = read_count(&b->n_prefill, json, "prefill_tokens", UINT32_MAX, err)) ||
        (st = read_figure(&rate, json, "prefill_rate", err)) ||
        (st = find_array(&depths, json, "depths", SP_BENCH_MAX_DEPTHS, err)) ||
        (st = find_array(&prompts, json, "prompts", SP_BENCH_MAX_PROMPTS, err)))
        return st;
    b->info.n_threads = (unsigned)n_threads;
    b->prefill_seconds = (double)b->n_prefill / rate;
    r->options.acceptance = -1;
    (void)sp_json_to_double(sp_json_get(json, "simulated_acceptance"), &r->options.acceptance);
    for (size_t i = 0; i < sp_json_len(depths) && !st; i++)
        st = read_passes(&b->depths[b->n_depths++], sp_json_at(depths, i), err);
    for (size_t i = 0; i < sp_json_len(prompts) && !st; i++)
        st = read_prompt(b, sp_json_at(prompts, i), err);
    return st;
}

enum sp_status sp_bench_result_parse(struct sp_bench_result *r, const char *text, size_t size,
                                     struct sp_err *err)
{
    enum sp_status st;

    *r = (struct sp_bench_result){.path = r->path};
    r->bench.options = &r->options;
    if (size == 0)
        return sp_fail(err, SP_E_INPUT, "the file is empty, expected a result of " COMMAND);
    st = sp_json_parse_within(&r->json, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (st == SP_E_INPUT) sp_context(err, "not a result of " COMMAND);
    return st ? st : read_all(r, err);
}

/* Names a packed file, or a calibration, as what it is. */
static enum sp_status refuse_packed(const char *path, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    st = sp_fail(err, SP_E_INPUT, "%s is a %s, expected a result of " COMMAND, path,
                 sp_pack_is_calibration(pack) ? "calibration" : "packed file");
    sp_pack_close(pack);
    return st;
}

enum sp_status sp_bench_result_read(struct sp_bench_result *r, const char *path, struct sp_err *err)
{
    char *text = NULL;
    size_t size = 0;
    enum sp_status st;

    *r = (struct sp_bench_result){.path = path};
    if (sp_pack_is_file(path)) return refuse_packed(path, err);
    if ((st = sp_file_read_text(&text, &size, path, SP_JSON_SETTINGS, err))) return st;
    if ((st = sp_bench_result_parse(r, text, size, err))) sp_context(err, "%s", path);
    free(text);
    return st;
}

void sp_bench_result_release(struct sp_bench_result *r)
{
    sp_json_free(r->json);
    *r = (struct sp_bench_result){.path = NULL};
}
