/* The API keys of the server: a client must send one of them, as "Authorization: Bearer KEY" or
 * "x-api-key: KEY". */
#ifndef SP_CLI_SERVE_HTTP_SERVE_KEYS_H
#define SP_CLI_SERVE_HTTP_SERVE_KEYS_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Valid when zeroed: no key is needed. */
struct sp_serve_keys {
    char **at; /* [n], owned with the texts */
    size_t n, cap;
};

/* Reads the keys of a file, one on each line; empty lines and lines that begin with '#' are
 * skipped. path NULL: none. `key`: one more key; NULL: none. SP_E_INPUT: the file has no key. */
SP_MUST_CHECK enum sp_status sp_serve_keys_read(struct sp_serve_keys *out, const char *path,
                                                const char *key, struct sp_err *err);
void sp_serve_keys_release(struct sp_serve_keys *keys);

/* True if one of the headers has a key, or if no key is needed. The time that this takes depends on
 * the length of the header alone. NULL: the header is absent. */
bool sp_serve_keys_allow(const struct sp_serve_keys *keys, const char *authorization,
                         const char *x_api_key);

#endif
