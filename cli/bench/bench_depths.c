/* Several draft depths in one bench: which of them pays on this machine, and is auto any good? */
#include "cli/bench/bench_depths.h"
#include "cli/bench/bench.h"
#include "cli/base/out.h"
#include "cli/bench/bench_measure.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- which depths ---- */

enum { DEEPEST = 1 << 16 };

static enum sp_status read_depth(int *depth, const char *word, size_t len, struct sp_err *err)
{
    char text[SP_BENCH_DEPTH_TEXT] = "", *end;
    long n;

    if (len < sizeof text) memcpy(text, word, len);
    if (strcasecmp(text, "auto") == 0) {
        *depth = SP_DRAFT_LENGTH_AUTO;
        return SP_OK;
    }
    n = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || n > DEEPEST) {
        return sp_fail(err, SP_E_USAGE, "--draft-depth: '%.*s', expected 0..%d or auto", (int)len,
                       word, DEEPEST);
    }
    *depth = (int)n;
    return SP_OK;
}

/* Ascending; auto is last. */
static int compare_draft_depths(const void *left, const void *right)
{
    unsigned a = (unsigned)*(const int *)left, b = (unsigned)*(const int *)right;

    return (a > b) - (a < b);
}

/* No depth twice, none deeper than the draft goes. */
static void shorten(struct sp_bench *b)
{
    int most = (int)b->info.max_draft_len;
    size_t n = 0;
    bool shortened = false;

    for (size_t i = 0; i < b->n_draft_depths; i++) {
        int depth = b->draft_depths[i];
        if (depth > most) {
            shortened = true;
            depth = most;
        }
        if (n == 0 || b->draft_depths[n - 1] != depth) b->draft_depths[n++] = depth;
    }
    b->n_draft_depths = n;
    if (shortened) {
        char text[80];
        snprintf(text, sizeof text,
                 "the draft proposes at most %d tokens; larger values have the same effect", most);
        sp_out_note("bench", text);
    }
}

enum sp_status sp_bench_read_draft_depths(struct sp_bench *b, struct sp_err *err)
{
    const char *at = b->options->draft_depths ? b->options->draft_depths : "auto";
    size_t n = 0;
    enum sp_status st;

    for (;; at++) {
        size_t len = strcspn(at, ",");
        if (n == SP_BENCH_MAX_DRAFT_DEPTHS) {
            return sp_fail(err, SP_E_USAGE, "--draft-depth: expected at most %d values",
                           SP_BENCH_MAX_DRAFT_DEPTHS);
        }
        if ((st = read_depth(&b->draft_depths[n++], at, len, err))) return st;
        at += len;
        if (*at == '\0') break;
    }
    if (b->info.draft == NULL) return SP_OK;
    qsort(b->draft_depths, n, sizeof *b->draft_depths, compare_draft_depths);
    b->n_draft_depths = n;
    if (n > 1) shorten(b);
    if (b->n_draft_depths == 1 && b->draft_depths[0] == 0) b->n_draft_depths = 0;
    return SP_OK;
}

/* ---- figures from figures ---- */

/* n by x, where that is a number. */
static double by(size_t n, double x)
{
    return x > 0 ? (double)n / x : 0;
}

static void add_runs(struct sp_bench_runs *sum, const struct sp_bench_runs *runs, size_t n)
{
    /* Seconds, until in_rates turns them over. */
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

static void in_rates(struct sp_bench_runs *sum, size_t n)
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
        for (size_t k = 0; k < b->n_draft_depths; k++)
            add_runs(&all.drafted[k], &p->drafted[k], n);
    }
    in_rates(&all.plain, all.n_generated);
    for (size_t k = 0; k < b->n_draft_depths; k++)
        in_rates(&all.drafted[k], all.n_generated);
    return all;
}

size_t sp_bench_best_depth(const struct sp_bench *b, const struct sp_bench_prompt *p)
{
    size_t best = SP_BENCH_PLAIN;

    for (size_t i = 0; i < b->n_draft_depths; i++) {
        if (b->draft_depths[i] == SP_DRAFT_LENGTH_AUTO) continue;
        if (p->drafted[i].rate > sp_bench_runs_of(p, best)->rate) best = i;
    }
    return best;
}

const struct sp_bench_runs *sp_bench_runs_of(const struct sp_bench_prompt *p, size_t which)
{
    return which == SP_BENCH_PLAIN ? &p->plain : &p->drafted[which];
}

const char *sp_bench_depth_name(char text[SP_BENCH_DEPTH_TEXT], const struct sp_bench *b,
                                size_t which)
{
    if (which == SP_BENCH_PLAIN) return strcpy(text, "plain");
    if (b->draft_depths[which] == SP_DRAFT_LENGTH_AUTO) return strcpy(text, "auto");
    snprintf(text, SP_BENCH_DEPTH_TEXT, "%d", b->draft_depths[which]);
    return text;
}

/* ---- the table ---- */

static enum sp_status add_row(struct sp_table *table, const struct sp_bench *b,
                              const struct sp_bench_prompt *p, size_t which, struct sp_err *err)
{
    const struct sp_bench_runs *r = sp_bench_runs_of(p, which);
    size_t best = sp_bench_best_depth(b, p);
    double of_best = 100 * r->rate / sp_bench_runs_of(p, best)->rate;
    char name[SP_BENCH_DEPTH_TEXT];
    enum sp_status st;

    if ((st = sp_table_add(table, err, "%s", sp_bench_depth_name(name, b, which)))) return st;
    if ((st = sp_table_add(table, err, "%.1f", r->rate))) return st;
    if ((st = sp_table_add(table, err, "%.1f-%.1f", r->slowest, r->fastest))) return st;
    if ((st = sp_table_add(table, err, "%.2fx", sp_bench_speed_up(r, &p->plain)))) return st;
    st = which == best ? sp_table_add(table, err, "best")
                       : sp_table_add(table, err, "%.0f%%", of_best);
    if (st) return st;
    st = r->drafted ? sp_table_add(table, err, "%.1f%%", 100 * sp_bench_acceptance(r))
                    : sp_table_add(table, err, "-");
    if (st || (st = sp_table_add(table, err, "%.2f", sp_bench_per_pass(r)))) return st;
    return r->drafted ? sp_table_add(table, err, "%.0f%%", 100 * sp_bench_draft_share(r))
                      : sp_table_add(table, err, "-");
}

/* The rows of a prompt, or of all where it has no tokens; its first row names it. */
static enum sp_status add_prompt(struct sp_table *table, const struct sp_bench *b,
                                 const struct sp_bench_prompt *p, size_t number, struct sp_err *err)
{
    enum sp_status st;

    st = p->ids.n ? sp_table_add(table, err, "%zu", number) : sp_table_add(table, err, "all");
    if (st) return st;
    st = p->ids.n ? sp_table_add(table, err, "%zu", p->ids.n) : sp_table_add(table, err, "%s", "");
    if (st || (st = add_row(table, b, p, SP_BENCH_PLAIN, err))) return st;
    for (size_t i = 0; i < b->n_draft_depths; i++) {
        if ((st = sp_table_add(table, err, "%s", ""))) return st;
        if ((st = sp_table_add(table, err, "%s", ""))) return st;
        if ((st = add_row(table, b, p, i, err))) return st;
    }
    return SP_OK;
}

/* What to do, in a sentence. */
static void print_advice(const struct sp_bench *b, const struct sp_bench_prompt *all)
{
    size_t best = sp_bench_best_depth(b, all);
    const struct sp_bench_runs *runs = sp_bench_runs_of(all, best);
    char name[SP_BENCH_DEPTH_TEXT];

    if (best == SP_BENCH_PLAIN) {
        printf("\nGeneration without drafting is the fastest: none of these draft depths speeds it "
               "up.");
    } else {
        printf("\nThe fastest draft depth is %s: %.2fx.", sp_bench_depth_name(name, b, best),
               sp_bench_speed_up(runs, &all->plain));
    }
    if (b->draft_depths[b->n_draft_depths - 1] == SP_DRAFT_LENGTH_AUTO) {
        const struct sp_bench_runs *chosen = &all->drafted[b->n_draft_depths - 1];
        printf(" Auto reaches %.0f%% of that.", 100 * chosen->rate / runs->rate);
    }
    putchar('\n');
}

enum sp_status sp_bench_print_draft_depths(const struct sp_bench *b, struct sp_err *err)
{
    const char *const headings[] = {
        "#",        "prompt",   "depth",   sp_bench_simulated(b) ? "SIMULATED" : "median",
        "runs",     "speed-up", "of best", "accepted",
        "per pass", "drafting"};
    struct sp_table table = {.align = "rrrrrrrrrr"};
    struct sp_bench_prompt all = sp_bench_all_prompts(b);
    enum sp_status st = SP_OK;

    for (size_t i = 0; table.align[i] && !st; i++)
        st = sp_table_add(&table, err, "%s", headings[i]);
    for (size_t i = 0; i < b->n_prompts && !st; i++)
        st = add_prompt(&table, b, &b->prompts[i], i + 1, err);
    if (st == SP_OK && b->n_prompts > 1) st = add_prompt(&table, b, &all, 0, err);
    if (st == SP_OK) {
        sp_table_print(stdout, &table, 2);
        print_advice(b, &all);
    }
    sp_table_release(&table);
    return st;
}
