/* How near two names are, for "did you mean". */
#ifndef SP_FORMAT_BASE_SPELLING_H
#define SP_FORMAT_BASE_SPELLING_H

#include <stddef.h>

enum { SP_NEAR = 2 }; /* most changes of a misspelling */

/* Returns the number of insertions, deletions, replacements and swaps of neighbors that turn a
 * into b. */
size_t sp_edit_distance(const char *a, const char *b);
/* Returns the name that `name` is probably a misspelling of; NULL: none is near, or all letters of
 * a short name would change. `best` is the
 * nearest one so far, or NULL; `candidate` is compared with it. */
const char *sp_nearer(const char *best, const char *candidate, const char *name);

#endif
