/* The one function of the module that speaks MPI. The program loads the module only if mpirun
 * started it, so it needs no MPI library otherwise. */
#ifndef SP_RUNTIME_RANKS_MPI_MODULE_H
#define SP_RUNTIME_RANKS_MPI_MODULE_H

#include "runtime/ranks/transport.h"

/* Joins the other processes of the job. ops->close leaves it, on every rank; on rank 0 it first
 * ends the other ranks. NULL: why is in text. Once per process. */
typedef struct sp_transport *sp_mpi_join_fn(char *text, size_t size);
#define SP_MPI_JOIN "sp_mpi_join"

SP_API sp_mpi_join_fn sp_mpi_join;

#endif
