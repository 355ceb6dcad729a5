/* Reads texts and token ids that the user names: prompts, schemas, conversations, texts of other
 * commands. */
#ifndef SP_CLI_BASE_INPUT_TEXT_H
#define SP_CLI_BASE_INPUT_TEXT_H

#include "format/json/json_write.h"
#include "format/json/json.h"
#include "format/base/mem.h"
#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { SP_INPUT_MOST = 64 << 20 }; /* default limit in bytes */

/* *text = the contents of a file, of a pipe (such as a shell's `<(command)` or /dev/stdin) or, if
 * `path` is NULL or "-", of standard input. `what`: what is read, such as "a text", which a note
 * says on a terminal, and how that ends;
 * SP_E_INPUT: longer than `most`, or no file or pipe. */
SP_MUST_CHECK enum sp_status sp_input_text(struct sp_text *text, const char *path, const char *what,
                                           size_t most, struct sp_err *err);
/* True if standard input is a pipe, a file or a socket: not a terminal, and not /dev/null. */
bool sp_input_is_piped(void);
/* Returns the name for error messages: `path`, or "standard input". */
const char *sp_input_name(const char *path);

/* ---- standard input line by line ---- */

/* Calls `line` for every line of standard input with its number, from 1, and without trailing
 * whitespace; lines of whitespace are skipped. Errors are prefixed with the line's number; a line
 * of more than 64 MiB is SP_E_INPUT. `stop` (NULL: never) ends the loop without an error; it is
 * called before every line, a few times a second while there is no input, and after every signal.
 * If the reader of standard output has closed it the program ends as after a failed write: by
 * SIGPIPE or, if that is ignored, with SP_E_IO. `what`: as for sp_input_text. */
SP_MUST_CHECK enum sp_status
sp_each_line(enum sp_status (*line)(void *context, size_t number, const char *text, size_t size,
                                    struct sp_err *err),
             bool (*stop)(void *context), void *context, const char *what, struct sp_err *err);

/* ---- token ids as users write them ---- */

struct sp_ids {
    uint32_t *at; /* ids; owned */
    size_t n;
};

/* Parses "1,2,3"; whitespace around the numbers and brackets around the list are allowed.
 * SP_E_USAGE names the first word that is not an id. */
SP_MUST_CHECK enum sp_status sp_ids_parse(struct sp_ids *out, const char *text, struct sp_err *err);
/* Reads a JSON array of ids. SP_E_INPUT if it is not one. */
SP_MUST_CHECK enum sp_status sp_ids_of_json(struct sp_ids *out, const struct sp_json *array,
                                            struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_ids_append(struct sp_ids *to, const uint32_t *ids, size_t n,
                                           struct sp_err *err);
void sp_ids_release(struct sp_ids *ids);

void sp_ids_to_json(struct sp_json_out *out, const char *key, const uint32_t *ids, size_t n);

#endif
