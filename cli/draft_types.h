/* The draft of a packed file in other types: its acceptance on texts, the cost of its rounds, and
 * the speed-up to expect of each type at its best draft length.
 *
 * The draft is quantized from its stored form into a temporary file. Acceptance is that of
 * sp_session_eval_draft, with as many draft tokens per round as the draft proposes: a round of n
 * emits 1 + a1 + a1 a2 + ... + a1..an tokens on average, where ai is how often draft token i was
 * accepted if those before it were. The cost of a round is measured, or modelled by the bytes that
 * it reads from memory, which bound generation on a CPU. */
#ifndef SP_CLI_DRAFT_TYPES_H
#define SP_CLI_DRAFT_TYPES_H

#include "cli/base/backend_opts.h"
#include "cli/base/out.h"
#include "cli/eval/eval.h"
#include "format/dtype.h"
#include "format/json/json_write.h"
#include "runtime/spectool_measure.h"

enum { SP_DRAFT_TYPES_MAX = SP_N_PACKED_DTYPES, SP_DRAFT_LENGTHS = 12 };
extern const size_t sp_draft_lengths[SP_DRAFT_LENGTHS]; /* that are compared, ascending from 1 */

struct sp_draft_type {
    enum sp_dtype type;
    bool stored;   /* the draft as it is in the file */
    uint64_t size; /* bytes of the draft */
    size_t n_rounds, n_tokens, drafted, accepted;
    double first; /* how often the first draft token of a round was accepted */
    size_t n_lengths;
    double tokens[SP_DRAFT_LENGTHS];      /* per round, by draft length */
    double cost[SP_DRAFT_LENGTHS], plain; /* of a round; of a pass without drafting */
    double draft_cost[SP_DRAFT_LENGTHS];  /* of a round's drafting */
    size_t best;                          /* index of the fastest draft length */
    double speed_up;                      /* at that length; below 1: slower */
};

struct sp_draft_types_request {
    const char *path;                 /* the packed file */
    const struct sp_eval_text *texts; /* [n_texts] */
    size_t n_texts, n_places, n_predict;
    const struct sp_backend_opts *backend;
    const char *calibration; /* of the draft, for its types of few bits; NULL: none */
    /* Costs are in seconds; otherwise in bytes, for at most 8 draft tokens: passes of more rows are
     * no longer bound by the memory. */
    bool is_timed;
};

/* Reads "q2,q3" into types[SP_DRAFT_TYPES_MAX]. SP_E_USAGE names what is no type or comes twice. */
SP_MUST_CHECK enum sp_status sp_draft_types_parse(enum sp_dtype *types, size_t *n, const char *text,
                                                  struct sp_err *err);

/* *stored = the type of most of the weights in the draft's layers; NONE: the file has no draft. */
SP_MUST_CHECK enum sp_status sp_draft_types_stored(enum sp_dtype *stored, const char *path,
                                                   struct sp_err *err);

/* SP_E_USAGE: the file has no draft, or it is stored in a type of fewer bits than one of these. */
SP_MUST_CHECK enum sp_status sp_draft_types_check(const enum sp_dtype *types, size_t n,
                                                  const char *path, struct sp_err *err);

/* Measures n types, which were checked, to out[n], with one progress bar. */
SP_MUST_CHECK enum sp_status sp_draft_types_measure(struct sp_draft_type *out,
                                                    const enum sp_dtype *types, size_t n,
                                                    const struct sp_draft_types_request *request,
                                                    struct sp_err *err);

/* Gives n timed types of one file the same costs of the target's passes, the medians over the
 * types, and chooses their draft lengths again. */
void sp_draft_types_settle(struct sp_draft_type *types, size_t n);

/* The index of the fastest of n types; of equally fast ones the smallest. */
size_t sp_draft_types_fastest(const struct sp_draft_type *types, size_t n);

/* Prints a row for each of n types, at least one, and the cost that they share, that of a pass
 * without drafting; costs in milliseconds, or in megabytes. */
SP_MUST_CHECK enum sp_status sp_draft_types_print(FILE *out, const struct sp_draft_type *types,
                                                  size_t n, bool is_timed, struct sp_err *err);
/* Prints "SUBJECT q4: " and the figures of the type at its best draft length. */
void sp_draft_type_print_choice(FILE *out, const char *subject, const struct sp_draft_type *type);
/* Writes the member "draft_types" of timed types. */
void sp_draft_types_to_json(struct sp_json_out *out, const struct sp_draft_type *types, size_t n);

#endif
