/* DRY ("don't repeat yourself"), the penalty against repeated sequences that p-e-w published with
 * text-generation-webui (pull request 5677), with the breakers of several tokens of llama.cpp.
 *
 * If the last n tokens occurred before, the token that followed them then is penalized by
 * multiplier * base ^ (n - allowed length), where n is the longest such match and at least the
 * allowed length. No match extends over a breaker, and a token that is one is not penalized. */
#ifndef SP_RUNTIME_SAMPLING_DRY_H
#define SP_RUNTIME_SAMPLING_DRY_H

#include "format/base/err.h"
#include "runtime/spectool.h"

#include <stddef.h>
#include <stdint.h>

struct sp_history;

/* The token sequences that write a breaker, of the whole vocabulary. Immutable. */
struct sp_dry_breakers;

/* Finds the sequences of the breakers of `sampling`. *out = NULL: DRY is off, or there is no
 * breaker. SP_E_USAGE: a text is empty, too long or not valid UTF-8, or no tokenizer is given. */
SP_MUST_CHECK enum sp_status sp_dry_breakers_open(struct sp_dry_breakers **out,
                                                  const struct sp_sampling *sampling,
                                                  size_t n_vocab, struct sp_err *err);
void sp_dry_breakers_close(struct sp_dry_breakers *breakers); /* NULL is fine */

/* Buffers; valid when zeroed. The owner calls sp_dry_scratch_release. */
struct sp_dry_scratch {
    uint32_t *recent;  /* [window] the newest token first */
    uint32_t *matches; /* [window] length of the match that ends i tokens before the newest */
    uint32_t *longest; /* [n_vocab] 1 + the longest match before each token; 0: none */
    size_t cap_recent, cap_matches, cap_longest;
};
void sp_dry_scratch_release(struct sp_dry_scratch *scratch);

/* True if the option is on and its window is not empty. */
bool sp_dry_is_on(const struct sp_sampling *sampling);

/* Penalizes the logits after a history, of which the last dry_penalty_last_n tokens count. */
SP_MUST_CHECK enum sp_status sp_dry_penalize(struct sp_dry_scratch *scratch, float *logits,
                                             size_t n_vocab, const struct sp_sampling *sampling,
                                             const struct sp_history *history, struct sp_err *err);

#endif
