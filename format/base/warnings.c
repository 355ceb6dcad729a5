/* A sentence is formatted like an error's, so that names from foreign files in it cannot control a
 * terminal. */
#include "format/base/warnings.h"

#include "format/base/number_text.h"
#include "format/base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_warn(char **warnings, struct sp_err *err, const char *format, ...)
{
    struct sp_err sentence = {0};
    char text[SP_ERR_TEXT];
    char *grown = NULL;
    size_t old, len;
    enum sp_status st;
    va_list args;

    if (warnings == NULL) return SP_OK;
    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    (void)sp_fail(&sentence, SP_E_CHECK, "%s", text);
    old = *warnings ? strlen(*warnings) : 0;
    len = strlen(sentence.text);
    if ((st = sp_new(&grown, old + len + 2, 1, err))) return st;
    if (old) {
        memcpy(grown, *warnings, old);
        grown[old++] = '\n';
    }
    memcpy(grown + old, sentence.text, len + 1);
    free(*warnings);
    *warnings = grown;
    return SP_OK;
}
