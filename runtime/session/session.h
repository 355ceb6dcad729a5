/* The structs behind the public handles, for this folder and runtime/measure. */
#ifndef SP_RUNTIME_SESSION_SESSION_H
#define SP_RUNTIME_SESSION_SESSION_H

#include "format/json/json.h"
#include "format/modelfile/modelfile.h"
#include "format/packfile.h"
#include "runtime/backend/cache_budget.h"
#include "runtime/grammar/constraint.h"
#include "runtime/remote/ranks.h"
#include "runtime/spectool.h"
#include "runtime/speculate/speculate.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/vector/vector.h"

/* What a packed file states about its answers, ready to be applied. */

/* The struct of which callers see the first member. */
struct sp_answer_settings {
    struct sp_file_settings stated; /* its arrays are those below */
    struct sp_text records;         /* the Modelfile; owned, like all members */
    struct sp_modelfile file;
    struct sp_file_setting *settings; /* those of generation_config.json last */
    size_t n_records;                 /* of the settings, PARAMETER records */
    struct sp_chat_message *messages;
    struct sp_sampling sampling;
    const char **stops, **breakers; /* [n_stops], [sampling.n_dry_breakers] */
    size_t n_stops;
    int64_t seed, n_predict, n_context, draft_len, reasoning_budget; /* -1: not stated */
};

/* Filters the text of an answer on its way to the caller. Text that may be the beginning of a stop
 * text is held back until it cannot be one. The rest goes to the result and the callbacks in order,
 * in runs that the draft wrote or did not, with the requested special tokens in place. */

/* A special token after this many bytes of the text held back. */
struct sp_stop_filter_special {
    size_t at;
    uint32_t id;
};

/* Valid when zeroed except for the first two members. */
struct sp_stop_filter {
    const struct sp_request *request; /* stop texts and callbacks; borrowed */
    struct sp_result *result;         /* its text grows; borrowed */
    char *text;                       /* [size] text held back, owned */
    char *drafted;                    /* [size] nonzero: drafted; owned */
    size_t size, cap, cap_drafted, cap_result;
    struct sp_stop_filter_special *specials; /* [n_specials] in order, owned */
    size_t n_specials, cap_specials;
    bool is_stopped;       /* a stop text was found: further text is dropped */
    bool is_cancelled;     /* a callback cancelled: none is called again */
    struct sp_err failure; /* of the request's reader */
};
void sp_stop_filter_release(struct sp_stop_filter *filter);

/* Adds text of whole characters and passes on what cannot be part of a stop text. */
SP_MUST_CHECK enum sp_status sp_stop_filter_add(struct sp_stop_filter *filter, const char *text,
                                                size_t size, bool drafted, struct sp_err *err);
/* Records a special token at this place of the text. */
SP_MUST_CHECK enum sp_status sp_stop_filter_add_special(struct sp_stop_filter *filter, uint32_t id,
                                                        struct sp_err *err);
/* Adds the last text, which is part of no stop text, and passes on everything held back. The
 * result's text is not NULL afterwards. */
SP_MUST_CHECK enum sp_status sp_stop_filter_end(struct sp_stop_filter *filter, const char *text,
                                                size_t size, struct sp_err *err);

/* ---- a limit of reasoning (reasoning_limit.c) ----
 *
 * Limits the tokens of an answer's reasoning: after so many, a chooser writes the closing tag of
 * the reasoning, whatever the model would choose. Where the tag is written depends on the answer's
 * tokens alone. Draft and target are limited alike, so a round of speculation emits what plain
 * steps would emit. */

struct sp_reasoning_limiter; /* opaque */

/* Pointers are borrowed until sp_reasoning_limiter_close unless stated otherwise. */
struct sp_reasoning_limiter_options {
    struct sp_reasoning_limit limit; /* the tags are borrowed */
    const struct sp_tokenizer *tokenizer;
    const struct sp_token_trie *trie; /* of the tokenizer */
    size_t start;                     /* position of the answer's first token */
    struct sp_chooser inner;          /* chooses all other tokens */
};

SP_MUST_CHECK enum sp_status
sp_reasoning_limiter_open(struct sp_reasoning_limiter **out,
                          const struct sp_reasoning_limiter_options *options, struct sp_err *err);
void sp_reasoning_limiter_close(struct sp_reasoning_limiter *limiter); /* NULL is fine */

/* The chooser of one sequence. */
struct sp_chooser sp_reasoning_limiter_chooser(struct sp_reasoning_limiter *limiter);

/* ---- results ---- */

/* Counts a round of the answer. */
void sp_result_count_round(struct sp_result *result, const struct sp_round *round);

/* Sets token->logprob, by the raw softmax of a row of logits, and token->top to the n_top most
 * likely tokens, best first, ties by lower id, stored in top[n_top]. scratch: [n] floats. */
void sp_logprobs_fill(struct sp_token *token, struct sp_logprob *top, unsigned n_top,
                      float *scratch, const struct sp_vector *vector, const float *logits,
                      size_t n);

struct sp_package {
    struct sp_pack *pack;   /* owned, like all members */
    uint8_t *copy;          /* the bytes of the file if they were read into memory; NULL: mapped */
    struct sp_ranks *ranks; /* that compute with this process; NULL: none */
    struct sp_backend backend;
    struct sp_scheduler *scheduler;
    struct sp_cache_budget own_budget; /* used unless packages share one */
    struct sp_cache_budget *caches;    /* of all sessions; borrowed */
    size_t mapped;                     /* bytes of the weights that were added to caches->mapped */
    struct sp_model *target;
    struct sp_model *draft;                 /* NULL: none */
    struct sp_drafting_controller drafting; /* what its sessions learn of the draft */
    char both[32];                          /* name of "lookup and" the draft's kind */
    double row_seconds; /* of one of many rows of a prompt; 0: not known; the scheduler's */
    struct sp_tokenizer *tokenizer; /* NULL: none */
    struct sp_token_trie *trie;     /* of the tokenizer; NULL: not built yet */
    struct sp_sampler *sampler;     /* of the target's tokens; NULL: nothing was sampled yet */
    uint32_t eos[SP_EOS_MAX];
    size_t n_eos;
    struct sp_json *pooling; /* the pooling section; NULL: none */
    /* Locks, without passes: of the one group of texts that is computed; and of requests of more
     * than a group, which hold it before, so that only one of them is in the queue of the first. */
    struct sp_scheduler *embedding, *long_embedding;
};

/* Rows of a prompt pass, unless experts need more: weights are read once for all of them. */
enum { SP_PROMPT_ROWS = 128 };

/* Products that the draft computes for a prompt's row, divided by the target's; 0: no draft. */
double sp_package_draft_size(const struct sp_package *package);

/* The most draft tokens of a round. */
size_t sp_session_max_draft_len(const struct sp_session *session);

struct sp_session {
    struct sp_package *package; /* borrowed */
    struct sp_session_options options;
    struct sp_speculator *speculator;
    struct sp_draft_mix mix; /* draft lengths */
    float *scratch;          /* [n_vocab rounded up], for probabilities; owned */
    bool is_running;         /* true while its thread generates or is in a callback */
};

/* Returns the trie of the bytes of the target's tokens, built at the first call. SP_E_UNSUPPORTED:
 * the file has no tokenizer. */
SP_MUST_CHECK enum sp_status sp_package_trie(struct sp_package *package,
                                             const struct sp_token_trie **out, struct sp_err *err);

/* Reads the pooling section of the file, if there is one. */
SP_MUST_CHECK enum sp_status sp_package_open_pooling(struct sp_package *package,
                                                     struct sp_err *err);
/* The pooling that the file states, and the longest text to embed. */
enum sp_pooling sp_package_pooling(const struct sp_package *package);
size_t sp_package_max_embedding_tokens(const struct sp_package *package);

/* Fails with SP_E_UNSUPPORTED if the model embeds texts only. */
SP_MUST_CHECK enum sp_status sp_package_check_generates(const struct sp_package *package,
                                                        struct sp_err *err);

/* Checks that every id is in the target's vocabulary; SP_E_USAGE if not. */
SP_MUST_CHECK enum sp_status sp_package_check_vocabulary(const struct sp_package *package,
                                                         const uint32_t *ids, size_t n,
                                                         struct sp_err *err);

/* Checks that the model generates and every id is in its vocabulary. */
SP_MUST_CHECK enum sp_status sp_package_check_ids(const struct sp_package *package,
                                                  const uint32_t *ids, size_t n,
                                                  struct sp_err *err);

/* Checks that there are 1..context ids, all in the vocabulary; SP_E_USAGE if not. */
SP_MUST_CHECK enum sp_status sp_session_check_ids(const struct sp_session *session,
                                                  const uint32_t *ids, size_t n,
                                                  struct sp_err *err);

#endif
