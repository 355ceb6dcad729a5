/* Modules: shared objects that the program loads when it needs them, because few users do. */
#ifndef SP_FORMAT_BASE_MODULE_H
#define SP_FORMAT_BASE_MODULE_H

#include "format/base/err.h"

/* Loads a module, found as dlopen(3) finds a library, which stays loaded, and finds its function
 * `name`; what: for whom the module is, "OpenBLAS". SP_E_UNSUPPORTED: it is missing, or the program
 * is static and can load none. */
enum sp_status sp_module_find(void **function, const char *module, const char *name,
                              const char *what, struct sp_err *err);

#endif
