/* The statistics of drafting with a packed file on this machine, in the user's cache folder: a run
 * begins with what earlier runs learned. They change no text. Failures are ignored: the run then
 * learns everything itself. */
#ifndef SP_CLI_DRAFTING_CACHE_H
#define SP_CLI_DRAFTING_CACHE_H

#include "runtime/spectool.h"

/* Begins with the statistics of earlier runs with the same file, machine, kernels and numbers of
 * threads and ranks. One run in eight tries to draft even if it did not pay in the last one. */
void sp_drafting_cache_load(struct sp_package *package);

/* Keeps what this run learned. */
void sp_drafting_cache_save(const struct sp_package *package);

#endif
