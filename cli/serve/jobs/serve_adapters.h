/* The LoRA adapters that the command line of the server names, NAME=PATH each. A request that names
 * an adapter is answered by the one model that the server then has, with the adapter. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_ADAPTERS_H
#define SP_CLI_SERVE_JOBS_SERVE_ADAPTERS_H

#include "cli/base/opt.h"

/* Valid when zeroed. */
struct sp_serve_adapters {
    char **names;       /* [n]; owned */
    const char **paths; /* [n]; the array is owned, the strings are borrowed from the list */
    size_t n;
};

/* Reads the values of --adapter. SP_E_USAGE: a value has another form, a name is not unique. */
SP_MUST_CHECK enum sp_status sp_serve_adapters_read(struct sp_serve_adapters *out,
                                                    const struct sp_opt_list *list,
                                                    struct sp_err *err);
void sp_serve_adapters_release(struct sp_serve_adapters *adapters);

#endif
