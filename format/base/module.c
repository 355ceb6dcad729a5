#include "format/base/module.h"

#include <dlfcn.h>
#include <stddef.h>

enum sp_status sp_module_find(void **function, const char *module, const char *name,
                              const char *what, struct sp_err *err)
{
    void *loaded, *found;

    if (dlopen(NULL, RTLD_NOW) == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "the module for %s cannot be loaded by a static program, only by a dynamic "
                       "one, such as that of the Debian package",
                       what);
    /* MPI libraries load further modules, which use the symbols of this one. */
    loaded = dlopen(module, RTLD_NOW | RTLD_GLOBAL);
    if (loaded == NULL || (found = dlsym(loaded, name)) == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "the module for %s is missing: %s", what, dlerror());
    *function = found;
    return SP_OK;
}
