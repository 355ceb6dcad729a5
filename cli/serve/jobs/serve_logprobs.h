/* Tokens of an answer with their log-probabilities. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_LOGPROBS_H
#define SP_CLI_SERVE_JOBS_SERVE_LOGPROBS_H

#include "runtime/spectool.h"

struct sp_serve_response;

/* A token and its log-probability; NAN: it has none, as the first token of a prompt. */
struct sp_serve_alternative {
    uint32_t id;
    float logprob;
};

struct sp_serve_logprob {
    struct sp_serve_alternative chosen;
    char *bytes; /* [size] bytes of the chosen token; owned */
    size_t size;
    size_t at;                        /* offset of the token in the answer, in bytes */
    struct sp_serve_alternative *top; /* [n_top] alternatives; owned */
    size_t n_top;
};
void sp_serve_logprob_release(struct sp_serve_logprob *token);

/* *bytes = the bytes that a token adds to a text, owned by the caller. They are not valid UTF-8 if
 * the token is a part of a character. */
SP_MUST_CHECK enum sp_status sp_serve_logprob_bytes(char **bytes, size_t *size,
                                                    const struct sp_package *package, uint32_t id);
SP_MUST_CHECK enum sp_status sp_serve_logprob_read(struct sp_serve_logprob *out,
                                                   const struct sp_package *package,
                                                   const struct sp_token *token);

/* Writes n tokens of an answer with their alternatives as an array, as OpenAI's chats and ollama
 * have them. */
void sp_serve_logprobs_write(struct sp_serve_response *response, const char *key,
                             const struct sp_serve_logprob *tokens, size_t n);

#endif
