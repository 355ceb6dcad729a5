/* The stores of models that other programs keep for the user. */
#ifndef SP_CLI_USER_STORES_H
#define SP_CLI_USER_STORES_H

#include "convert/source/source_name.h"

struct sp_user_stores {
    struct sp_source_stores stores; /* borrows from the members below */
    char hub[4096], ollama[4096];
};

/* Fills *out with the folders that Hugging Face's tools and ollama use, by their environment
 * variables. Whether the folders exist is not checked. */
void sp_user_stores_find(struct sp_user_stores *out);

#endif
