#include "cli/prompt_cache.h"

#include "cli/out.h"
#include "format/file.h"

#include <stdio.h>

enum sp_status sp_prompt_cache_load(struct sp_session *session, const char *path,
                                    struct sp_err *err)
{
    struct sp_err why = {0};
    enum sp_status st = sp_file_exists(path) ? sp_session_load(session, path, &why) : SP_OK;
    char sentence[sizeof why.text + 64];

    if (st == SP_OK) return SP_OK;
    if (st != SP_E_CHECK) return sp_fail(err, st, "%s", why.text);
    snprintf(sentence, sizeof sentence, "%s: the prompt is read anew", why.text);
    sp_out_note("run", sentence);
    return SP_OK;
}

void sp_prompt_cache_keep(struct sp_session *session, const char *path, size_t n, size_t n_reused)
{
    enum { LEAST_SHARE = 8 }; /* what was read is worth it from an eighth of the prompt on */
    struct sp_err err = {0};

    if (n - n_reused < n / LEAST_SHARE) return;
    if (sp_session_save(session, path, &err)) sp_out_note("run", err.text);
}
