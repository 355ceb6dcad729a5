/* Processes that mpirun started as one job: rank 0 opens packages, the others compute for it. */
#ifndef SP_RUNTIME_SESSION_RANK_GROUP_H
#define SP_RUNTIME_SESSION_RANK_GROUP_H

#include "format/packfile.h"
#include "runtime/backend/remote_products.h"
#include "runtime/spectool.h"

/* Rank 0. Has all other ranks open the same file, and compares versions and contents. The group
 * computes for one package at a time: SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_rank_group_open(struct sp_rank_group *group,
                                                const struct sp_pack *pack,
                                                const struct sp_package_options *options,
                                                struct sp_ranks **out, struct sp_err *err);

/* Threads of this process if the number is not given: the processors that mpirun bound it to, or a
 * share of the machine's. */
unsigned sp_rank_group_threads(const struct sp_rank_group *group);

#endif
