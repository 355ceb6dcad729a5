#include "cli/chat/prompt_cache.h"

#include "cli/base/word_wrap.h"
#include "format/base/atomic_file.h"
#include "format/base/file.h"

#include <stdio.h>

/* Checks that the file can be written, before the prompt is processed. */
static enum sp_status check_place(const char *path, struct sp_err *err)
{
    struct sp_atomic_file *output = NULL;
    enum sp_status st = sp_atomic_file_open(&output, path, true, 0, err);

    sp_atomic_file_close(output);
    if (st) sp_context(err, "--prompt-cache");
    return st;
}

enum sp_status sp_prompt_cache_load(struct sp_session *session, const char *path,
                                    struct sp_err *err)
{
    struct sp_err why = {0};
    enum sp_status st;
    char sentence[sizeof why.text + 64];

    if (!sp_file_exists(path)) return check_place(path, err);
    st = sp_session_load(session, path, &why);
    if (st == SP_OK) return SP_OK;
    if (st != SP_E_CHECK) return sp_fail_as(err, &why);
    snprintf(sentence, sizeof sentence, "%s: the prompt is processed again", why.text);
    sp_note("run", sentence);
    return SP_OK;
}

void sp_prompt_cache_keep(struct sp_session *session, const char *path, size_t n, size_t n_reused)
{
    enum { MIN_SHARE = 8 }; /* save if at least 1/8 of the prompt was processed anew */
    struct sp_err err = {0};

    if (n - n_reused < n / MIN_SHARE) return;
    if (sp_session_save(session, path, &err)) sp_note("run", err.text);
}
