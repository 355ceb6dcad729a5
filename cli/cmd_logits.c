/* spectool logits: writes the logits of given tokens as a NumPy array. */
#include "cli/commands.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "format/base/atomic_file.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *ids, *text, *output, *adapter;
    int64_t n_rows, n_steps;
    bool draft;
    struct sp_backend_opts backend;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids), .help = "Token IDs"},
    {SP_OPT_STRING, 0, "text", NULL, "TEXT", AT(text),
     .help = "A text to tokenize; special tokens in it are recognized"},
    {SP_OPT_STRING, 'o', "output", NULL, "X.npy", AT(output), .path = true,
     .help = "NumPy file to write"},
    {SP_OPT_INT, 0, "rows", NULL, "N", AT(n_rows), .min = 1, .max = 1 << 16,
     .help = "Process N tokens per forward pass; does not affect the result"},
    {SP_OPT_FLAG, 0, "draft", NULL, NULL, AT(draft),
     .help = "Write the draft's logits instead; the last id is a token that the target has not "
             "processed yet"},
    {SP_OPT_INT, 0, "steps", NULL, "N", AT(n_steps), .min = 1, .max = 1 << 16,
     .shown = "as many as it can propose",
     .help = "With --draft: number of draft tokens (greedy steps of a prediction head, rows of a "
             "block)"},
    SP_OPT_ADAPTER(struct options, adapter),
    SP_OPT_REFERENCE(struct options, backend),
    SP_OPT_THREADS(struct options, backend),
    SP_OPT_RANKS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_KV_TYPE(struct options, backend),
    {.kind = SP_OPT_END},
};

struct writer {
    struct sp_atomic_file *output;
    uint8_t *bytes; /* buffer of one row */
    size_t n_rows, n_cols;
    enum sp_status st;
    struct sp_err *err;
};

static int write_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct writer *w = context;

    if (sp_signals_caught()) return 1;
    for (size_t i = 0; i < n_vocab; i++) {
        if (!isfinite(logits[i])) {
            w->st = sp_fail(w->err, SP_E_INPUT, "row %zu: the logit of token %zu is not finite",
                            row, i);
            return 1;
        }
    }
    sp_npy_row(w->bytes, logits, n_vocab);
    w->st = sp_atomic_file_write_at(w->output, SP_NPY_HEADER + (uint64_t)row * n_vocab * 4,
                                    w->bytes, n_vocab * 4, w->err);
    if (row >= w->n_rows) w->n_rows = row + 1;
    w->n_cols = n_vocab;
    return w->st != SP_OK;
}

static enum sp_status read_ids(struct sp_ids *ids, const struct options *o,
                               const struct sp_package *package, struct sp_err *err)
{
    if (o->ids != NULL) return sp_ids_parse(ids, o->ids, err);
    return sp_tokenizer_encode(sp_package_tokenizer(package), o->text, strlen(o->text),
                               SP_ENCODE_ADD_SPECIAL | SP_ENCODE_PARSE_SPECIAL, &ids->at, &ids->n,
                               err);
}

static enum sp_status write_array(const struct options *o, struct sp_session *session,
                                  const struct sp_ids *ids, size_t n_vocab, struct sp_err *err)
{
    enum sp_status st;
    struct writer w = {.err = err};
    uint8_t header[SP_NPY_HEADER];

    if ((st = sp_new(&w.bytes, n_vocab, 4, err))) goto done;
    if ((st = sp_atomic_file_open(&w.output, o->output, true, 0, err))) goto done;
    if (o->draft) {
        st = sp_session_draft_logits(session, ids->at, ids->n, (size_t)o->n_steps, write_row, &w,
                                     err);
    } else {
        st = sp_session_logits(session, ids->at, ids->n, write_row, &w, err);
    }
    if (w.st) st = w.st;
    if (st) goto done;
    sp_npy_header(header, w.n_rows, w.n_cols);
    if ((st = sp_atomic_file_write_at(w.output, 0, header, sizeof header, err))) goto done;
    st = sp_atomic_file_commit(w.output, err);
done:
    sp_atomic_file_close(w.output);
    free(w.bytes);
    return st;
}

/* The options that control the number of draft tokens. */
static const char *const step_options[] = {"steps", NULL};

/* The context for the ids and one proposal: as small as possible, since caches cost memory. */
static int64_t context_for(size_t n_ids, const struct sp_package_info *info)
{
    size_t n = n_ids + info->block_size;

    return (int64_t)(n < info->max_positions ? n : info->max_positions);
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_backend_opts backend = o->backend;
    struct sp_package *package = NULL;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_session *session = NULL;
    struct sp_lora *lora = NULL;
    struct sp_ids ids = {0};
    char *path = NULL;
    enum sp_status st;

    if ((o->ids != NULL) == (o->text != NULL))
        return sp_fail(err, SP_E_USAGE, "expected either --ids or --text");
    if (o->output == NULL)
        return sp_fail(err, SP_E_USAGE, "--output is missing: expected --output X.npy");
    if (o->n_steps && !o->draft) return sp_fail(err, SP_E_USAGE, "--steps requires --draft");
    if ((st = sp_backend_check_reference(args, &backend, err))) return st;
    st = sp_atomic_file_check_replaced(o->output, sp_npy_magic, SP_NPY_MAGIC, "NumPy array", err);
    if (st) return st;
    sp_signals_catch();
    if ((st = sp_packed_checkpoint_find(&path, args->operands[0], NULL, args->command->name, err)))
        goto done;
    if ((st = sp_backend_open_package(&package, path, &backend, err))) goto done;
    sp_package_describe(package, &info);
    if (o->draft && info.draft == NULL) {
        st = sp_fail(err, SP_E_USAGE, "%s has no draft", args->operands[0]);
        goto done;
    }
    if (o->n_steps && strcmp(info.draft, "autoregressive") == 0)
        sp_backend_note_no_effect(args, "an autoregressive draft has one row per id", step_options);
    if ((st = read_ids(&ids, o, package, err))) goto done;
    if (o->adapter &&
        (st = sp_lora_file_open(&lora, package, path, o->adapter, args->command->name, err)))
        goto done;
    backend.n_context = context_for(ids.n, &info);
    if ((st = sp_backend_open_session(&session, package, &backend, !o->draft, (size_t)o->n_rows,
                                      err)))
        goto done;
    if ((st = sp_session_set_lora(session, lora, 1, err))) goto done;
    st = write_array(o, session, &ids, info.n_vocab, err);
done:
    sp_session_close(session);
    sp_lora_close(lora);
    sp_package_close(package);
    sp_ids_release(&ids);
    free(path);
    return st;
}

static const struct options defaults = {.backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_logits = {
    .name = "logits",
    .summary = "Write the logits of given tokens to a NumPy file",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .group_offset = offsetof(struct options, backend.group),
    .run = run,
};
