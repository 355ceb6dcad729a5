/* The job of `create`, of `quantize` and, as far as its sources, of `export`. */
#ifndef SP_CONVERT_CREATE_CREATE_JOB_H
#define SP_CONVERT_CREATE_CREATE_JOB_H

#include "convert/create/calibration.h"
#include "convert/create/create.h"
#include "convert/create/plan.h"
#include "format/config/config.h"
#include "format/modelfile/modelfile.h"
#include "format/weights/sensitivity.h"
#include "format/packfile.h"
#include "format/packfile_write.h"

/* Checks that a draft can serve a target.
 *
 * A draft never changes the text that the target writes, but an unsuitable draft proposes useless
 * tokens or reads outside its tables. The check runs before anything is written. It compares
 * vocabularies, tokenizers (by content), widths and taps, and it reads configs and tokenizers but
 * no weights. */

/* rows[id] is the row of the draft for the target's token `id`: a permutation of 0..n-1. */
struct sp_vocab_order {
    uint32_t *rows;   /* [n], owned; NULL: every row keeps its place */
    size_t n;         /* rows of the draft's tables */
    size_t n_matched; /* tokens that have another id in the draft */
    size_t n_unknown; /* ids whose token the draft does not have in any place */
};

/* One side of the comparison, target or draft. */
struct sp_draft_compat_side {
    const struct sp_config *config;  /* settled (sp_config_settle); borrowed */
    struct sp_text tokenizer;        /* tokenizer.json; none, too, if both are known to match */
    struct sp_text tokenizer_config; /* tokenizer_config.json */
};

/* *order: where the rows of a language model have to be put, owned by the caller even on failure
 * (free rows). SP_E_INPUT names what does not fit. What fits but is worth knowing is appended to
 * *warnings, one sentence a line (sp_warn). same_source: both were read from the same source. */
SP_MUST_CHECK enum sp_status sp_draft_compat_check(struct sp_vocab_order *order,
                                                   const struct sp_draft_compat_side *target,
                                                   const struct sp_draft_compat_side *draft,
                                                   bool same_source, char **warnings,
                                                   struct sp_err *err);

/* The best types for a number of bytes: of all choices of one type for each group of matrices
 * (format/weights/tensor_group.h) the one with the smallest sum of sensitivity times relative
 * squared error that fits.
 *
 * The sum approximates the KL divergence of the output, because small errors of different groups
 * add up. It is only as good as the sensitivities: errors of equal size cost tens of times more in
 * some groups than in others, so that without sensitivities a smaller sum can mean a larger
 * divergence; and where few positions make up the mean, the errors of groups do not add up. The
 * commands therefore measure the choice (cli/create_check.c).
 *
 * The result depends on the numbers given alone. */

struct sp_budget_request {
    const struct sp_plan *plan; /* begins with the target's tensors, in their stored types */
    size_t n_target;            /* the number of these */
    bool keep_output;           /* embedding and output matrix keep the types of the plan */
    uint64_t most;              /* bytes for all tensors of the target */
    const struct sp_sensitivities *sensitivities; /* n 0: a table of kinds is used */
};

/* What is known of the choice that was made, or why none was. */
struct sp_budget_result {
    uint64_t least,
        largest; /* bytes of the target's tensors with q2 and with q8 for all matrices */
    size_t n_groups, n_measured; /* groups whose type was chosen, and those with a sensitivity */
};

/* Sets choices[0..n_target-1] of the matrices that can have any type and have no choice yet. If
 * `most` is below result->least, nothing is set and *fits is false. */
SP_MUST_CHECK enum sp_status sp_budget_choose(struct sp_plan_choice *choices, bool *fits,
                                              struct sp_budget_result *result,
                                              const struct sp_budget_request *request,
                                              struct sp_err *err);

/* The work of a command from its options to its output. Valid when zeroed but for the options, and
 * released by sp_create_job_release. */
struct sp_create_job {
    const struct sp_create_options *options; /* borrowed */
    const char *output;                      /* borrowed */
    bool in_place;                           /* the output is the source */
    struct sp_modelfile file;                /* owned; none: the options name the sources */
    struct sp_source target, draft;          /* owned */
    struct sp_named_source named;            /* what the value of FROM stands for; owned */
    bool has_draft;
    struct sp_text records; /* the Modelfile's; owned */
    char *warnings;         /* sentences for the user, a line each; owned; NULL: none */
    /* What sp_create_job_plan makes; the plan borrows from all else. */
    struct sp_plan plan;                    /* owned */
    struct sp_calibration_file calibration; /* owned */
    struct sp_strbuf smoothing;             /* text of the section; owned; empty: none */
    enum sp_dtype uniform;                  /* of struct sp_create_report */
    double predicted_kl;                    /* of types chosen for a budget; 0: unknown */
};

/* Opens the model `from` of the options with its built-in head, or both parts of a packed file, and
 * makes or reads the records. The options are borrowed. *job needs a release on failure, too. */
SP_MUST_CHECK enum sp_status sp_create_job_open(struct sp_create_job *job,
                                                const struct sp_create_options *options,
                                                struct sp_err *err);

/* Checks that the sources fit each other, and passes on the warnings. */
SP_MUST_CHECK enum sp_status sp_create_job_check(struct sp_create_job *job, struct sp_err *err);

/* Passes on the warnings collected so far, line by line. */
void sp_create_job_tell(struct sp_create_job *job);

/* From opened sources and the user's options to the plan of both parts: types as requested, rules
 * for single tensors, types that fit a budget of bytes, calibration (make_plan.c). Notes for the
 * user are added to the warnings. */
SP_MUST_CHECK enum sp_status sp_create_job_plan(struct sp_create_job *job, struct sp_err *err);

/* *most = bytes of the file that would be written, or a few more. No weight is read. `outline`, if
 * it is not NULL: where the file's outline is written (format/packfile_write.h). */
SP_MUST_CHECK enum sp_status sp_create_job_measure(uint64_t *most, const struct sp_create_job *job,
                                                   const char *outline, struct sp_err *err);

/* Writes the packed file, or its outline; or reads and converts every weight and writes nothing.
 * *file_size = its bytes. */
SP_MUST_CHECK enum sp_status
sp_create_job_write(uint64_t *file_size, const struct sp_create_job *job, struct sp_err *err);

/* Checks the sources, plans, and writes the output, or shows the plan. *report may be NULL; it is
 * filled on success. */
SP_MUST_CHECK enum sp_status sp_create_job_run(struct sp_create_job *job,
                                               struct sp_create_report *report, struct sp_err *err);
void sp_create_job_release(struct sp_create_job *job);

/* ---- pairing records (pairing_record.c) ----
 *
 * The pairing record of a packed file: the kind of the draft, how the draft is driven, and the
 * digests of the target and the draft that belong together. The record is a JSON section, defined
 * in spectool-pack(5). */

/* Prints the record for a draft and the digests of the two parts. */
SP_MUST_CHECK enum sp_status sp_pairing_record_print(struct sp_text *text,
                                                     const struct sp_config *draft,
                                                     const struct sp_part_digests *digests,
                                                     struct sp_err *err);

/* Writes the record as a section of a file. */
SP_MUST_CHECK enum sp_status sp_pairing_record_put(struct sp_pack_writer *w,
                                                   const struct sp_config *draft,
                                                   const struct sp_part_digests *digests,
                                                   struct sp_err *err);

/* Checks that a file's pairing record names the parts that are in it. SP_OK if there is neither a
 * draft nor a record; SP_E_INPUT if there is only one of them or a digest differs. */
SP_MUST_CHECK enum sp_status sp_pairing_record_check(const struct sp_pack *pack,
                                                     struct sp_err *err);

#endif
