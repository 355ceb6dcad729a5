/* The pages of a packed file that a rank reads: those of its part of the weights.
 *
 * When a page is missing, the system reads megabytes around it, and in these are rows of other
 * ranks: a rank would have nearly the whole file of a small model in memory. So what a rank is
 * about to read is prefetched, the first time and without anything else. */
#ifndef SP_RUNTIME_REMOTE_WEIGHT_PAGES_H
#define SP_RUNTIME_REMOTE_WEIGHT_PAGES_H

#include "format/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct sp_weight_pages; /* opaque */

/* file: the mapped bytes, borrowed until close. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_weight_pages_open(struct sp_weight_pages **out, const uint8_t *file,
                                                  uint64_t size, struct sp_err *err);
void sp_weight_pages_close(struct sp_weight_pages *pages); /* NULL is fine */

/* Prefetches weights, unless all their pages were prefetched before, or they are not in the file.
 * Any thread may call it. NULL: does nothing. */
void sp_weight_pages_need(struct sp_weight_pages *pages, const uint8_t *weights, size_t size);

#endif
