/* The ranks of a package: processes that this one starts, or that mpirun started as one job, in
 * which rank 0 opens packages and the others compute for it (sp_rank_group of spectool.h). */
#ifndef SP_RUNTIME_REMOTE_RANK_GROUP_H
#define SP_RUNTIME_REMOTE_RANK_GROUP_H

#include "format/packfile.h"
#include "runtime/remote/ranks.h"
#include "runtime/spectool.h"

/* Rank 0. Has the ranks that the options ask for open the same file, before this process has
 * threads of its own, and binds this thread to its part of the machine. *out: NULL if there are no
 * other ranks. A group compares versions and contents, and computes for one package at a time:
 * SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_ranks_open(struct sp_ranks **out, const struct sp_pack *pack,
                                           const struct sp_package_options *options,
                                           struct sp_err *err);

/* Threads of a rank; 0: all cores. If the number is not given, these are the processors that mpirun
 * bound the process to, or a share of the machine's. */
unsigned sp_ranks_threads(const struct sp_package_options *options, unsigned rank);

#endif
