/* The record of answers that `spectool replay` computes again: a JSON object a line, with all that
 * the ids of an answer depend on, and no text. */
#ifndef SP_CLI_CHAT_RECORD_H
#define SP_CLI_CHAT_RECORD_H

#include "runtime/spectool.h"

struct sp_record;

/* Opens a file to append answers to, or makes it, readable by its owner alone. Refuses a regular
 * file that begins with anything else than an answer. */
SP_MUST_CHECK enum sp_status sp_record_open(struct sp_record **out, const char *path,
                                            struct sp_err *err);
void sp_record_close(struct sp_record *record); /* NULL is fine */

/* An answer and what it was computed with; all borrowed. */
struct sp_recorded {
    uint64_t identity;   /* of the packed file */
    const char *kv_type; /* NULL: the default one */
    const struct sp_session *session;
    const struct sp_request *request; /* its `digest` was set */
    const struct sp_result *result;
};

/* Appends an answer, unless it was cancelled. record NULL: does nothing. [any thread] */
SP_MUST_CHECK enum sp_status sp_record_answer(struct sp_record *record,
                                              const struct sp_recorded *answer, struct sp_err *err);

/* A line that was read. The owner calls sp_record_line_release. */
struct sp_record_line {
    uint64_t identity, adapter, digest; /* adapter: of it and its scale; 0: none */
    float lora_scale;
    const char *kv_type;
    int64_t n_context;      /* of the session; rotary embeddings of some models depend on it */
    uint32_t *prompt, *ids; /* [n_prompt], [n_ids] owned */
    size_t n_prompt, n_ids;
    bool logits_only; /* the ids depend on more than the line says */
    struct sp_sampling sampling;
    void *biases, *breakers; /* of `sampling`; owned */
    struct sp_json *root;    /* from which the breakers are borrowed; owned */
};

SP_MUST_CHECK enum sp_status sp_record_line_read(struct sp_record_line *out, const char *text,
                                                 size_t size, struct sp_err *err);
void sp_record_line_release(struct sp_record_line *line);

#endif
