/* The texts over which no repetition extends that DRY penalizes, as a setting. Unless they are set,
 * they are those of struct sp_sampling. */
#ifndef SP_CLI_BASE_DRY_BREAKERS_H
#define SP_CLI_BASE_DRY_BREAKERS_H

#include "runtime/spectool.h"

#include <stdio.h>

enum { SP_MAX_BREAKERS = 64 };

/* Valid when zeroed, which means the default texts. The owner calls sp_dry_texts_release. */
struct sp_dry_texts {
    const char *from;                /* origin, static; NULL: the texts are not set */
    const char *at[SP_MAX_BREAKERS]; /* [n] the texts, as struct sp_sampling takes them */
    char *owned[SP_MAX_BREAKERS];    /* [n] the same pointers; owned */
    size_t n;
};

/* Adds a text, after it has removed those of another origin; "none" adds none. SP_E_USAGE: there
 * are too many. */
SP_MUST_CHECK enum sp_status sp_dry_texts_add(struct sp_dry_texts *texts, const char *from,
                                              const char *text, struct sp_err *err);
SP_MUST_CHECK enum sp_status
sp_dry_texts_copy(struct sp_dry_texts *out, const struct sp_dry_texts *texts, struct sp_err *err);
void sp_dry_texts_release(struct sp_dry_texts *texts);

/* Sets the breakers of the sampling options, which borrow from the texts. */
void sp_dry_texts_apply(const struct sp_dry_texts *texts, struct sp_sampling *sampling);

/* Prints a line for each text that was set. */
void sp_dry_texts_print(FILE *out, const struct sp_dry_texts *texts);

#endif
