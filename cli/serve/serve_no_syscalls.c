/* The server without libseccomp. */
#include "cli/serve/serve_start.h"

bool sp_serve_syscalls_can_be_filtered(void)
{
    return false;
}

enum sp_status sp_serve_syscalls_filter(struct sp_err *err)
{
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "spectool was built without libseccomp, which filters system calls");
}
