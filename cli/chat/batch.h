/* run --batch: reads a prompt or a request per line from standard input and writes an answer per
 * line, in the same order. Several answers are generated at once, in batched passes. */
#ifndef SP_CLI_CHAT_BATCH_H
#define SP_CLI_CHAT_BATCH_H

#include "cli/chat/loaded_model.h"
#include "cli/chat/session_pool.h"

/* Answers the lines that are requests of an API. */
struct sp_batch_api {
    /* Writes the answer to a line of this number, with its line end. A failure that concerns only
     * the line is written too, and returned with its sentence; SP_E_CANCELLED: a signal interrupted
     * the answer, and nothing was written. [any thread] */
    enum sp_status (*answer)(void *context, FILE *out, size_t number, const struct sp_json *line,
                             struct sp_err *err);
    void *context;
};

struct sp_batch_options {
    struct sp_session_pool *sessions; /* [n_sessions] borrowed */
    size_t n_sessions;
    struct sp_batch_api api;
    /* file for the answers, of which those that it has are kept; borrowed; NULL: standard output */
    const char *output;
    bool quiet; /* no note about kept answers */
    /* Which lines of a file are answered: part 1..n_parts of equal numbers of lines; 0: all. */
    size_t part, n_parts;
};

/* Runs the batch. A line that cannot be answered gets an error in its place. SP_E_NOMEM: at least
 * one line failed for lack of memory; SP_E_CHECK: some lines failed; SP_E_CANCELLED: a signal was
 * caught, and the completed answers were written. */
SP_MUST_CHECK enum sp_status sp_batch(struct sp_loaded_model *model,
                                      const struct sp_batch_options *options, struct sp_err *err);

#endif
