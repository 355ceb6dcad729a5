/* Rows are matched by name, which states everything that must agree for two figures to be
 * comparable: what is measured, after how many tokens, with which drafting. */
#include "cli/bench/bench_compare.h"

#include "cli/base/out.h"
#include "cli/base/word_wrap.h"
#include "cli/bench/bench_result.h"
#include "cli/bench/bench_svg.h"
#include "format/base/json_write.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ROWS = 1 + SP_BENCH_MAX_DEPTHS * SP_BENCH_ROW_COUNTS +
               SP_BENCH_MAX_PROMPTS * (1 + SP_BENCH_MAX_DRAFT_LENS),
    NAME_SIZE = 64,
    LEGEND_INDENT = 3,
};

struct row {
    char name[NAME_SIZE];
    bool is_time; /* milliseconds; else tokens per second */
    double value;
};

/* The rows of a result. */
struct rows {
    struct row at[MAX_ROWS];
    size_t n;
};

static struct row *add(struct rows *rows, double value)
{
    struct row *row = &rows->at[rows->n++];

    row->is_time = false;
    row->value = value;
    return row;
}

static void add_prompt(struct rows *rows, const struct sp_bench *b, size_t index)
{
    const struct sp_bench_prompt *p = &b->prompts[index];
    const char *drafted = sp_bench_simulated(b) ? "simulated" : "drafted";
    char name[SP_BENCH_DRAFT_LEN_TEXT];

    snprintf(add(rows, p->plain.rate)->name, NAME_SIZE, "prompt %zu of %zu tokens, plain",
             index + 1, p->ids.n);
    for (size_t k = 0; k < b->n_draft_lens; k++) {
        struct row *row = add(rows, p->drafted[k].rate);
        int len = snprintf(row->name, NAME_SIZE, "prompt %zu of %zu tokens, %s", index + 1,
                           p->ids.n, drafted);
        if (b->n_draft_lens > 1) {
            snprintf(row->name + len, NAME_SIZE - (size_t)len, ", depth %s",
                     sp_bench_draft_len_name(name, b, k));
        }
    }
}

static void list_rows(struct rows *rows, const struct sp_bench *b)
{
    snprintf(add(rows, sp_bench_prefill_rate(b))->name, NAME_SIZE, "prompt processing, %zu tokens",
             b->n_prefill);
    for (size_t i = 0; i < b->n_depths * SP_BENCH_ROW_COUNTS; i++) {
        const struct sp_bench_depth *d = &b->depths[i / SP_BENCH_ROW_COUNTS];
        size_t k = i % SP_BENCH_ROW_COUNTS;
        struct row *row = add(rows, d->verify_seconds[k] * 1e3);
        row->is_time = true;
        snprintf(row->name, NAME_SIZE, "pass of %zu row%s after %zu tokens", sp_bench_row_counts[k],
                 k ? "s" : "", d->n_before);
    }
    for (size_t i = 0; i < b->n_prompts; i++)
        add_prompt(rows, b, i);
}

/* Returns the row with this name, or NULL. */
static const struct row *find_row(const struct rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->n; i++)
        if (strcmp(rows->at[i].name, name) == 0) return &rows->at[i];
    return NULL;
}

/* Fails if a result lacks a row that the other one has. */
static enum sp_status check_rows(const struct sp_bench_result *have, const struct rows *rows,
                                 const struct sp_bench_result *other, const struct rows *wanted,
                                 struct sp_err *err)
{
    for (size_t i = 0; i < wanted->n; i++) {
        const char *name = wanted->at[i].name;
        if (find_row(rows, name)) continue;
        return sp_fail(err, SP_E_INPUT,
                       "%s has no row \"%s\", which %s has; results to compare need the same "
                       "depths, prompts and draft depths",
                       have->path, name, other->path);
    }
    return SP_OK;
}

/* Returns the speed in relation to that of the first result. */
static double ratio(const struct row *row, const struct row *first)
{
    return row->is_time ? first->value / row->value : row->value / first->value;
}

/* ---- the table ---- */

static enum sp_status add_cells(struct sp_table *table, const struct rows *all, size_t n, size_t i,
                                struct sp_err *err)
{
    const struct row *first = &all[0].at[i];
    enum sp_status st;

    if ((st = sp_table_add(table, err, "%s", first->name))) return st;
    if ((st = sp_table_add(table, err, "%s", first->is_time ? "ms" : "tokens/s"))) return st;
    for (size_t k = 0; k < n && !st; k++) {
        const struct row *row = find_row(&all[k], first->name);
        if ((st = sp_table_add(table, err, "%.*f", first->is_time ? 2 : 1, row->value))) break;
        if (k > 0) st = sp_table_add(table, err, "%.2fx", ratio(row, first));
    }
    return st;
}

static enum sp_status print_table(const struct sp_bench_result *results, const struct rows *all,
                                  size_t n, struct sp_err *err)
{
    char align[2 + 2 * SP_BENCH_MAX_RESULTS] = "llr";
    struct sp_table table = {.align = align};
    enum sp_status st;

    for (size_t k = 0; k < n; k++) {
        const struct sp_bench *b = &results[k].bench;
        if (k > 0) strcat(align, "rr");
        sp_word_wrap_print(
            stdout, LEGEND_INDENT, "%c: %s: %s, %u thread%s, %s kernels, medians of %zu",
            (char)('A' + k), results[k].path, b->name, b->info.n_threads,
            b->info.n_threads == 1 ? "" : "s", b->info.kernels, b->options->n_repeat);
    }
    sp_word_wrap_print(stdout, 0,
                       "B/A: the speed of B divided by that of A; above 1 B is faster\n");
    if ((st = sp_table_add(&table, err, "%s", ""))) goto done;
    if ((st = sp_table_add(&table, err, "%s", ""))) goto done;
    for (size_t k = 0; k < n; k++) {
        if ((st = sp_table_add(&table, err, "%c", (char)('A' + k)))) goto done;
        if (k > 0 && (st = sp_table_add(&table, err, "%c/A", (char)('A' + k)))) goto done;
    }
    for (size_t i = 0; i < all[0].n; i++)
        if ((st = add_cells(&table, all, n, i, err))) goto done;
    sp_table_print(stdout, &table, 2);
done:
    sp_table_release(&table);
    return st;
}

/* ---- JSON ---- */

static void print_json(const struct sp_bench_result *results, const struct rows *all, size_t n)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_begin(&out, NULL, '{');
    sp_json_out_begin(&out, "results", '[');
    for (size_t k = 0; k < n; k++)
        sp_json_out_text(&out, NULL, results[k].path);
    sp_json_out_end(&out, ']');
    sp_json_out_begin(&out, "rows", '[');
    for (size_t i = 0; i < all[0].n; i++) {
        const struct row *first = &all[0].at[i];
        sp_json_out_begin(&out, NULL, '{');
        sp_json_out_text(&out, "name", first->name);
        sp_json_out_text(&out, "unit", first->is_time ? "ms" : "tokens/s");
        sp_json_out_begin(&out, "values", '[');
        for (size_t k = 0; k < n; k++)
            sp_json_out_double(&out, NULL, find_row(&all[k], first->name)->value);
        sp_json_out_end(&out, ']');
        sp_json_out_begin(&out, "speeds", '[');
        for (size_t k = 0; k < n; k++)
            sp_json_out_double(&out, NULL, ratio(find_row(&all[k], first->name), first));
        sp_json_out_end(&out, ']');
        sp_json_out_end(&out, '}');
    }
    sp_json_out_end(&out, ']');
    sp_json_out_end(&out, '}');
    putchar('\n');
}

/* ---- all ---- */

static enum sp_status read_all(struct sp_bench_result *results, struct rows *all,
                               char *const *paths, size_t n, struct sp_err *err)
{
    enum sp_status st;

    for (size_t k = 0; k < n; k++) {
        if ((st = sp_bench_result_read(&results[k], paths[k], err))) return st;
        list_rows(&all[k], &results[k].bench);
        if ((st = check_rows(&results[k], &all[k], &results[0], &all[0], err))) return st;
        if ((st = check_rows(&results[0], &all[0], &results[k], &all[k], err))) return st;
    }
    return SP_OK;
}

enum sp_status sp_bench_compare(char *const *paths, size_t n, bool json, const char *svg,
                                struct sp_err *err)
{
    struct sp_bench_series series[SP_BENCH_MAX_RESULTS];
    struct sp_bench_result *results = NULL;
    struct rows *all = NULL;
    enum sp_status st;

    if ((st = sp_new(&results, n, sizeof *results, err))) goto done;
    if ((st = sp_new(&all, n, sizeof *all, err))) goto done;
    if ((st = read_all(results, all, paths, n, err))) goto done;
    if (json)
        print_json(results, all, n);
    else
        st = print_table(results, all, n, err);
    for (size_t k = 0; k < n; k++)
        series[k] = (struct sp_bench_series){results[k].path, &results[k].bench};
    if (st == SP_OK && svg) st = sp_bench_write_svg(series, n, svg, err);
done:
    for (size_t k = 0; results && k < n; k++)
        sp_bench_result_release(&results[k]);
    free(results);
    free(all);
    return st;
}
