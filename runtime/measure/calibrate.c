/* Collects statistics of the inputs of a model's matrices while texts run through the target. Every
 * window of ids is a sequence of its own, and passes are divided by the texts alone.
 *
 * A draft is observed while it drafts: at places spread over the texts the model generates, so that
 * the draft reads what it reads in use - prompts, features of the target, and its own tokens. */
#include "runtime/session/session.h"

#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/json/json_write.h"
#include "format/pack_contents.h"
#include "format/packfile_write.h"
#include "format/weights/smoothing.h"
#include "quantize/codec.h"
#include "quantize/types/gptq.h"
#include "runtime/measure/group_divergence.h"
#include "runtime/measure/input_stats.h"
#include "runtime/spectool_measure.h"
#include "runtime/vector/fmath.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- how to smooth norms (format/weights/smoothing.h) ----
 *
 * A column's exponent follows from the root mean squares x of its inputs and w of its weights, over
 * all matrices that read the norm: inputs and weights of the column are brought to the same size,
 * 2^e = sqrt(x / w), relative to the mean of all columns (the migration strength of SmoothQuant is
 * 1/2). The rows of a tensor are alike, so that a sample of them suffices. */

enum { SAMPLED_ROWS = 512 }; /* of a tensor, or nearly twice as many */

static const double LN_2 = 0.6931471805599453;

/* A norm that is measured. */
struct measured {
    const char *norm;
    size_t cols;
    float *row, *inputs; /* [cols] a row of weights; sums of squares of the inputs */
    double *weights;     /* [cols] sums of squares of the sampled weights */
    int8_t *exponents;   /* [cols] */
    bool observed;
};

/* Adds the squares of a sample of a tensor's weights, a stack of matrices. */
static void add_weights(struct measured *m, const struct sp_pack_tensor *t)
{
    size_t rows = (size_t)t->shape[t->rank - 2], n = sp_pack_tensor_n_matrices(t) * rows;
    size_t step = n > SAMPLED_ROWS ? n / SAMPLED_ROWS : 1;
    size_t n_panels = (rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS, size;

    if (!sp_panel_size(&size, t->dtype, m->cols)) return;
    for (size_t row = 0; row < n; row += step) {
        const uint8_t *panels = t->data + row / rows * n_panels * size;
        sp_panel_row(m->row, t->dtype, panels, m->cols, row % rows);
        for (size_t k = 0; k < m->cols; k++)
            m->weights[k] += (double)m->row[k] * (double)m->row[k];
    }
}

/* False if a matrix reads the norm that cannot be taken into account. */
static bool add_readers(struct measured *m, const struct sp_input_stats *stats,
                        const struct sp_pack *pack, const struct sp_config *config)
{
    char norm[SP_NORM_NAME];

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (t->part != SP_PART_TARGET || !sp_smoothing_norm_of(norm, config, t->name)) continue;
        if (strcmp(norm, m->norm) != 0) continue;
        if (t->layout != SP_PANEL || t->shape[t->rank - 1] != m->cols) return false;
        add_weights(m, t);
        if (!m->observed) m->observed = sp_input_stats_squares(m->inputs, stats, t->name);
    }
    return m->observed;
}

/* log2 of the square of a column's 2^e, not brought to the mean; false: no inputs or weights. */
static bool balance(double *out, const struct measured *m, size_t k)
{
    double ratio = (double)m->inputs[k] / m->weights[k];

    if (!(m->inputs[k] > 0 && m->weights[k] > 0) || !isfinite(ratio) || !(ratio > 0)) return false;
    *out = sp_log(ratio) / LN_2 / 2;
    return true;
}

static void set_exponents(struct measured *m)
{
    double sum = 0, mean, value;
    size_t n = 0;

    for (size_t k = 0; k < m->cols; k++) {
        if (!balance(&value, m, k)) continue;
        sum += value;
        n++;
    }
    mean = n ? sum / (double)n : 0;
    for (size_t k = 0; k < m->cols; k++) {
        long e = balance(&value, m, k) ? lround((value - mean) / 2) : 0;
        if (e > SP_MAX_EXPONENT) e = SP_MAX_EXPONENT;
        if (e < -SP_MAX_EXPONENT) e = -SP_MAX_EXPONENT;
        m->exponents[k] = (int8_t)e;
    }
}

static enum sp_status measure_norm(struct sp_smoothing *out, struct measured *m,
                                   const struct sp_input_stats *stats, const struct sp_pack *pack,
                                   const struct sp_config *config, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&m->row, m->cols, sizeof *m->row, err)) ||
        (st = sp_new(&m->inputs, m->cols, sizeof *m->inputs, err)) ||
        (st = sp_new(&m->weights, m->cols, sizeof *m->weights, err)) ||
        (st = sp_new(&m->exponents, m->cols, 1, err)) || !add_readers(m, stats, pack, config))
        return st;
    set_exponents(m);
    return sp_smoothing_add(out, m->norm, m->exponents, m->cols, err);
}

/* Adds the norms of the pack's target, which has this config, whose inputs were observed. `stats`
 * are not solved. *out is released by the caller, on failure too. */
static enum sp_status measure_smoothing(struct sp_smoothing *out,
                                        const struct sp_input_stats *stats,
                                        const struct sp_pack *pack, const struct sp_config *config,
                                        struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sp_pack_n_tensors(pack) && !st; i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        struct measured m = {.norm = t->name, .cols = (size_t)t->shape[0]};
        if (t->part != SP_PART_TARGET || t->rank != 1 || !sp_smoothing_is_norm(t->name)) continue;
        st = measure_norm(out, &m, stats, pack, config, err);
        free(m.row);
        free(m.inputs);
        free(m.weights);
        free(m.exponents);
    }
    return st;
}

/* ---- the statistics ---- */

enum { USUAL_WINDOW = 1024 };

/* Tokens that are generated at a place of a text, of which there is one for every
 * SP_DRAFT_EVAL_PROMPT tokens, and draft tokens of a round. */
enum { PLACE_TOKENS = 32, DRAFT_TOKENS = 4 };

/* Statistics of a text round its own tokens better than others. Where texts are at least this many
 * times as long as the windows that sensitivities are measured with, these are left out. */
enum { LEAST_TO_LEAVE_OUT = 8 };

struct calibration {
    struct sp_package *package;
    const struct sp_calibration_request *request;
    struct sp_calibration_text *texts;     /* [request->n_texts], without what is left out; owned */
    uint32_t *text_ids;                    /* of all `texts`; owned */
    struct sp_decoder *decoder;            /* owned */
    struct sp_input_stats *stats;          /* owned */
    uint32_t *ids;                         /* [n_window] ids of the current window; owned */
    size_t n_window, n_done, n_total;      /* n_total: to read and to generate */
    size_t n_read;                         /* of n_done, read by the target */
    struct sp_smoothing smoothing;         /* owned */
    struct sp_sensitivities sensitivities; /* owned */
    struct sp_cache_divergences caches;    /* owned */
};

static size_t lead_of(const struct calibration *c, const struct sp_calibration_text *text)
{
    const struct sp_tokenizer *tokenizer = c->package->tokenizer;
    size_t n = tokenizer ? sp_tokenizer_lead(tokenizer, text->ids, text->n) : 0;

    return n < c->n_window ? n : 0;
}

/* The tokens that the tokenizer puts before a text lead every window. */
static enum sp_status read_window(struct calibration *c, size_t n, struct sp_err *err)
{
    const struct sp_calibration_request *q = c->request;
    enum sp_status st;

    for (size_t pos = 0; pos < n; pos += SP_PROMPT_ROWS) {
        size_t rows = n - pos < SP_PROMPT_ROWS ? n - pos : SP_PROMPT_ROWS;
        if (q->progress && q->progress(q->context, c->n_done, c->n_total))
            return sp_fail(err, SP_E_CANCELLED, "interrupted");
        sp_decoder_run(c->decoder, c->ids + pos, rows, pos, rows);
        sp_decoder_observe_head(c->decoder, rows);
        if ((st = sp_decoder_check(c->decoder, err))) return st;
        sp_decoder_commit(c->decoder, rows);
        c->n_done += rows;
    }
    return SP_OK;
}

static enum sp_status read_text(struct calibration *c, const struct sp_calibration_text *text,
                                struct sp_err *err)
{
    enum sp_status st = SP_OK;
    size_t lead = lead_of(c, text), step = c->n_window - lead;

    memcpy(c->ids, text->ids, lead * sizeof *c->ids);
    for (size_t at = lead; at < text->n && !st; at += step) {
        size_t n = text->n - at < step ? text->n - at : step;
        memcpy(c->ids + lead, text->ids + at, n * sizeof *c->ids);
        st = read_window(c, lead + n, err);
    }
    return st;
}

/* ---- draft ---- */

static size_t places_of(const struct calibration *c, const struct sp_calibration_text *text)
{
    size_t n = text->n - lead_of(c, text);

    return (n + SP_DRAFT_EVAL_PROMPT - 1) / SP_DRAFT_EVAL_PROMPT;
}

/* Progress of the tokens that are generated on one text. */
static int report_generated(void *context, size_t done, size_t total)
{
    const struct calibration *c = context;
    const struct sp_calibration_request *q = c->request;

    (void)total;
    return q->progress && q->progress(q->context, c->n_done + done, c->n_total);
}

static enum sp_status observe_draft(struct calibration *c, struct sp_err *err)
{
    struct sp_package *package = c->package;
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_session *session = NULL;
    enum sp_status st;

    options.cache = SP_CACHE_F32;
    options.n_context = SP_DRAFT_EVAL_PROMPT + PLACE_TOKENS + DRAFT_TOKENS + 1;
    if (options.n_context > package->target->config.max_positions)
        options.n_context = package->target->config.max_positions;
    options.draft_by = SP_DRAFT_BY_MODEL;
    if ((st = sp_session_open(&session, package, &options, err))) return st;
    package->backend.observer = sp_input_stats_observer(
        c->stats, SP_PART_DRAFT, package->draft->config.draft.kind == SP_DRAFT_NONE);
    for (size_t i = 0; i < c->request->n_texts && !st; i++) {
        const struct sp_calibration_text *text = &c->texts[i];
        struct sp_draft_eval_request request = SP_DRAFT_EVAL_REQUEST_INIT;
        struct sp_draft_eval eval = SP_DRAFT_EVAL_INIT;
        request.ids = text->ids;
        request.n = text->n;
        request.n_places = places_of(c, text);
        request.n_predict = PLACE_TOKENS;
        request.draft_len = DRAFT_TOKENS;
        request.context = c;
        request.progress = report_generated;
        st = sp_session_eval_draft(session, &request, &eval, err);
        sp_draft_eval_release(&eval);
        c->n_done += request.n_places * PLACE_TOKENS;
    }
    package->backend.observer = (struct sp_input_observer){0};
    sp_session_close(session);
    return st;
}

/* ---- texts ---- */

/* The number of windows of sensitivities that are left out of the statistics of n_ids tokens. */
static size_t find_left_out(struct sp_text_window *windows, const struct calibration *c,
                            size_t n_ids)
{
    const struct sp_calibration_request *q = c->request;
    size_t n, n_left_out = 0;

    if (!q->sensitivity || n_ids == 0) return 0;
    n = sp_group_divergence_windows(windows, c->package, q->texts, q->n_texts);
    for (size_t i = 0; i < n; i++)
        n_left_out += windows[i].n;
    return n_ids / LEAST_TO_LEAVE_OUT < n_left_out ? 0 : n;
}

/* Appends tokens first..end-1 of another text, if there are any; text->ids are `ids`. */
static void append(struct sp_calibration_text *text, uint32_t *ids,
                   const struct sp_calibration_text *from, size_t first, size_t end)
{
    if (end <= first) return;
    memcpy(ids + text->n, from->ids + first, (end - first) * sizeof *ids);
    text->n += end - first;
}

/* Copies the texts of the request without what is left out; tokens around it become neighbors. */
static enum sp_status open_texts(struct calibration *c, struct sp_err *err)
{
    const struct sp_calibration_request *q = c->request;
    struct sp_text_window windows[SP_MAX_DIVERGENCE_WINDOWS], *w = windows, *end;
    size_t n_ids = 0;
    uint32_t *ids;
    enum sp_status st;

    for (size_t i = 0; i < q->n_texts; i++) {
        if ((st = sp_package_check_ids(c->package, q->texts[i].ids, q->texts[i].n, err))) return st;
        n_ids += q->texts[i].n;
    }
    if ((st = sp_new(&c->texts, q->n_texts, sizeof *c->texts, err))) return st;
    if ((st = sp_new(&c->text_ids, n_ids, sizeof *c->text_ids, err))) return st;
    ids = c->text_ids;
    end = windows + find_left_out(windows, c, n_ids);
    for (size_t i = 0; i < q->n_texts; i++) {
        struct sp_calibration_text *text = &c->texts[i];
        size_t at = 0;
        text->ids = ids;
        for (; w < end && w->text == i; w++) {
            append(text, ids, &q->texts[i], at, w->first);
            at = w->first + w->n;
        }
        append(text, ids, &q->texts[i], at, q->texts[i].n);
        ids += text->n;
    }
    return SP_OK;
}

/* ---- the whole ---- */

static enum sp_status open_calibration(struct calibration *c, struct sp_err *err)
{
    enum sp_status st;
    size_t max = c->package->target->config.max_positions;
    struct sp_decoder_options options = {
        .max_rows = SP_PROMPT_ROWS, .max_logit_rows = 1, .cache_type = SP_CACHE_F32};

    c->n_window = max < USUAL_WINDOW ? max : USUAL_WINDOW;
    options.n_positions = c->n_window;
    if ((st = open_texts(c, err))) return st;
    if ((st = sp_new(&c->ids, c->n_window, sizeof *c->ids, err))) return st;
    if ((st = sp_input_stats_open(&c->stats, c->package->pack, err))) return st;
    for (size_t i = 0; i < c->request->n_texts; i++) {
        const struct sp_calibration_text *text = &c->texts[i];
        size_t lead = lead_of(c, text), step = c->n_window - lead;
        c->n_total += text->n - lead + (text->n - lead + step - 1) / step * lead;
        if (c->package->draft) c->n_total += places_of(c, text) * PLACE_TOKENS;
    }
    if (c->n_total == 0) return sp_fail(err, SP_E_USAGE, "the texts are empty");
    return sp_decoder_open(&c->decoder, c->package->target, &c->package->backend, &options, err);
}

/* Checks what the end would refuse, before the work. */
static enum sp_status check_files(const struct sp_package *package,
                                  const struct sp_calibration_request *request, struct sp_err *err)
{
    if (sp_file_same(request->path, sp_pack_path(package->pack))) {
        return sp_fail(err, SP_E_USAGE,
                       "%s: the calibration would replace the model that it describes",
                       request->path);
    }
    if (sp_pack_find_section(package->pack, SP_PART_TARGET, SP_SECTION_SMOOTHING)) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s: its matrices were smoothed by an earlier calibration; calibrate a file "
                       "of the same model that was made without a calibration",
                       sp_pack_path(package->pack));
    }
    return sp_pack_writer_check(request->path, request->force, err);
}

/* Tokens of the texts on which a choice of types can be checked: at most this many excerpts of a
 * length, spread evenly over what the statistics were collected on. */
enum { CHECK_EXCERPTS = 4, CHECK_TOKENS = 512 };

static void print_check(struct sp_json_out *record, const struct calibration *c)
{
    const struct sp_calibration_text *last = &c->texts[c->request->n_texts - 1];
    size_t n = (size_t)(last->ids - c->text_ids) + last->n, step = n / CHECK_EXCERPTS;

    sp_json_out_raw(record, "\"check\":[");
    for (size_t i = 0; i < CHECK_EXCERPTS * step; i++) {
        if (i % step >= CHECK_TOKENS) continue;
        sp_json_out_print(record, "%s%" PRIu32, i ? "," : "", c->text_ids[i]);
    }
    sp_json_out_raw(record, "],");
}

static void print_record(struct sp_json_out *record, const struct calibration *c)
{
    sp_json_out_print(record, "{\"block\":%d,\"tokens\":%zu", SP_GPTQ_BLOCK, c->n_read);
    if (c->smoothing.n) {
        sp_json_out_raw(record, ",\"smoothing\":");
        sp_smoothing_print(record, &c->smoothing);
    }
    if (c->request->sensitivity) {
        sp_json_out_raw(record, ",");
        print_check(record, c);
        sp_sensitivities_print(record, &c->sensitivities);
    }
    if (c->caches.n) {
        sp_json_out_raw(record, ",\"caches\":");
        sp_cache_divergences_print(record, &c->caches);
    }
    sp_json_out_raw(record, "}");
}

static enum sp_status write_file(struct calibration *c, struct sp_calibration *out,
                                 struct sp_err *err)
{
    const struct sp_calibration_request *q = c->request;
    struct sp_input_stats_size size = sp_input_stats_measure(c->stats);
    struct sp_json_out record = {0};
    enum sp_status st;

    print_record(&record, c);
    if (!(st = sp_json_out_check(&record, err))) {
        st =
            sp_input_stats_write(c->stats, q->path, q->force, record.text.at, record.text.len, err);
    }
    *out = (struct sp_calibration){.size = sizeof *out,
                                   .n_tokens = c->n_read,
                                   .n_inputs = size.n_inputs,
                                   .n_matrices = size.n_matrices,
                                   .n_bytes = size.size,
                                   .n_groups = c->sensitivities.n};
    sp_strbuf_release(&record.text);
    return st;
}

/* Removes the file from which measuring could have continued. */
static enum sp_status remove_measured(const struct sp_calibration_request *q, struct sp_err *err)
{
    char *path = NULL;
    enum sp_status st = sp_measure_sensitivity_path(&path, q, err);

    if (!st) unlink(path);
    free(path);
    return st;
}

enum sp_status sp_package_calibrate(struct sp_package *package,
                                    const struct sp_calibration_request *request,
                                    struct sp_calibration *out, struct sp_err *err)
{
    struct sp_calibration_request q = {0};
    struct sp_calibration all = SP_CALIBRATION_INIT;
    struct calibration c = {.package = package, .request = &q};
    enum sp_status st;

    if ((st = sp_check_size(out, sizeof all, "sp_calibration", err))) goto done;
    if ((st = sp_copy_in(&q, sizeof q, request, "sp_calibration_request", err))) goto done;
    if ((st = check_files(package, &q, err))) goto done;
    if ((st = open_calibration(&c, err))) goto done;
    package->backend.observer = sp_input_stats_observer(c.stats, SP_PART_TARGET, true);
    for (size_t i = 0; i < q.n_texts && !st; i++)
        st = read_text(&c, &c.texts[i], err);
    package->backend.observer = (struct sp_input_observer){0};
    c.n_read = c.n_done;
    if (!st && package->draft) st = observe_draft(&c, err);
    if (st) goto done;
    if ((st = measure_smoothing(&c.smoothing, c.stats, package->pack, &package->target->config,
                                err)))
        goto done;
    if ((st = sp_input_stats_solve(c.stats, &package->backend, err))) goto done;
    if (q.sensitivity &&
        (st = sp_measure_sensitivity(&c.sensitivities, &c.caches, package, c.stats, &q, err)))
        goto done;
    if ((st = write_file(&c, &all, err))) goto done;
    if (q.sensitivity && (st = remove_measured(&q, err))) goto done;
    sp_copy_out(out, &all);
done:
    sp_decoder_close(c.decoder);
    sp_input_stats_close(c.stats);
    sp_smoothing_release(&c.smoothing);
    sp_sensitivities_release(&c.sensitivities);
    sp_cache_divergences_release(&c.caches);
    free(c.texts);
    free(c.text_ids);
    free(c.ids);
    return st;
}
