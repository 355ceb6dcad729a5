#include "cli/base/out.h"
#include "cli/create_callbacks.h"
#include "cli/base/signals.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "runtime/spectool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const sp_cmd_types[] = {SP_DTYPE_NAMES, NULL};

enum sp_dtype sp_create_type(const char *name)
{
    return name ? sp_dtype_find(name) : SP_DTYPE_NONE;
}

enum sp_status sp_create_check_budget(const struct sp_budget *budget, const char *type,
                                      struct sp_err *err)
{
    const char *option = budget->size ? "--size" : "--bits";

    if (budget->size && budget->bits > 0)
        return sp_fail(err, SP_E_USAGE, "--size and --bits cannot be combined");
    if (type == NULL || (budget->size == 0 && !(budget->bits > 0))) return SP_OK;
    return sp_fail(err, SP_E_USAGE,
                   "%s chooses the types and cannot be combined with one for all weights (%s); "
                   "--rule and --quantize-output set some of them",
                   option, type);
}

enum sp_status sp_create_rules(struct sp_type_rules *out, const struct sp_opt_list *list,
                               struct sp_err *err)
{
    enum sp_status st;
    struct sp_type_rule *rules = NULL;

    if ((st = sp_new(&rules, list->n, sizeof *rules, err))) return st;
    for (size_t i = 0; i < list->n; i++) {
        const char *text = list->items[i], *end = strrchr(text, '='), *type = NULL;
        char name[256];
        if (end == NULL || end == text) {
            st = sp_fail(err, SP_E_USAGE,
                         "--rule is %s, expected PATTERN=TYPE such as 'layers.0.*_proj.weight=q6'",
                         text);
        } else {
            snprintf(name, sizeof name, "--rule %.*s", (int)(end - text), text);
            st = sp_opt_choose(&type, sp_cmd_types, name, end + 1, err);
        }
        if (st) {
            free(rules);
            return st;
        }
        rules[i] = (struct sp_type_rule){text, sp_create_type(type)};
    }
    *out = (struct sp_type_rules){rules, list->n};
    return SP_OK;
}

static void note(void *context, const char *sentence)
{
    struct sp_create_listener *listener = context;

    sp_progress_end(&listener->progress);
    sp_note(listener->command, "%s", sentence);
}

/* Prints rows of a table. On a terminal that is too narrow for one of them the second half of each,
 * after a tab, has a line of its own. */
static void plan(void *context, const char *rows)
{
    struct sp_word_wrap wrap;
    size_t widest = 0, len;
    const char *between = "  ";

    (void)context;
    for (const char *row = rows; *row; row += len + (row[len] == '\n')) {
        len = strcspn(row, "\n");
        if (len + 1 > widest) widest = len + 1;
    }
    sp_word_wrap_begin(&wrap, stdout);
    wrap.indent = 4;
    if (wrap.width && widest > (size_t)wrap.width) between = "\n    ";
    for (; *rows; rows += len + (rows[len] == '\t')) {
        len = strcspn(rows, "\t");
        sp_word_wrap_text(&wrap, rows, len);
        if (rows[len]) sp_word_wrap_text(&wrap, between, strlen(between));
    }
    putchar('\n');
}

static int progress(void *context, uint64_t done, uint64_t total)
{
    struct sp_create_listener *listener = context;

    if (listener->progress.label == NULL) sp_progress_begin(&listener->progress, "writing", NULL);
    sp_progress_show(&listener->progress, done, total);
    return sp_signals_caught();
}

enum sp_status sp_create_check_template(const char *text, size_t size, struct sp_err *err)
{
    struct sp_template *t = NULL;
    enum sp_status st = sp_template_compile(&t, text, size, SP_TEMPLATE_UNKNOWN, err);

    sp_template_close(t);
    return st;
}

void sp_create_attach(struct sp_create_callbacks *callbacks, struct sp_create_listener *listener)
{
    sp_signals_catch();
    *callbacks = (struct sp_create_callbacks){
        .context = listener, .note = note, .plan = plan, .progress = progress};
}

/* Prints which matrices of the target have another type than requested, and how to change that. */
static void print_kept(const struct sp_create_report *report)
{
    const struct sp_create_kept *tables = &report->kept_tables, *kv = &report->kept_key_values;
    char size[SP_AMOUNT_TEXT], first[96] = "", second[96] = "";
    const char *requested;

    if (report->n_kept_widths) {
        sp_word_wrap_print(
            stderr, 8, "        %zu matrices (%s) stay in %s: their widths are not multiples of 32",
            report->n_kept_widths, sp_out_size(size, report->kept_widths.size),
            sp_dtype_info(report->kept_widths.type)->name);
    }
    if (tables->size + kv->size == 0) return;
    requested = sp_dtype_info(report->target_type)->name;
    if (tables->size) {
        snprintf(first, sizeof first, "embedding and output (%s) stay in %s",
                 sp_out_size(size, tables->size), sp_dtype_info(tables->type)->name);
    }
    if (kv->size) {
        snprintf(second, sizeof second, "%skeys and values (%s) %s %s", tables->size ? ", " : "",
                 sp_out_size(size, kv->size), tables->size ? "in" : "stay in",
                 sp_dtype_info(kv->type)->name);
    }
    sp_word_wrap_print(stderr, 8, "        %s%s; --quantize-output %s puts them in %s as well",
                       first, second, requested, requested);
}

bool sp_create_is_large(const struct sp_create_report *report, enum sp_part part)
{
    static const double BITS = 12;

    return 8 * (double)report->size[part] > BITS * (double)report->n_weights[part];
}

void sp_create_print_report(const struct sp_create_report *report, const char *path)
{
    char weights[SP_AMOUNT_TEXT], before[SP_AMOUNT_TEXT], after[SP_AMOUNT_TEXT];

    fflush(stdout); /* the plan of a dry run stands before the report */
    for (int part = SP_PART_TARGET; part <= SP_PART_DRAFT; part++) {
        uint64_t n = report->n_weights[part];
        if (n == 0) continue;
        sp_word_wrap_print(
            stderr, 8, "%-6s  %" PRIu64 " tensors, %s weights, %s -> %s, %.2f bits per weight",
            sp_part_name((enum sp_part)part), report->n_tensors[part], sp_out_count(weights, n),
            sp_out_size(before, report->source_size[part]), sp_out_size(after, report->size[part]),
            8 * (double)report->size[part] / (double)n);
        if (part == SP_PART_TARGET) print_kept(report);
    }
    if (report->check.uniform) {
        const struct sp_budget_check *c = &report->check;
        sp_word_wrap_print(
            stderr, 0,
            "measured KL divergence: %.4g nats per token with the chosen types, %.4g with %s for "
            "all; %s",
            c->chosen_kl, c->uniform_kl, sp_dtype_info(c->uniform)->name,
            c->keeps_uniform ? "the chosen types are not clearly better and were not kept"
                             : "the chosen types are better");
    }
    if (report->predicted_kl > 0) {
        fprintf(stderr, "predicted KL divergence by the rounding of weights: %.4g nats per token\n",
                report->predicted_kl);
    }
    if (report->file_size == 0) return;
    sp_out_text(stderr, path, strlen(path));
    fprintf(stderr, ": %s\n", sp_out_size(after, report->file_size));
}
