#include "cli/draft_types.h"

#include "cli/base/temp_file.h"
#include "cli/base/word_wrap.h"
#include "cli/create_callbacks.h"
#include "cli/base/signals.h"
#include "format/base/median.h"
#include "format/base/mem.h"
#include "format/packfile.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>
#include <string.h>

const size_t sp_draft_lengths[SP_DRAFT_LENGTHS] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};

enum {
    REPEATS = 7,  /* of timed passes */
    BEFORE = 256, /* tokens of context before them */
    CONTEXT = 2048,
    MOST_BY_BYTES = 8, /* draft tokens of a round whose cost is counted in bytes */
};

/* ---- types ---- */

enum sp_status sp_draft_types_parse(enum sp_dtype *types, size_t *n, const char *text,
                                    struct sp_err *err)
{
    size_t count = 0;

    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        const char *name = NULL;
        char word[32];
        enum sp_status st;
        snprintf(word, sizeof word, "%.*s", (int)(len < 31 ? len : 31), at);
        if ((st = sp_opt_choose(&name, sp_cmd_types, "--draft-types", word, err))) return st;
        for (size_t i = 0; i < count; i++)
            if (types[i] == sp_create_type(name))
                return sp_fail(err, SP_E_USAGE, "--draft-types: %s is given twice", word);
        types[count++] = sp_create_type(name);
        at += len;
        if (*at == 0) break;
    }
    *n = count;
    return SP_OK;
}

/* Embedding and output matrix may have more bits than the type that was requested. */
static bool is_table(const struct sp_pack_tensor *t)
{
    return strcmp(t->name, "embed_tokens.weight") == 0 || strcmp(t->name, "lm_head.weight") == 0;
}

enum sp_status sp_draft_types_stored(enum sp_dtype *stored, const char *path, struct sp_err *err)
{
    uint64_t n_weights[SP_N_PACKED_DTYPES] = {0}, most = 0;
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    *stored = SP_DTYPE_NONE;
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (t->part != SP_PART_DRAFT || t->rank < 2 || is_table(t)) continue;
        n_weights[t->dtype] += sp_n_elements(t->shape, t->rank);
        if (n_weights[t->dtype] <= most) continue;
        most = n_weights[t->dtype];
        *stored = t->dtype;
    }
    sp_pack_close(pack);
    return SP_OK;
}

static double bits_of(enum sp_dtype type)
{
    uint64_t shape[2] = {16, 256};
    size_t size = 0;

    if (!sp_tensor_size(&size, type, SP_PANEL, shape, 2)) return 0;
    return (double)size;
}

enum sp_status sp_draft_types_check(const enum sp_dtype *types, size_t n, const char *path,
                                    struct sp_err *err)
{
    enum sp_dtype stored;
    enum sp_status st;

    if ((st = sp_draft_types_stored(&stored, path, err))) return st;
    if (stored == SP_DTYPE_NONE)
        return sp_fail(err, SP_E_USAGE, "%s has no draft to measure in other types", path);
    for (size_t i = 0; i < n; i++) {
        if (types[i] == stored || bits_of(types[i]) < bits_of(stored)) continue;
        return sp_fail(err, SP_E_USAGE,
                       "the draft of %s is stored in %s; %s does not have fewer bits, and nothing "
                       "can be gained by it",
                       path, sp_dtype_info(stored)->name, sp_dtype_info(types[i])->name);
    }
    return SP_OK;
}

/* ---- one type ---- */

/* The measurement of one type. */
struct trial {
    const struct sp_draft_types_request *request;
    struct sp_draft_type *out;
    struct sp_package *package;   /* owned */
    struct sp_session *session;   /* owned */
    struct sp_progress *progress; /* over all types; borrowed */
    char label[64];               /* of the progress */
    size_t number, n_types;       /* which of the types, from 0 */
    size_t n_texts;               /* that were read */
    size_t tried[SP_DRAFT_EVAL_LENGTH], accepted[SP_DRAFT_EVAL_LENGTH]; /* by position */
    double verify[SP_DRAFT_LENGTHS + 1][REPEATS], draft[SP_DRAFT_LENGTHS + 1][REPEATS];
    size_t n_timed[SP_DRAFT_LENGTHS + 1];
    struct sp_err *err;
};

static int show_progress(void *context, size_t done, size_t total)
{
    const struct trial *t = context;
    const struct sp_draft_types_request *q = t->request;
    size_t each = q->n_places * q->n_predict, n = t->number * q->n_texts + t->n_texts;

    sp_progress_show(t->progress, n * each + (total ? each * done / total : 0),
                     t->n_types * q->n_texts * each);
    return sp_signals_caught();
}

/* The draft is quantized in no time beside its measurement. */
static int cancel(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return sp_signals_caught();
}

static enum sp_status count_size(struct trial *t, const char *path)
{
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, t->err))) return st;
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *tensor = sp_pack_tensor(pack, i);
        if (tensor->part == SP_PART_DRAFT) t->out->size += tensor->size;
    }
    sp_pack_close(pack);
    return SP_OK;
}

/* Opens the file with its draft in the type, which stays mapped after it is removed. */
static enum sp_status open_package(struct trial *t)
{
    const struct sp_draft_types_request *q = t->request;
    struct sp_create_options options = {.from = q->path,
                                        .draft_type = t->out->type,
                                        .n_threads = (unsigned)q->backend->n_threads,
                                        .callbacks = {.progress = cancel},
                                        .allow_lossy = true};
    struct sp_temp_file temporary = {0};
    enum sp_status st;

    if (sp_dtype_info(t->out->type)->code_bits) options.calibration = q->calibration;
    if (t->out->stored) {
        if ((st = count_size(t, q->path))) return st;
        return sp_backend_open_package(&t->package, q->path, q->backend, t->err);
    }
    if ((st = sp_temp_file_open(&temporary, "draft.bin", t->err))) goto done;
    options.output = temporary.path;
    st = sp_requantize(NULL, &options, t->err);
    if (!st) st = count_size(t, temporary.path);
    if (!st) st = sp_backend_open_package(&t->package, temporary.path, q->backend, t->err);
done:
    sp_temp_file_remove(&temporary);
    return st;
}

static enum sp_status try_text(struct trial *t, const struct sp_eval_text *text)
{
    const struct sp_draft_types_request *q = t->request;
    struct sp_draft_eval eval = SP_DRAFT_EVAL_INIT;
    struct sp_draft_eval_request request = {
        .size = sizeof request,
        .ids = text->ids,
        .n = text->n_ids,
        .n_places = q->n_places,
        .n_predict = q->n_predict,
        .draft_len = SP_DRAFT_LENGTH_AUTO,
        .context = t,
        .progress = show_progress,
    };
    enum sp_status st;

    snprintf(t->label, sizeof t->label, "drafting in %s, type %zu of %zu",
             sp_dtype_info(t->out->type)->name, t->number + 1, t->n_types);
    t->progress->label = t->label;
    if ((st = sp_session_eval_draft(t->session, &request, &eval, t->err))) return st;
    t->n_texts++;
    t->out->n_rounds += eval.n_rounds;
    t->out->n_tokens += eval.n_tokens;
    t->out->drafted += eval.drafted;
    t->out->accepted += eval.accepted;
    for (size_t i = 0; i < eval.n_draft_positions; i++) {
        t->tried[i] += eval.draft_positions[i].tried;
        t->accepted[i] += eval.draft_positions[i].accepted;
    }
    sp_draft_eval_release(&eval);
    return SP_OK;
}

/* Tokens of a round by draft length, as far as the draft proposes. */
static void count_tokens(struct trial *t, size_t max_draft_len)
{
    struct sp_draft_type *out = t->out;
    double all = 1, sum = 1;

    for (size_t i = 0, k = 0; i < max_draft_len && k < SP_DRAFT_LENGTHS; i++) {
        all *= t->tried[i] ? (double)t->accepted[i] / (double)t->tried[i] : 0;
        sum += all;
        if (i == 0) out->first = all;
        if (i + 1 < sp_draft_lengths[k]) continue;
        out->tokens[k++] = sum;
        out->n_lengths = k;
    }
}

static int keep_timing(void *context, size_t which, double verify_seconds, double draft_seconds)
{
    struct trial *t = context;
    size_t i = t->n_timed[which]++;

    t->verify[which][i] = verify_seconds;
    t->draft[which][i] = draft_seconds;
    return sp_signals_caught();
}

/* Passes of one row and of each draft length in turn, so that slow phases affect all alike. */
static enum sp_status time_rounds(struct trial *t)
{
    struct sp_draft_type *out = t->out;
    size_t rows[SP_DRAFT_LENGTHS + 1] = {1}, n_before = sp_session_n_context(t->session);
    enum sp_status st;

    for (size_t k = 0; k < out->n_lengths; k++)
        rows[k + 1] = sp_draft_lengths[k] + 1;
    n_before = n_before > 2 * BEFORE ? BEFORE : n_before / 2;
    st = sp_session_benchmark(t->session, n_before, rows, out->n_lengths + 1, REPEATS, keep_timing,
                              t, t->err);
    if (st) return st;
    out->plain = sp_median(t->verify[0], REPEATS);
    for (size_t k = 0; k < out->n_lengths; k++) {
        out->draft_cost[k] = sp_median(t->draft[k + 1], REPEATS);
        out->cost[k] = out->draft_cost[k] + sp_median(t->verify[k + 1], REPEATS);
    }
    return SP_OK;
}

/* A pass that verifies several rows reads the weights once, like a pass of one row. */
static void count_bytes(struct trial *t)
{
    struct sp_draft_type *out = t->out;

    while (out->n_lengths && sp_draft_lengths[out->n_lengths - 1] > MOST_BY_BYTES)
        out->n_lengths--;
    out->plain = (double)sp_session_read_size(t->session, 0, 0);
    for (size_t k = 0; k < out->n_lengths; k++) {
        out->cost[k] = (double)sp_session_read_size(t->session, 0, sp_draft_lengths[k]);
        out->draft_cost[k] = out->cost[k] - out->plain;
    }
}

static void choose_length(struct sp_draft_type *out)
{
    for (size_t k = 0; k < out->n_lengths; k++) {
        double speed_up = out->tokens[k] * out->plain / out->cost[k];
        if (k && !(speed_up > out->speed_up)) continue;
        out->best = k;
        out->speed_up = speed_up;
    }
}

void sp_draft_types_settle(struct sp_draft_type *types, size_t n)
{
    double samples[SP_DRAFT_TYPES_MAX];

    for (size_t k = 0; n && k < types[0].n_lengths; k++) {
        for (size_t i = 0; i < n; i++)
            samples[i] = types[i].cost[k] - types[i].draft_cost[k];
        double verify = sp_median(samples, n);
        for (size_t i = 0; i < n; i++)
            types[i].cost[k] = types[i].draft_cost[k] + verify;
    }
    for (size_t i = 0; i < n; i++)
        samples[i] = types[i].plain;
    double plain = n ? sp_median(samples, n) : 0;
    for (size_t i = 0; i < n; i++) {
        types[i].plain = plain;
        choose_length(&types[i]);
    }
}

static enum sp_status measure(struct trial *t)
{
    const struct sp_draft_types_request *q = t->request;
    struct sp_backend_opts backend = *q->backend;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    enum sp_status st;

    if ((st = open_package(t))) return st;
    sp_package_describe(t->package, &info);
    if (backend.n_context == 0)
        backend.n_context = info.max_positions < CONTEXT ? (int64_t)info.max_positions : CONTEXT;
    st = sp_backend_open_session(&t->session, t->package, &backend, false, 0, t->err);
    for (size_t i = 0; i < q->n_texts && !st; i++)
        st = try_text(t, &q->texts[i]);
    if (st) return st;
    if (t->out->n_rounds == 0) {
        return sp_fail(t->err, SP_E_USAGE,
                       "nothing was drafted: the texts are empty, or the model ends them at once");
    }
    count_tokens(t, info.max_draft_len < SP_DRAFT_EVAL_LENGTH ? info.max_draft_len
                                                              : SP_DRAFT_EVAL_LENGTH);
    if (!q->is_timed)
        count_bytes(t);
    else if ((st = time_rounds(t)))
        return st;
    choose_length(t->out);
    return SP_OK;
}

enum sp_status sp_draft_types_measure(struct sp_draft_type *out, const enum sp_dtype *types,
                                      size_t n, const struct sp_draft_types_request *request,
                                      struct sp_err *err)
{
    struct sp_progress progress;
    enum sp_dtype stored;
    enum sp_status st;

    if ((st = sp_draft_types_stored(&stored, request->path, err))) return st;
    sp_progress_begin(&progress, "drafting");
    progress.unit = "tokens";
    for (size_t i = 0; i < n && !st; i++) {
        struct trial t = {.request = request,
                          .out = &out[i],
                          .err = err,
                          .progress = &progress,
                          .number = i,
                          .n_types = n};
        out[i] = (struct sp_draft_type){.type = types[i], .stored = types[i] == stored};
        st = measure(&t);
        sp_session_close(t.session);
        sp_package_close(t.package);
    }
    sp_progress_end(&progress);
    return st;
}

size_t sp_draft_types_fastest(const struct sp_draft_type *types, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++) {
        const struct sp_draft_type *a = &types[i], *b = &types[best];
        bool same = !(a->speed_up < b->speed_up) && !(a->speed_up > b->speed_up);
        if (a->speed_up > b->speed_up || (same && a->size < b->size)) best = i;
    }
    return best;
}

/* ---- output ---- */

static void add_row(struct sp_table *table, const struct sp_draft_type *t, bool is_timed)
{
    double unit = is_timed ? 1e-3 : 1e6;
    char size[SP_AMOUNT_TEXT];

    sp_table_add(table, "%s%s", sp_dtype_info(t->type)->name, t->stored ? ", stored" : "");
    sp_table_add(table, "%s", sp_out_size(size, t->size));
    sp_table_add(table, "%.1f%%", 100 * t->first);
    sp_table_add(table, "%zu", sp_draft_lengths[t->best]);
    sp_table_add(table, "%.3f", t->tokens[t->best]);
    sp_table_add(table, "%.2f", t->draft_cost[t->best] / unit);
    sp_table_add(table, "%.2f", t->cost[t->best] / unit);
    sp_table_add(table, "%.2fx", t->speed_up);
}

enum sp_status sp_draft_types_print(FILE *out, const struct sp_draft_type *types, size_t n,
                                    bool is_timed, struct sp_err *err)
{
    const char *unit = is_timed ? "ms" : "MB";
    const char *const heading[] = {
        "",      "",     "first",    "",      "tokens",    "drafting", "round", "expected",
        "draft", "size", "accepted", "depth", "per round", unit,       unit,    "speed-up"};
    struct sp_table table = {.align = "lrrrrrrl", .err = err};
    enum sp_status st;

    for (size_t i = 0; i < sizeof heading / sizeof *heading; i++)
        sp_table_add(&table, "%s", heading[i]);
    for (size_t i = 0; i < n; i++)
        add_row(&table, &types[i], is_timed);
    if (!(st = sp_table_print(out, &table, 2))) {
        fprintf(out, "  a pass without drafting %s %.2f %s\n", is_timed ? "takes" : "reads",
                types[0].plain / (is_timed ? 1e-3 : 1e6), unit);
    }
    sp_table_release(&table);
    return st;
}

void sp_draft_type_print_choice(FILE *out, const char *subject, const struct sp_draft_type *t)
{
    sp_word_wrap_print(out, 0, "%s %s: %.3f tokens per round at draft depth %zu, speed-up %.2f",
                       subject, sp_dtype_info(t->type)->name, t->tokens[t->best],
                       sp_draft_lengths[t->best], t->speed_up);
}

static void lengths_to_json(struct sp_json_out *out, const char *key, const double *values,
                            size_t n)
{
    sp_json_out_begin(out, key, '[');
    for (size_t k = 0; k < n; k++)
        sp_json_out_double(out, NULL, values[k]);
    sp_json_out_end(out, ']');
}

void sp_draft_types_to_json(struct sp_json_out *out, const struct sp_draft_type *types, size_t n)
{
    sp_json_out_begin(out, "draft_types", '[');
    for (size_t i = 0; i < n; i++) {
        const struct sp_draft_type *t = &types[i];
        sp_json_out_begin(out, NULL, '{');
        sp_json_out_text(out, "type", sp_dtype_info(t->type)->name);
        sp_json_out_bool(out, "stored", t->stored);
        sp_json_out_u64(out, "size", t->size);
        sp_json_out_u64(out, "passes", t->n_rounds);
        sp_json_out_u64(out, "tokens", t->n_tokens);
        sp_json_out_u64(out, "drafted", t->drafted);
        sp_json_out_u64(out, "accepted", t->accepted);
        sp_json_out_begin(out, "depths", '[');
        for (size_t k = 0; k < t->n_lengths; k++)
            sp_json_out_u64(out, NULL, sp_draft_lengths[k]);
        sp_json_out_end(out, ']');
        lengths_to_json(out, "tokens_per_round", t->tokens, t->n_lengths);
        lengths_to_json(out, "draft_seconds", t->draft_cost, t->n_lengths);
        lengths_to_json(out, "round_seconds", t->cost, t->n_lengths);
        sp_json_out_double(out, "plain_seconds", t->plain);
        sp_json_out_u64(out, "depth", sp_draft_lengths[t->best]);
        sp_json_out_double(out, "speed_up", t->speed_up);
        sp_json_out_bool(out, "fastest", i == sp_draft_types_fastest(types, n));
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
}
