/* run --batch: reads a prompt or a request per line from standard input and writes an answer per
 * line, in the same order. Several answers are generated at once, in batched passes. */
#ifndef SP_CLI_SERVE_BATCH_H
#define SP_CLI_SERVE_BATCH_H

#include "cli/serve/jobs/serve.h"

struct sp_batch_options {
    size_t n_sessions;   /* answers at a time */
    const char *refused; /* option that the APIs do not have, so that their requests are refused;
                          * borrowed; NULL: none */
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
 * A line is a prompt with its settings, or a request of OpenAI's or Anthropic's API, which is
 * answered as the server answers it. Both are jobs of the server's queue.
 *
 * OpenAI: {"custom_id", "method", "url", "body"} becomes {"id", "custom_id", "response": {
 * "status_code", "request_id", "body"}, "error"}. https://platform.openai.com/docs/guides/batch
 * Anthropic: {"custom_id", "params"} becomes {"custom_id", "result": {"type", ...}}.
 * https://docs.anthropic.com/en/api/creating-message-batches */

struct sp_batch_line {
    size_t number, size;   /* size: of its text, in bytes */
    struct sp_json *json;  /* owned; NULL: it is not valid JSON */
    const char *custom_id; /* borrowed from `json`; NULL: none */
    bool is_openai, is_anthropic;
    struct sp_err err;       /* why it is not a job */
    struct sp_serve_job job; /* owned */
    struct sp_batch_line *next;
};

/* Sets `json` and `custom_id` of a zeroed line. They may be set after a failure, too. */
SP_MUST_CHECK enum sp_status sp_batch_line_parse(struct sp_batch_line *line, const char *text,
                                                 size_t size, struct sp_err *err);

struct sp_batch_server {
    struct sp_serve serve; /* whose queue has the jobs */
    struct sp_serve_model model;
    struct sp_session_pool *sessions;
    pthread_mutex_t template_locks[2];
    pthread_t *threads; /* [n_threads] that generate */
    size_t n_threads;
    uint64_t began_at;   /* wall clock, seconds; part of the ids */
    const char *refused; /* borrowed; NULL: none */
};

/* Parses a line and puts its job into the queue. A failure is kept for its answer. */
void sp_batch_line_begin(struct sp_batch_server *server, struct sp_batch_line *line,
                         const char *text, size_t size);
/* Waits for the answer and writes it, with its line end. A failure that concerns only the line is
 * written too, and returned with its sentence. SP_E_CANCELLED: a signal interrupted the answer, and
 * nothing was written. */
SP_MUST_CHECK enum sp_status sp_batch_line_end(struct sp_json_out *out,
                                               struct sp_batch_server *server,
                                               struct sp_batch_line *line, struct sp_err *err);
/* Removes the job from the queue, and releases the line. */
void sp_batch_line_free(struct sp_batch_server *server, struct sp_batch_line *line);

/* True for a failure that concerns a line only, so that the other lines are still answered. */
bool sp_batch_is_line_error(enum sp_status st);

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
