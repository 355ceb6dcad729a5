/* The better file is copied to the output, so that nothing is quantized a third time. */

#include "cli/base/backend_opts.h"
#include "cli/base/signals.h"
#include "cli/base/user_folder.h"
#include "cli/create_callbacks.h"
#include "cli/chat/conversation.h"
#include "format/base/file.h"
#include "convert/create/calibration.h"
#include "format/base/mem.h"

#include <math.h>
#include <string.h>

/* Tokens of a window, and parts of a text that a mean is over (struct sp_evaluation_block). */
enum { WINDOW = 512, MOST_BLOCKS = 256 };

/* One of the two choices, and the KL divergences from the model that were measured of it. */
struct choice {
    struct sp_temp_file file;
    struct sp_create_report report;
    double blocks[MOST_BLOCKS], mean;
    size_t n;
};

struct check {
    const struct sp_create_options *options;
    enum sp_status (*create)(struct sp_create_report *report,
                             const struct sp_create_options *options, struct sp_err *err);
    struct sp_create_listener listener;
    struct sp_backend_opts backend;
    struct choice chosen, uniform, stored; /* chosen types, one for all, those of the model */
    struct choice *reading;                /* what is measured now */
    struct sp_package *model;              /* with its stored types; owned */
    struct sp_ids ids;
    struct sp_err *err;
};

/* ---- files ---- */

/* Writes the file of a choice, silently but for `notes`. */
static enum sp_status write_file(struct check *c, struct choice *choice,
                                 struct sp_create_options options, bool notes)
{
    enum sp_status st;

    if ((st = sp_temp_file_open(&choice->file, "packed.bin", c->err))) return st;
    sp_create_attach(&options.callbacks, &c->listener);
    options.callbacks.plan = NULL;
    if (!notes) options.callbacks.note = NULL;
    options.output = choice->file.path;
    options.dry_run = false;
    st = c->create(&choice->report, &options, c->err);
    sp_progress_end(&c->listener.progress);
    return st;
}

/* Opens the model with its stored types: the packed file itself, or a copy. */
static enum sp_status open_model(struct check *c)
{
    struct sp_create_options stored = *c->options;
    const char *path = stored.from;
    enum sp_status st = SP_OK;

    stored.draft_type = stored.output_type = SP_DTYPE_NONE;
    stored.rules = (struct sp_type_rules){0};
    stored.budget = (struct sp_budget){0};
    stored.calibration = NULL;
    if (c->create == sp_create) {
        st = write_file(c, &c->stored, stored, false);
        path = c->stored.file.path;
    }
    return st ? st : sp_backend_open_package(&c->model, path, &c->backend, c->err);
}

/* Writes the target in the largest type that fits, from *type on; *type becomes it, or NONE. */
static enum sp_status write_uniform(struct check *c, enum sp_dtype *type)
{
    const uint64_t most = c->options->budget.size;
    struct sp_create_options other = *c->options;
    enum sp_status st;
    size_t t = 0;

    other.budget = (struct sp_budget){0};
    while (sp_block_dtypes[t].dtype != *type)
        t++;
    for (*type = SP_DTYPE_NONE; t < SP_N_BLOCK_DTYPES && *type == SP_DTYPE_NONE; t++) {
        other.target_type = sp_block_dtypes[t].dtype;
        sp_temp_file_remove(&c->uniform.file);
        if ((st = write_file(c, &c->uniform, other, false))) return st;
        if (most == 0 || c->uniform.report.file_size <= most) *type = other.target_type;
    }
    return SP_OK;
}

/* ---- measuring ---- */

/* Sets the tokens to measure on; none if there are none. */
static enum sp_status read_tokens(struct check *c)
{
    struct sp_calibration_file calibration = {0};
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_strbuf text = {0};
    enum sp_status st = SP_OK;

    if (c->options->calibration) {
        st = sp_calibration_open(&calibration, c->options->calibration, NULL, c->err);
        if (!st) st = sp_ids_append(&c->ids, calibration.check, calibration.n_check, c->err);
        sp_calibration_release(&calibration);
    }
    sp_package_describe(c->model, &info);
    if (st || c->ids.n || !info.has_tokenizer) return st;
    for (size_t i = 0; i < SP_N_CREATE_TEXTS && !st; i++)
        st = sp_strbuf_append(&text, sp_create_texts[i], strlen(sp_create_texts[i]), c->err);
    sp_ids_release(&c->ids);
    if (!st) st = sp_prompt_raw(&c->ids, c->model, text.at, text.len, true, c->err);
    sp_strbuf_release(&text);
    return st;
}

static int show_progress(void *context, size_t done, size_t total)
{
    sp_progress_show(&((struct check *)context)->listener.progress, done, total);
    return sp_signals_caught();
}

static void add_block(void *context, const struct sp_evaluation_block *block)
{
    struct choice *choice = ((struct check *)context)->reading;

    if (choice->n < MOST_BLOCKS) choice->blocks[choice->n++] = block->divergence;
}

static enum sp_status measure(struct check *c, struct choice *choice)
{
    const size_t n_window = c->ids.n < WINDOW ? c->ids.n : WINDOW;
    struct sp_evaluation made = SP_EVALUATION_INIT;
    struct sp_evaluation_request request = {.size = sizeof request,
                                            .ids = c->ids.at,
                                            .n = c->ids.n,
                                            .n_window = n_window,
                                            .stride = n_window - n_window / 4 - 1,
                                            .reference = c->model,
                                            .context = c,
                                            .progress = show_progress,
                                            .block = add_block};
    struct sp_package *package = NULL;
    enum sp_status st;

    if ((st = sp_backend_open_package(&package, choice->file.path, &c->backend, c->err))) return st;
    c->reading = choice;
    sp_progress_begin(&c->listener.progress, "measuring", "tokens");
    st = sp_package_evaluate(package, &request, &made, c->err);
    sp_progress_end(&c->listener.progress);
    c->listener.progress = (struct sp_progress){0};
    sp_package_close(package);
    choice->mean = made.divergence.mean;
    return st;
}

/* True if the mean of a is smaller than that of b by more than n_errors standard errors of their
 * difference, by the method of batch means. */
static bool is_better(const struct choice *a, const struct choice *b, double n_errors)
{
    double sum = 0, squares = 0, n = (double)a->n, mean;

    for (size_t i = 0; i < a->n; i++) {
        double d = b->blocks[i] - a->blocks[i];
        sum += d;
        squares += d * d;
    }
    mean = sum / n;
    return a->n > 1 && mean > n_errors * sqrt((squares - sum * mean) / (n - 1) / n);
}

/* Writes and measures both choices. Where one type uses nearly all of the bytes, chosen types must
 * be better by more than chance. */
static enum sp_status compare(struct check *c, struct sp_budget_check *out, enum sp_dtype uniform)
{
    static const double NEARLY = 0.98;
    double part;
    enum sp_status st;

    if ((st = open_model(c)) || (st = read_tokens(c)) || c->ids.n < 2) return st;
    if ((st = write_uniform(c, &uniform)) || uniform == SP_DTYPE_NONE) return st;
    if ((st = write_file(c, &c->chosen, *c->options, true))) return st;
    if ((st = measure(c, &c->chosen)) || (st = measure(c, &c->uniform))) return st;
    part = (double)c->uniform.report.size[SP_PART_TARGET] /
           (double)c->chosen.report.size[SP_PART_TARGET];
    *out = (struct sp_budget_check){uniform,
                                    !is_better(&c->chosen, &c->uniform, part < NEARLY ? 0 : 2),
                                    c->chosen.mean, c->uniform.mean, c->chosen.report.predicted_kl};
    return SP_OK;
}

/* ---- the whole ---- */

/* Writes the better file as the output, or prints its plan. */
static enum sp_status finish(struct check *c, struct sp_create_report *report,
                             const struct sp_budget_check *check)
{
    const struct sp_create_options *o = c->options;
    const struct choice *kept = check->keeps_uniform ? &c->uniform : &c->chosen;
    struct sp_create_options last = *o;
    enum sp_status st;

    if (o->dry_run) {
        if (check->keeps_uniform) {
            last.target_type = check->uniform;
            last.budget.check = *check;
        }
        st = c->create(report, &last, c->err);
    } else {
        last = (struct sp_create_options){.from = kept->file.path,
                                          .output = o->output ? o->output : SP_CREATE_OUTPUT,
                                          .n_threads = o->n_threads,
                                          .force = o->force,
                                          .callbacks = o->callbacks};
        if (c->create == sp_requantize && o->output == NULL) {
            last.output = o->from;
            last.force = true;
        }
        if (!check->keeps_uniform) last.budget = o->budget;
        last.budget.check = *check;
        if ((st = sp_requantize(report, &last, c->err))) return st;
        memcpy(report->source_size, kept->report.source_size, sizeof report->source_size);
    }
    report->check = *check;
    report->predicted_kl = check->predicted_kl;
    return st;
}

static enum sp_status run(struct check *c, struct sp_create_report *report)
{
    const struct sp_create_options *o = c->options;
    const char *output = o->output ? o->output : SP_CREATE_OUTPUT;
    struct sp_create_options plan = *o;
    struct sp_create_report planned;
    struct sp_budget_check check = {0};
    enum sp_status st;

    plan.dry_run = true;
    plan.callbacks = (struct sp_create_callbacks){0};
    if (o->budget.no_check || (o->budget.size == 0 && !(o->budget.bits > 0)) ||
        (c->create == sp_create && !o->force && !o->dry_run && sp_file_exists(output)))
        return c->create(report, o, c->err);
    if ((st = c->create(&planned, &plan, c->err))) return st;
    if (planned.uniform && !planned.embeds && (st = compare(c, &check, planned.uniform))) {
        if (st == SP_E_IO) sp_context(c->err, "measuring the types, which --no-check leaves out");
        return st;
    }
    return check.uniform ? finish(c, report, &check) : c->create(report, o, c->err);
}

enum sp_status sp_create_checked(struct sp_create_report *report,
                                 const struct sp_create_options *options, bool quantizes,
                                 const char *command, struct sp_err *err)
{
    struct check c = {.options = options,
                      .create = quantizes ? sp_requantize : sp_create,
                      .listener = {.command = command},
                      .backend = SP_BACKEND_DEFAULTS,
                      .err = err};
    enum sp_status st;

    c.backend.n_threads = options->n_threads;
    st = run(&c, report);
    sp_package_close(c.model);
    sp_temp_file_remove(&c.stored.file);
    sp_temp_file_remove(&c.chosen.file);
    sp_temp_file_remove(&c.uniform.file);
    sp_ids_release(&c.ids);
    return st;
}
