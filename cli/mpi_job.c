#include "cli/mpi_job.h"

#include <stdlib.h>
#include <string.h>

static bool is_started_by_mpi(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL) continue;
        /* The first two are numbers of processes. */
        if (i == 2 || strcmp(value, "1") != 0) return true;
    }
    return false;
}

bool sp_mpi_job_is_first(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) return strcmp(value, "0") == 0;
    }
    return true;
}

enum sp_status sp_mpi_job_join(struct sp_rank_group **out, const struct sp_command *command,
                               struct sp_err *err)
{
    struct sp_rank_group *group = NULL;
    enum sp_status st;

    *out = NULL;
    if (!is_started_by_mpi()) return SP_OK;
    if (command->group_offset == 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "one process is enough: mpirun started several");
    if ((st = sp_rank_group_join(&group, "spectool-mpi.so", err))) return st;
    if (sp_rank_group_size(group) > 1)
        *out = group;
    else
        sp_rank_group_leave(group);
    return SP_OK;
}
