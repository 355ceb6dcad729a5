/* What packages and sessions are inside; shared by package.c, session.c, generate.c,
 * evaluation.c and trial.c. */
#ifndef SP_RUNTIME_SESSION_SESSION_H
#define SP_RUNTIME_SESSION_SESSION_H

#include "format/packfile.h"
#include "runtime/grammar/constraint.h"
#include "runtime/speculate/round.h"
#include "runtime/spectool.h"
#include "runtime/speculate/speculate.h"
#include "runtime/tokenizer/tokenizer.h"

struct sp_package {
    struct sp_pack *pack; /* owned, as everything here */
    uint8_t *copy;        /* what the pack reads, if it is not mapped; NULL: it is */
    struct sp_backend backend;
    struct sp_scheduler *scheduler;
    struct sp_model *target;
    struct sp_model *draft;         /* NULL: none */
    char both[32];                  /* "lookup and" its kind */
    struct sp_tokenizer *tokenizer; /* NULL: none */
    char *tokenizer_map;            /* what the tokenizer reads, if it is not mapped */
    struct sp_token_trie *trie;     /* of the tokenizer; NULL: not made yet */
    uint32_t eos[SP_EOS_MAX];
    size_t n_eos;
};

/* Rows of a prompt pass, unless experts want more: weights are read once for all of them. */
enum { SP_PROMPT_ROWS = 128 };

/* Is a lookup asked for guesses? */
bool sp_package_looks_up(const struct sp_package *package, enum sp_draft_by by);

/* Most guesses of a round. */
size_t sp_session_max_depth(const struct sp_session *session);

enum sp_kv_type sp_kv_type_of(enum sp_cache_type cache);

struct sp_session {
    struct sp_package *package; /* borrowed */
    struct sp_session_options options;
    struct sp_speculator *speculator;
    struct sp_draft_mix mix; /* what earlier answers taught */
    float *scratch;          /* [n_vocab rounded up], for probabilities; owned */
    bool is_running;         /* its thread generates, or is in a callback of that */
};

/* What the target's tokens spell, made when it is first asked for. SP_E_UNSUPPORTED: the file has
 * no tokenizer. */
SP_MUST_CHECK enum sp_status sp_package_trie(struct sp_package *package,
                                             const struct sp_token_trie **out, struct sp_err *err);

/* Each id in the target's vocabulary, or SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_package_check_ids(const struct sp_package *package,
                                                  const uint32_t *ids, size_t n,
                                                  struct sp_err *err);

/* 1..context ids, each in the vocabulary, or SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_session_check_ids(const struct sp_session *session,
                                                  const uint32_t *ids, size_t n,
                                                  struct sp_err *err);

#endif
