/* Prints the figures of eval: one file on one text in full, anything else as tables with a row for
 * each text and one for all of them. */
#include "cli/eval/eval.h"
#include "cli/base/out.h"
#include "format/json/json_write.h"
#include "runtime/spectool_measure.h"

#include <math.h>

#define LN2 0x1.62e42fefa39efp-1
#define WIDE 0.2 /* half of the interval of a loss in nats: the text is too short to tell much */

/* A file, or two whose figures are subtracted, and some of the texts. */
struct view {
    const struct sp_eval *eval;
    const struct sp_eval_file *file, *minus; /* minus NULL: the figures of one file */
    size_t first, n;                         /* texts */
    struct sp_eval_counts counts;
    bool heading; /* its row is the heading of a table */
};

static struct view view_of(const struct sp_eval *eval, const struct sp_eval_file *file,
                           const struct sp_eval_file *minus, size_t first, size_t n)
{
    return (struct view){eval, file, minus, first, n, sp_eval_count(eval, file, first, n), false};
}

static struct sp_eval_estimate mean_of(const struct view *v, enum sp_eval_figure figure)
{
    return v->minus ? sp_eval_difference(v->file, v->minus, figure, v->first, v->n)
                    : sp_eval_mean(v->file, figure, v->first, v->n);
}

static struct sp_eval_estimate scaled(struct sp_eval_estimate x, double factor)
{
    return (struct sp_eval_estimate){x.mean * factor, x.error * factor, x.half * factor};
}

static double bits_per_byte(const struct view *v)
{
    return mean_of(v, SP_EVAL_LOSS).mean * (double)v->counts.n_scored / LN2 /
           (double)v->counts.n_bytes;
}

static double share(size_t part, size_t all)
{
    return all ? (double)part / (double)all : 0;
}

/* ---- as text ---- */

enum { ESTIMATE_TEXT = 64 };

/* Digits after the point that show two digits of the interval, but at most `most`. */
static int digits_of(double half, int most)
{
    double digits = 1 - floor(log10(half));

    return digits < 0 ? 0 : digits < most ? (int)digits : most;
}

/* "12.34 +- 0.12"; without its interval where that is unknown. */
static const char *shown(char text[ESTIMATE_TEXT], struct sp_eval_estimate x, int digits,
                         const char *unit)
{
    if (!isnan(x.half)) digits = digits_of(x.half, digits);
    if (isnan(x.half))
        snprintf(text, ESTIMATE_TEXT, "%.*f%s", digits, x.mean, unit);
    else
        snprintf(text, ESTIMATE_TEXT, "%.*f%s +- %.*f%s", digits, x.mean, unit, digits, x.half,
                 unit);
    return text;
}

/* e to the power of x; where the interval is wide, which that makes lopsided, "17 (1.3 to 220)". */
static const char *shown_exp(char text[ESTIMATE_TEXT], struct sp_eval_estimate x, int digits)
{
    double low = exp(x.mean - x.half), high = exp(x.mean + x.half), mean = exp(x.mean);

    if (!(x.half > WIDE)) return shown(text, sp_eval_exp(x), digits, "");
    snprintf(text, ESTIMATE_TEXT, "%.*f (%.*f to %.*f)", digits_of(mean, digits), mean,
             digits_of(low, digits), low, digits_of(high, digits), high);
    return text;
}

static const char *percent(char text[ESTIMATE_TEXT], struct sp_eval_estimate x, int digits)
{
    return shown(text, scaled(x, 100), digits, "%");
}

enum { WRAPPED_INDENT = 19 }; /* the column of the values */

static void print_text(const struct view *v)
{
    const struct sp_evaluation *t = &v->file->results[v->first].text;
    struct sp_eval_estimate loss = mean_of(v, SP_EVAL_LOSS);
    char text[ESTIMATE_TEXT];

    sp_word_wrap_print(stdout, 0, "%s: %zu tokens, %zu scored, in %zu window%s of at most %zu",
                       v->file->name, v->counts.n_tokens, t->n_scored, t->n_windows,
                       t->n_windows == 1 ? "" : "s", t->n_window);
    printf("  perplexity       %s\n", shown_exp(text, loss, 4));
    printf("  bits per token   %s\n", shown(text, scaled(loss, 1 / LN2), 4, ""));
    if (v->counts.n_bytes) printf("  bits per byte    %.4f\n", bits_per_byte(v));
    printf("  accuracy         %s\n", percent(text, mean_of(v, SP_EVAL_RIGHT), 2));
}

static void print_comparison(const struct view *v)
{
    const struct sp_evaluation *t = &v->file->results[v->first].text;
    char text[ESTIMATE_TEXT];

    sp_word_wrap_print(stdout, 0, "\nAgainst %s, whose perplexity is %s:", v->eval->reference,
                       shown_exp(text, mean_of(v, SP_EVAL_REFERENCE_LOSS), 4));
    printf("  perplexity ratio %s\n", shown_exp(text, mean_of(v, SP_EVAL_LOSS_CHANGE), 5));
    printf("  KL divergence    %s nats\n", shown(text, mean_of(v, SP_EVAL_DIVERGENCE), 6, ""));
    sp_word_wrap_print(
        stdout, WRAPPED_INDENT,
        "    percentiles    50%% %.6f, 90%% %.6f, 99%% %.6f, 99.9%% %.6f, largest %.6f",
        t->divergence_50, t->divergence_90, t->divergence_99, t->divergence_999, t->divergence_max);
    printf("  same top token   %s\n", percent(text, mean_of(v, SP_EVAL_AGREEMENT), 2));
    sp_word_wrap_print(stdout, WRAPPED_INDENT,
                       "  probability of the text's token: change %s, root mean square %.3f%%",
                       percent(text, mean_of(v, SP_EVAL_PROB_CHANGE), 3), 100 * v->counts.rms);
}

/* How often draft token i of a round was accepted if those before it were. */
static double accepted_at(const struct view *v, size_t i)
{
    size_t tried = 0, accepted = 0;

    for (size_t k = v->first; k < v->first + v->n; k++) {
        const struct sp_draft_eval *t = &v->file->results[k].trial;
        if (i >= t->n_draft_positions) continue;
        tried += t->draft_positions[i].tried;
        accepted += t->draft_positions[i].accepted;
    }
    return share(accepted, tried);
}

static size_t most_positions(const struct view *v)
{
    size_t most = 0;

    for (size_t k = v->first; k < v->first + v->n; k++) {
        size_t n = v->file->results[k].trial.n_draft_positions;
        if (n > most) most = n;
    }
    return most;
}

static void print_trial(const struct view *v)
{
    const struct sp_draft_eval *t = &v->file->results[v->first].trial;
    char text[ESTIMATE_TEXT];

    sp_word_wrap_print(
        stdout, 0,
        "\nThe %s draft, %zu token%s per round, generating from %zu position%s of the text:",
        v->file->draft, t->draft_len, t->draft_len == 1 ? "" : "s", t->n_places,
        t->n_places == 1 ? "" : "s");
    printf("  tokens per pass  %s (%zu tokens, %zu target passes)\n",
           shown(text, sp_eval_per_round(v->file, v->first, v->n), 3, ""), t->n_tokens,
           t->n_rounds);
    printf("  acceptance       %.2f%% of %zu draft tokens\n", 100 * share(t->accepted, t->drafted),
           t->drafted);
    fputs("  by position     ", stdout);
    for (size_t i = 0; i < t->n_draft_positions; i++)
        printf(" %.0f%%", 100 * accepted_at(v, i));
    putchar('\n');
}

/* ---- as tables ---- */

static void cell(struct sp_table *t, const struct view *v, const char *name, const char *text)
{
    sp_table_add(t, "%s", v->heading ? name : text);
}

static void count_cells(struct sp_table *t, const struct view *v, const char *name, size_t count)
{
    char text[ESTIMATE_TEXT];

    cell(t, v, "text", v->n == 1 ? v->eval->texts[v->first].name : "together");
    snprintf(text, sizeof text, "%zu", count);
    cell(t, v, name, text);
}

static void text_row(struct sp_table *t, const struct view *v)
{
    struct sp_eval_estimate loss = mean_of(v, SP_EVAL_LOSS);
    char text[ESTIMATE_TEXT];

    count_cells(t, v, "scored", v->counts.n_scored);
    if (v->minus)
        cell(t, v, "loss (nats)", shown(text, loss, 6, ""));
    else
        cell(t, v, "perplexity", shown_exp(text, loss, 4));
    cell(t, v, "accuracy", percent(text, mean_of(v, SP_EVAL_RIGHT), 2));
    if (v->eval->reference == NULL) return;
    if (v->minus == NULL)
        cell(t, v, "perplexity ratio", shown_exp(text, mean_of(v, SP_EVAL_LOSS_CHANGE), 5));
    cell(t, v, "KL divergence", shown(text, mean_of(v, SP_EVAL_DIVERGENCE), 6, ""));
    cell(t, v, "same top token", percent(text, mean_of(v, SP_EVAL_AGREEMENT), 2));
}

static void trial_row(struct sp_table *t, const struct view *v)
{
    char text[ESTIMATE_TEXT];
    struct sp_eval_estimate accepted = {.mean = share(v->counts.accepted, v->counts.drafted),
                                        .half = NAN};

    count_cells(t, v, "generated", v->counts.n_generated);
    cell(t, v, "tokens per pass", shown(text, sp_eval_per_round(v->file, v->first, v->n), 3, ""));
    cell(t, v, "acceptance", percent(text, accepted, 2));
}

/* Prints a heading, a row for each text, and one for all if they are several. */
static enum sp_status print_rows(struct view v, const char *align,
                                 void (*row)(struct sp_table *, const struct view *),
                                 struct sp_err *err)
{
    struct sp_table table = {.align = align, .err = err};
    const struct view all = v;
    enum sp_status st;

    v.heading = true;
    row(&table, &v);
    for (size_t i = 0; i < all.n; i++) {
        v = view_of(v.eval, v.file, v.minus, i, 1);
        row(&table, &v);
    }
    if (all.n > 1) row(&table, &all);
    st = sp_table_print(stdout, &table, 2);
    sp_table_release(&table);
    return st;
}

static enum sp_status print_file(const struct sp_eval *eval, const struct sp_eval_file *file,
                                 struct sp_err *err)
{
    const struct view all = view_of(eval, file, NULL, 0, eval->n_texts);
    const struct sp_draft_eval *t = &file->results[0].trial;
    enum sp_status st;

    sp_word_wrap_print(stdout, 0, "%s: windows of at most %zu tokens%s%s", file->name,
                       file->results[0].text.n_window, eval->reference ? ", against " : "",
                       eval->reference ? eval->reference : "");
    st = print_rows(all, eval->reference ? "lrrrrrr" : "lrrr", text_row, err);
    if (st || file->draft == NULL) return st;
    sp_word_wrap_print(
        stdout, 0,
        "\nIts %s draft, %zu token%s per round, generating from %zu position%s of each text:",
        file->draft, t->draft_len, t->draft_len == 1 ? "" : "s", t->n_places,
        t->n_places == 1 ? "" : "s");
    return print_rows(all, "lrrr", trial_row, err);
}

static enum sp_status print_difference(const struct sp_eval *eval, struct sp_err *err)
{
    const struct sp_eval_file *a = &eval->files[0], *b = &eval->files[1];

    sp_word_wrap_print(stdout, 0, "\n%s minus %s, on the same positions:", a->name, b->name);
    return print_rows(view_of(eval, a, b, 0, eval->n_texts), eval->reference ? "lrrrrr" : "lrrr",
                      text_row, err);
}

enum sp_status sp_eval_print(const struct sp_eval *eval, struct sp_err *err)
{
    const struct view all = view_of(eval, &eval->files[0], NULL, 0, eval->n_texts);
    const bool one = eval->n_files == 1 && eval->n_texts == 1;
    enum sp_status st = SP_OK;

    if (one) {
        print_text(&all);
        if (eval->reference) print_comparison(&all);
        if (all.file->draft) print_trial(&all);
    }
    for (size_t i = 0; i < eval->n_files && !one && !st; i++) {
        if (i) putchar('\n');
        st = print_file(eval, &eval->files[i], err);
    }
    if (!st && eval->n_files > 1) st = print_difference(eval, err);
    if (!st && mean_of(&all, SP_EVAL_LOSS).half > WIDE)
        sp_word_wrap_print(stdout, 0,
                           "\nThe intervals are wide because the text is short: ten "
                           "times as many tokens make them about a third as wide.");
    return st;
}

/* ---- as JSON ---- */

/* The mean, its standard error, and half of its interval. */
static void estimate(struct sp_json_out *out, const char *name, struct sp_eval_estimate x)
{
    char key[64];

    sp_json_out_double(out, name, x.mean);
    snprintf(key, sizeof key, "%s_error", name);
    sp_json_out_double(out, key, x.error);
    snprintf(key, sizeof key, "%s_interval", name);
    sp_json_out_double(out, key, x.half);
}

static void comparison_to_json(struct sp_json_out *out, const struct view *v)
{
    const struct sp_evaluation *t = &v->file->results[v->first].text;
    const bool one = v->n == 1;

    if (v->eval->reference == NULL) {
        sp_json_out_text(out, "reference", NULL);
        return;
    }
    sp_json_out_put(out, "reference:{file:%s", v->eval->reference);
    estimate(out, "perplexity", sp_eval_exp(mean_of(v, SP_EVAL_REFERENCE_LOSS)));
    estimate(out, "loss", mean_of(v, SP_EVAL_REFERENCE_LOSS));
    estimate(out, "perplexity_ratio", sp_eval_exp(mean_of(v, SP_EVAL_LOSS_CHANGE)));
    estimate(out, "divergence", mean_of(v, SP_EVAL_DIVERGENCE));
    sp_json_out_put(out,
                    "divergence_50:%g, divergence_90:%g, divergence_99:%g, divergence_999:%g, "
                    "divergence_max:%g",
                    one ? t->divergence_50 : NAN, one ? t->divergence_90 : NAN,
                    one ? t->divergence_99 : NAN, one ? t->divergence_999 : NAN,
                    one ? t->divergence_max : NAN);
    estimate(out, "agreement", mean_of(v, SP_EVAL_AGREEMENT));
    estimate(out, "probability_change", mean_of(v, SP_EVAL_PROB_CHANGE));
    sp_json_out_put(out, "probability_change_rms:%g}", v->counts.rms);
}

static void trial_to_json(struct sp_json_out *out, const struct view *v)
{
    const struct sp_eval_counts *c = &v->counts;

    if (v->file->draft == NULL) {
        sp_json_out_text(out, "draft", NULL);
        return;
    }
    sp_json_out_put(out,
                    "draft:{kind:%s, depth:%zu, places:%zu, tokens:%zu, passes:%zu, drafted:%zu, "
                    "accepted:%zu, acceptance:%g",
                    v->file->draft, v->file->results[v->first].trial.draft_len, c->n_places,
                    c->n_generated, c->n_rounds, c->drafted, c->accepted,
                    share(c->accepted, c->drafted));
    estimate(out, "tokens_per_pass", sp_eval_per_round(v->file, v->first, v->n));
    sp_json_out_begin(out, "acceptance_by_position", '[');
    for (size_t i = 0; i < most_positions(v); i++)
        sp_json_out_double(out, NULL, accepted_at(v, i));
    sp_json_out_put(out, "]}");
}

static void view_to_json(struct sp_json_out *out, const struct view *v)
{
    const struct sp_evaluation *t = &v->file->results[v->first].text;
    struct sp_eval_estimate loss = mean_of(v, SP_EVAL_LOSS);

    sp_json_out_put(out, "tokens:%zu, scored:%zu, bytes:%zu, windows:%zu, window:%zu, stride:%zu",
                    v->counts.n_tokens, v->counts.n_scored, v->counts.n_bytes, v->counts.n_windows,
                    t->n_window, t->stride);
    estimate(out, "perplexity", sp_eval_exp(loss));
    estimate(out, "loss", loss);
    sp_json_out_double(out, "bits_per_token", loss.mean / LN2);
    sp_json_out_double(out, "bits_per_byte", v->counts.n_bytes ? bits_per_byte(v) : NAN);
    estimate(out, "right", mean_of(v, SP_EVAL_RIGHT));
    comparison_to_json(out, v);
    trial_to_json(out, v);
}

static void differences_to_json(struct sp_json_out *out, const struct view *v)
{
    estimate(out, "loss", mean_of(v, SP_EVAL_LOSS));
    estimate(out, "right", mean_of(v, SP_EVAL_RIGHT));
    if (v->eval->reference == NULL) return;
    estimate(out, "divergence", mean_of(v, SP_EVAL_DIVERGENCE));
    estimate(out, "agreement", mean_of(v, SP_EVAL_AGREEMENT));
}

/* Prints a line of figures of all texts and of each. */
static void print_json(const struct sp_eval *eval, const struct sp_eval_file *file,
                       const struct sp_eval_file *minus)
{
    void (*const figures)(struct sp_json_out *, const struct view *) =
        minus ? differences_to_json : view_to_json;
    struct sp_json_out out = {.file = stdout};
    struct view v = view_of(eval, file, minus, 0, eval->n_texts);

    if (minus)
        sp_json_out_put(&out, "{file:%s, minus:%s", file->name, minus->name);
    else
        sp_json_out_put(&out, "{file:%s, kv_type:%s", file->name, eval->kv_type);
    figures(&out, &v);
    sp_json_out_begin(&out, "texts", '[');
    for (size_t i = 0; i < eval->n_texts; i++) {
        v = view_of(eval, file, minus, i, 1);
        sp_json_out_put(&out, "{name:%s", eval->texts[i].name);
        if (!minus) sp_json_out_text(&out, "digest", eval->texts[i].digest);
        figures(&out, &v);
        sp_json_out_end(&out, '}');
    }
    sp_json_out_put(&out, "]}\n");
}

void sp_eval_print_json(const struct sp_eval *eval)
{
    for (size_t i = 0; i < eval->n_files; i++)
        print_json(eval, &eval->files[i], NULL);
    if (eval->n_files > 1) print_json(eval, &eval->files[0], &eval->files[1]);
}
