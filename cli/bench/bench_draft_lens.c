/* Compares several draft lengths: finds the fastest on this machine and how close the automatic
 * length comes to it. */
#include "cli/bench/bench.h"
#include "cli/base/word_wrap.h"

#include <string.h>

/* ---- totals ---- */

/* Returns n / x, or 0 if x is not positive. */
static double by(size_t n, double x)
{
    return x > 0 ? (double)n / x : 0;
}

static void add_runs(struct sp_bench_runs *sum, const struct sp_bench_runs *runs, size_t n)
{
    /* Sums of seconds, which to_rates converts to rates. */
    sum->rate += by(n, runs->rate);
    sum->slowest += by(n, runs->slowest);
    sum->fastest += by(n, runs->fastest);
    sum->n_tokens += runs->n_tokens;
    sum->n_passes += runs->n_passes;
    sum->drafted += runs->drafted;
    sum->accepted += runs->accepted;
    sum->seconds += runs->seconds;
    sum->draft_seconds += runs->draft_seconds;
}

static void to_rates(struct sp_bench_runs *sum, size_t n)
{
    sum->rate = by(n, sum->rate);
    sum->slowest = by(n, sum->slowest);
    sum->fastest = by(n, sum->fastest);
}

struct sp_bench_prompt sp_bench_all_prompts(const struct sp_bench *b)
{
    struct sp_bench_prompt all = {0};

    for (size_t i = 0; i < b->n_prompts; i++) {
        const struct sp_bench_prompt *p = &b->prompts[i];
        size_t n = p->n_generated - 1;
        all.n_generated += n;
        add_runs(&all.plain, &p->plain, n);
        for (size_t k = 0; k < b->n_draft_lens; k++)
            add_runs(&all.drafted[k], &p->drafted[k], n);
    }
    to_rates(&all.plain, all.n_generated);
    for (size_t k = 0; k < b->n_draft_lens; k++)
        to_rates(&all.drafted[k], all.n_generated);
    return all;
}

size_t sp_bench_best_draft_len(const struct sp_bench *b, const struct sp_bench_prompt *p)
{
    size_t best = SP_BENCH_PLAIN;

    for (size_t i = 0; i < b->n_draft_lens; i++) {
        if (b->draft_lens[i] == SP_DRAFT_LENGTH_AUTO) continue;
        if (p->drafted[i].rate > sp_bench_runs_of(p, best)->rate) best = i;
    }
    return best;
}

/* ---- the table ---- */

static void add_percent(struct sp_table *table, int digits, double percent, bool applies)
{
    if (applies)
        sp_table_add(table, "%.*f%%", digits, percent);
    else
        sp_table_add(table, "-");
}

static void add_row(struct sp_table *table, const struct sp_bench *b,
                    const struct sp_bench_prompt *p, size_t which)
{
    const struct sp_bench_runs *r = sp_bench_runs_of(p, which);
    size_t best = sp_bench_best_draft_len(b, p);
    double of_best = 100 * r->rate / sp_bench_runs_of(p, best)->rate;
    char name[SP_BENCH_DRAFT_LEN_TEXT];

    sp_table_add(table, "%s", sp_bench_draft_len_name(name, b, which));
    sp_table_add(table, "%.1f", r->rate);
    sp_table_add(table, "%.1f-%.1f", r->slowest, r->fastest);
    sp_table_add(table, "%.2fx", sp_bench_speed_up(r, &p->plain));
    if (which == best)
        sp_table_add(table, "best");
    else
        sp_table_add(table, "%.0f%%", of_best);
    add_percent(table, 1, 100 * sp_bench_acceptance(r), r->drafted > 0);
    sp_table_add(table, "%.2f", sp_bench_per_pass(r));
    add_percent(table, 0, 100 * sp_bench_draft_share(r), r->drafted > 0);
}

struct sp_table sp_bench_draft_lens_table(const struct sp_bench *b, struct sp_err *err)
{
    const char *const headings[] = {
        "#",        "prompt",   "depth",   sp_bench_simulated(b) ? "SIMULATED" : "median",
        "runs",     "speed-up", "of best", "accepted",
        "per pass", "drafting"};
    struct sp_table table = {.align = "rrrrrrrrrr", .widths = {3, 6, 5, 6, 11}, .err = err};

    for (size_t i = 0; table.align[i]; i++)
        sp_table_add(&table, "%s", headings[i]);
    return table;
}

/* The first row names the prompt. */
void sp_bench_add_draft_lens(struct sp_table *table, const struct sp_bench *b, size_t prompt)
{
    struct sp_bench_prompt all = {0};
    const struct sp_bench_prompt *p = &b->prompts[prompt];

    if (prompt == b->n_prompts) {
        all = sp_bench_all_prompts(b);
        p = &all;
        sp_table_add(table, "all");
        sp_table_add(table, "%s", "");
    } else {
        sp_table_add(table, "%zu", prompt + 1);
        sp_table_add(table, "%zu", p->ids.n);
    }
    add_row(table, b, p, SP_BENCH_PLAIN);
    for (size_t i = 0; i < b->n_draft_lens; i++) {
        sp_table_add(table, "%s", "");
        sp_table_add(table, "%s", "");
        add_row(table, b, p, i);
    }
}

void sp_bench_print_advice(const struct sp_bench *b)
{
    struct sp_bench_prompt all = sp_bench_all_prompts(b);
    size_t best = sp_bench_best_draft_len(b, &all);
    const struct sp_bench_runs *runs = sp_bench_runs_of(&all, best);
    char name[SP_BENCH_DRAFT_LEN_TEXT], reached[48] = "";

    if (b->draft_lens[b->n_draft_lens - 1] == SP_DRAFT_LENGTH_AUTO) {
        const struct sp_bench_runs *chosen = &all.drafted[b->n_draft_lens - 1];
        snprintf(reached, sizeof reached, " Auto reaches %.0f%% of that.",
                 100 * chosen->rate / runs->rate);
    }
    if (best == SP_BENCH_PLAIN) {
        sp_word_wrap_print(
            stdout, 0,
            "\nGeneration without drafting is the fastest: none of these draft depths "
            "speeds it up.%s",
            reached);
    } else {
        sp_word_wrap_print(stdout, 0, "\nThe fastest draft depth is %s: %.2fx.%s",
                           sp_bench_draft_len_name(name, b, best),
                           sp_bench_speed_up(runs, &all.plain), reached);
    }
}
