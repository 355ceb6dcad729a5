/* A command in the processes that mpirun started. */
#ifndef SP_CLI_MPI_JOB_H
#define SP_CLI_MPI_JOB_H

#include "cli/base/opt.h"
#include "runtime/spectool.h"

/* Joins the job if the environment says that mpirun (Open MPI, MPICH, or srun with PMIx) started
 * this process. *out is NULL if it did not, or if the process is the only one. SP_E_UNSUPPORTED:
 * the command does not run in several processes. */
SP_MUST_CHECK enum sp_status sp_mpi_job_join(struct sp_rank_group **out,
                                             const struct sp_command *command, struct sp_err *err);

/* True if this is rank 0 of a job, or no job: only it reports what all processes find out. */
bool sp_mpi_job_is_first(void);

#endif
