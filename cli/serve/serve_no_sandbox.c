/* The server on systems without Landlock. */
#include "cli/serve/serve_start.h"

enum sp_status sp_serve_sandbox_enter(const struct sp_serve_paths *models,
                                      const struct sp_serve_adapters *adapters,
                                      const char *prompt_cache, const char *drafting_cache,
                                      const struct sp_listeners *listeners, struct sp_err *err)
{
    (void)models;
    (void)adapters;
    (void)prompt_cache;
    (void)drafting_cache;
    (void)listeners;
    return sp_fail(err, SP_E_UNSUPPORTED, "this system has no sandbox: only Linux has Landlock");
}
