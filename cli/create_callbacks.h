/* The parts that `create`, `quantize` and `export` share: option rows, types by name, the output
 * of warnings, plan and progress, and the report at the end. */
#ifndef SP_CLI_CREATE_CALLBACKS_H
#define SP_CLI_CREATE_CALLBACKS_H

#include "cli/commands.h"
#include "cli/base/out.h"
#include "convert/create/create.h"
#include "format/base/pool.h"
#include "cli/base/opt.h"

/* Rows of the option tables of `create` and `quantize`; `type` is their struct of options, whose
 * member `create` is a struct sp_create_options. */
#define SP_OPT_OUTPUT_TYPE(type, whole)                                                            \
    {                                                                                              \
        SP_OPT_CHOICE, 0, "quantize-output", NULL, "TYPE",                                         \
            .offset = offsetof(type, head), .choices = sp_cmd_types,                               \
            .help = "Type of the target's embedding and output matrix; overrides " whole           \
    }
#define SP_OPT_BUDGET(type)                                                                        \
    {SP_OPT_SIZE,                                                                                  \
     0,                                                                                            \
     "size",                                                                                       \
     NULL,                                                                                         \
     "BYTES",                                                                                      \
     .offset = offsetof(type, create.budget.size),                                                 \
     .help = "Choose the best types of the target for a file of at most this size, such as 500M "  \
             "or 6G"},                                                                             \
        {SP_OPT_NUMBER, 0,         "bits",                                                         \
         NULL,          "B",       .offset = offsetof(type, create.budget.bits),                   \
         .min = 1,      .max = 16, .help = "The same for B bits per weight of the target"},        \
    {                                                                                              \
        SP_OPT_FLAG, 0, "no-check", NULL, NULL,                                                    \
            .offset = offsetof(type, create.budget.no_check),                                      \
            .help = "With --size or --bits: do not measure whether one type for all is better"     \
    }
#define SP_OPT_RULE(type)                                                                          \
    {                                                                                              \
        SP_OPT_LIST, 0, "rule", NULL, "PATTERN=TYPE",                                              \
            .offset = offsetof(type, rules),                                                       \
            .help = "Type of the tensors whose names match, over the other options; the last "     \
                    "rule that matches decides; draft:PATTERN: tensors of the draft; repeatable"   \
    }
#define SP_OPT_CALIBRATION(type)                                                                   \
    {                                                                                              \
        SP_OPT_STRING, 0, "calibration", NULL, "FILE",                                             \
            .offset = offsetof(type, create.calibration), .path = true,                            \
            .help = "Statistics from spectool calibrate, or an importance matrix of "              \
                    "llama.cpp; improve q2 to q8 weights"                                          \
    }
#define SP_OPT_DRY_RUN(type)                                                                       \
    {                                                                                              \
        SP_OPT_FLAG, 0, "dry-run", NULL, NULL,                                                     \
            .offset = offsetof(type, create.dry_run),                                              \
            .help = "Print what would be written, by tensor and by group, and exit"                \
    }
#define SP_OPT_CREATE_THREADS(type)                                                                \
    {                                                                                              \
        SP_OPT_INT, 't', "threads", NULL, "N",                                                     \
            .offset = offsetof(type, n_threads), .min = 1, .max = SP_POOL_MAX,                     \
            .shown = "one per core", .help = "Number of threads; does not affect the output"       \
    }

struct sp_create_listener {
    const char *command;
    struct sp_progress progress;
};

/* Returns the type with this name, one of sp_cmd_types; SP_DTYPE_NONE if `name` is NULL. */
enum sp_dtype sp_create_type(const char *name);

/* Refuses two of --size, --bits and a type for all of the target (`type`; NULL: none). */
SP_MUST_CHECK enum sp_status sp_create_check_budget(const struct sp_budget *budget,
                                                    const char *type, struct sp_err *err);

/* Reads the values of --rule. The caller frees out->rules, whose texts are borrowed from `list`. */
SP_MUST_CHECK enum sp_status sp_create_rules(struct sp_type_rules *out,
                                             const struct sp_opt_list *list, struct sp_err *err);

/* Checks that a chat template compiles. */
SP_MUST_CHECK enum sp_status sp_create_check_template(const char *text, size_t size,
                                                      struct sp_err *err);

/* Sets the callbacks and makes signals cancel the work. `listener` must outlive the callbacks. */
void sp_create_attach(struct sp_create_callbacks *callbacks, struct sp_create_listener *listener);

/* True if the weights of a part take more than 12 bits each: they are not quantized. */
bool sp_create_is_large(const struct sp_create_report *report, enum sp_part part);

/* Prints a table to stderr: the size of each part before and after. */
void sp_create_print_report(const struct sp_create_report *report, const char *path);

/* ---- budgets (create_check.c) ----
 *
 * `create` and `quantize` with --size or --bits: the types that are chosen for the size are
 * measured against one type for all of the target, since a sum over sensitivities only predicts. */

/* As sp_create or, if `quantizes`, sp_requantize. With a budget, unless its no_check is set, both
 * choices are written to temporary files and run on the calibration's check, or without one on
 * built-in texts, as is the model with its stored types; report->check has the result, and the
 * better choice becomes the output. A model that makes no text, or has neither tokenizer nor check,
 * is not measured. `command`: for progress. */
SP_MUST_CHECK enum sp_status sp_create_checked(struct sp_create_report *report,
                                               const struct sp_create_options *options,
                                               bool quantizes, const char *command,
                                               struct sp_err *err);

/* ---- the type of a draft (create_auto_draft.c) ----
 *
 * `create --quantize-draft auto`: the fastest type of the draft, by its acceptance and by the bytes
 * that a round reads from memory, for no time may enter the file. */

/* Built-in texts, of some forty tokens each. */
enum { SP_N_CREATE_TEXTS = 6 };
extern const char *const sp_create_texts[SP_N_CREATE_TEXTS];

/* Creates the packed file that `options` describe, with the type of its draft chosen on the texts
 * of the files `texts` or, without any, on built-in ones; the trials and the reason go to stderr
 * and into a receipt. options->draft_type is NONE. With dry_run, prints what would be measured. */
SP_MUST_CHECK enum sp_status sp_create_auto_draft(struct sp_create_report *report,
                                                  const struct sp_create_options *options,
                                                  const struct sp_opt_list *texts,
                                                  const char *command, struct sp_err *err);

#endif
