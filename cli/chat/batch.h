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

/* ---- lines (batch_line.c) ----
 *
 * A line of a batch: a request and its settings. */

struct sp_batch_line {
    struct sp_json *json;            /* the line as JSON, from which strings are borrowed; owned */
    const char *custom_id;           /* identifier given by the user; NULL: none */
    struct sp_settings settings;     /* owned */
    struct sp_grammar *grammar;      /* the line's own grammar; owned; NULL: none */
    struct sp_ids ids;               /* token ids of the prompt; owned */
    struct sp_chat_prompt *rendered; /* the prompt as rendered; owned; NULL: without a template */
};
void sp_batch_line_release(struct sp_batch_line *line);

/* Parses a line. The caller releases *out, also on failure; it may then have its custom_id. */
SP_MUST_CHECK enum sp_status sp_batch_line_parse(struct sp_batch_line *out, const char *text,
                                                 size_t size, struct sp_err *err);
/* True if the parsed line is a request of OpenAI's or Anthropic's API. */
bool sp_batch_line_is_request(const struct sp_batch_line *line);
/* Reads everything of a parsed line except the prompt. */
SP_MUST_CHECK enum sp_status sp_batch_line_read(struct sp_batch_line *line,
                                                const struct sp_loaded_model *model,
                                                struct sp_err *err);

/* Renders the line's prompt with the conversation of `model`, which stays unchanged; only one
 * thread may call it at a time. *out = `model` with the line's settings, for its answer; it
 * borrows from both. */
SP_MUST_CHECK enum sp_status sp_batch_line_request(struct sp_loaded_model *out,
                                                   struct sp_batch_line *line,
                                                   struct sp_loaded_model *model,
                                                   struct sp_err *err);

/* ---- the output (batch_output.c) ----
 *
 * The output of a batch: standard output, or a file, in which the answers of an interrupted batch
 * are kept.
 *
 * Answers are written in the order of their lines, so the number of whole lines in the file is the
 * number of lines that need no answer any more. */

/* Valid when zeroed. */
struct sp_batch_output {
    FILE *file;       /* owned unless it is standard output */
    const char *path; /* borrowed; NULL: standard output */
    char **kept;      /* [n_kept] custom_id of each kept answer, NULL: none; owned */
    size_t n_kept, cap_kept;
    size_t n_kept_failures; /* kept answers that are errors */
    off_t size;             /* of the kept answers, in bytes */
    bool has_tail;          /* a line without an end follows them */
};

/* Opens the file, or standard output if `path` is NULL, and locks the file against other batches:
 * SP_E_IO if one writes it. A file that has other lines than answers of a batch is refused with
 * SP_E_INPUT. Opening changes nothing in the file. The caller closes it also on failure. */
SP_MUST_CHECK enum sp_status sp_batch_output_open(struct sp_batch_output *out, const char *path,
                                                  struct sp_err *err);

/* Checks that the kept answer index < n_kept is one to the line with this custom_id or NULL. */
SP_MUST_CHECK enum sp_status sp_batch_output_match(const struct sp_batch_output *output,
                                                   size_t index, const char *custom_id,
                                                   struct sp_err *err);

/* Drops a last line without an end. To be called before the first new answer is written. */
SP_MUST_CHECK enum sp_status sp_batch_output_drop_tail(struct sp_batch_output *output,
                                                       struct sp_err *err);

/* Flushes the answers that were written. */
SP_MUST_CHECK enum sp_status sp_batch_output_flush(struct sp_batch_output *output,
                                                   struct sp_err *err);
void sp_batch_output_close(struct sp_batch_output *output);

#endif
