#include "cli/form.h"
#include "format/file.h"

#include <stdlib.h>
#include <string.h>

/* No grammar begins with a brace, and every schema that says anything does. */
static bool is_schema(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && text[i] && strchr(" \t\r\n", text[i]))
        i++;
    return i < size && text[i] == '{';
}

enum sp_status sp_form_read(struct sp_grammar **out, const char *form, struct sp_err *err)
{
    enum { MOST_BYTES = 16 << 20 };
    char *text = NULL;
    size_t size;
    enum sp_status st;

    *out = NULL;
    if (form == NULL) return SP_OK;
    if (strcmp(form, "json") == 0) return sp_grammar_of_json(out, err);
    if ((st = sp_file_read_text(&text, &size, form, MOST_BYTES, err))) return st;
    st = is_schema(text, size) ? sp_grammar_of_schema(out, text, size, err)
                               : sp_grammar_of_gbnf(out, text, size, err);
    if (st) sp_context(err, "%s", form);
    free(text);
    return st;
}
