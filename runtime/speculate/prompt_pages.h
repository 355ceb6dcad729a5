/* A sequence's pages in the prompt cache: what each SP_SPAN of its tokens left in the caches of a
 * decoder, and of a drafter that follows it.
 *
 * The name of a page is a digest of the name of the page before it and of its tokens; the first one
 * hangs on a digest of the packed file, the adapter, the type of the caches and the program. So the
 * pages of a prompt are found one after the other, as far as any earlier prompt was the same. A
 * page also has all tokens up to its end, which are compared: a digest that two texts share leads
 * to no wrong token. Recurrent states, which may be much larger than what a page holds, are files
 * of their own at the ends of some pages; without one nothing continues there. */
#ifndef SP_RUNTIME_SPECULATE_PROMPT_PAGES_H
#define SP_RUNTIME_SPECULATE_PROMPT_PAGES_H

#include "runtime/backend/prompt_cache.h"
#include "runtime/speculate/drafter.h"

struct sp_prompt_pages; /* opaque */

/* Pages of a decoder and of a drafter that has what it knows of the tokens in the same pages (NULL:
 * none); identity: of the packed file and of the model in it. The scheduler is held by the callers
 * of restore and keep. All is borrowed until close. */
SP_MUST_CHECK enum sp_status sp_prompt_pages_open(struct sp_prompt_pages **out,
                                                  const struct sp_sequence_setup *setup,
                                                  struct sp_decoder *decoder,
                                                  struct sp_drafter *drafter, uint64_t identity,
                                                  struct sp_err *err);
void sp_prompt_pages_close(struct sp_prompt_pages *pages); /* NULL is fine */

/* Begins a sequence with the prompt ids[0..n-1], n >= 1, of which the caches hold the first
 * n_cached tokens. Reads what the prompt cache has of the others but the last, unless computing is
 * faster. Returns the number of tokens that the caches hold then, which is smaller if a page was
 * damaged. The caches have memory for all tokens. row_seconds: to compute a row of many; 0: not
 * known. */
size_t sp_prompt_pages_restore(struct sp_prompt_pages *pages, const uint32_t *ids, size_t n_cached,
                               size_t n, double row_seconds);

/* Before a pass of the prompt at position n_cached: claims the page that the sequence computes.
 * False: another sequence of the process computes the next page, and was waited for a while, or
 * pages have come since; call restore, and this again. The scheduler is released while it waits. */
bool sp_prompt_pages_claim(struct sp_prompt_pages *pages, size_t n_cached);
/* Ends the claim, after the prompt or where it fails. */
void sp_prompt_pages_unclaim(struct sp_prompt_pages *pages);

/* At most `most` rows for a pass at position pos, so that it ends at the end of a page. */
size_t sp_prompt_pages_rows(const struct sp_prompt_pages *pages, size_t pos, size_t most);

/* Writes those pages of ids[0..n_cached-1] that the prompt cache lacks, and a recurrent state if
 * one is due here. The logits of the last pass are lost. */
void sp_prompt_pages_keep(struct sp_prompt_pages *pages, const uint32_t *ids, size_t n_cached);

#endif
