#include "cli/base/dry_breakers.h"
#include "cli/base/out.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_dry_texts_add(struct sp_dry_texts *t, const char *from, const char *text,
                                struct sp_err *err)
{
    enum sp_status st;

    if (t->from != from) {
        sp_dry_texts_release(t);
        t->from = from;
    }
    if (strcmp(text, "none") == 0) return SP_OK;
    if (t->n == SP_MAX_BREAKERS)
        return sp_fail(err, SP_E_USAGE, "more than %d sequence breakers", SP_MAX_BREAKERS);
    if (*text == '\0') return sp_fail(err, SP_E_USAGE, "a sequence breaker is empty");
    if ((st = sp_copy_text(&t->owned[t->n], text, strlen(text), err))) return st;
    t->at[t->n] = t->owned[t->n];
    t->n++;
    return SP_OK;
}

enum sp_status sp_dry_texts_copy(struct sp_dry_texts *out, const struct sp_dry_texts *t,
                                 struct sp_err *err)
{
    enum sp_status st = SP_OK;

    *out = (struct sp_dry_texts){.from = t->from};
    for (size_t i = 0; i < t->n && !st; i++)
        st = sp_dry_texts_add(out, t->from, t->at[i], err);
    return st;
}

void sp_dry_texts_release(struct sp_dry_texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->owned[i]);
    *t = (struct sp_dry_texts){0};
}

void sp_dry_texts_apply(const struct sp_dry_texts *t, struct sp_sampling *sampling)
{
    sampling->dry_breakers = t->from ? t->at : NULL;
    sampling->n_dry_breakers = t->n;
}

/* Prints a text with its line feeds as \n. */
static void print_text(FILE *out, const char *text)
{
    for (size_t len; *text != '\0'; text += len) {
        len = strcspn(text, "\n");
        sp_out_text(out, text, len);
        if (text[len] == '\n') {
            fputs("\\n", out);
            len++;
        }
    }
}

void sp_dry_texts_print(FILE *out, const struct sp_dry_texts *t)
{
    for (size_t i = 0; i < t->n; i++) {
        fputs("  dry_sequence_breakers \"", out);
        print_text(out, t->at[i]);
        fprintf(out, "\" %s\n", t->from);
    }
    if (t->from && t->n == 0) fprintf(out, "  dry_sequence_breakers none %s\n", t->from);
}
