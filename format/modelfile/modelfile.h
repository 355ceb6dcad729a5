/* The Modelfile: what a packed file is made from, and the settings stored in it.
 *
 * The grammar is ollama's. A line is a command (letters, any case), whitespace, and a value to the
 * end of the line; blank lines and lines beginning with # are skipped. A value that begins with a
 * quote is taken without its quotes and may span lines:
 *
 *   """text"""  up to the next three quotes (of a longer run, the last three); whitespace may
 * follow "text"      when the line ends with a quote: everything between, inner quotes included;
 *               otherwise up to the next quote, which must end its line
 *
 * Text after closing quotes and quotes that are never closed are errors, where ollama would take
 * following commands into the value. Values are kept byte for byte; nothing is dropped.
 *
 * Parsing (any names and values) is apart from checking (what spectool accepts), since a packed
 * file stores records that were checked when it was made. UTF-8 and, with a byte order mark,
 * UTF-16. */
#ifndef SP_FORMAT_MODELFILE_MODELFILE_H
#define SP_FORMAT_MODELFILE_MODELFILE_H

#include "format/base/mem.h"

enum sp_modelfile_command {
    SP_MODELFILE_FROM,
    SP_MODELFILE_DRAFT,
    SP_MODELFILE_ADAPTER,
    SP_MODELFILE_PARAMETER,
    SP_MODELFILE_TEMPLATE,
    SP_MODELFILE_SYSTEM,
    SP_MODELFILE_MESSAGE,
    SP_MODELFILE_LICENSE,
    SP_MODELFILE_RENDERER,
    SP_MODELFILE_PARSER,
    SP_MODELFILE_REQUIRES,
    SP_N_MODELFILE_COMMANDS,
};

enum {
    SP_MODELFILE_MAX_RECORDS = 10000,
    SP_MODELFILE_MAX_SIZE = 16 << 20,
    SP_MODELFILE_MAX_STOPS = 64,
};

const char *sp_modelfile_command_name(enum sp_modelfile_command command); /* "FROM"; static */

struct sp_modelfile_record {
    enum sp_modelfile_command command;
    char *name;  /* PARAMETER: its name, MESSAGE: the role, in lower case; else NULL; owned */
    char *value; /* without quotes, NUL-terminated, holds no other NUL; owned */
    size_t value_size;
    size_t first, size; /* the record's bytes in the text: from its command, without the line end */
    unsigned long line; /* of its command, from 1 */
    size_t value_first; /* where the value begins in the text, its quotes included */
};

struct sp_modelfile {
    char *path; /* for messages; owned */
    char *text; /* UTF-8 without byte order mark; owned */
    size_t size;
    struct sp_modelfile_record *records; /* in the text's order; owned */
    size_t n_records, cap_records;
};

/* Parses `size` bytes. `path` appears in messages, which are SP_E_INPUT and read
 * "path:line:column: ...", both from 1, columns in characters. */
SP_MUST_CHECK enum sp_status sp_modelfile_parse(struct sp_modelfile *out, const char *path,
                                                const void *bytes, size_t size, struct sp_err *err);
void sp_modelfile_release(struct sp_modelfile *file);

/* The record that counts where a command (and, for parameters, a name) may be repeated: the last.
 * NULL if there is none. */
const struct sp_modelfile_record *sp_modelfile_find(const struct sp_modelfile *file,
                                                    enum sp_modelfile_command command,
                                                    const char *name);

/* FROM, DRAFT, ADAPTER: records that stand for what is packed, and are not stored themselves. */
bool sp_modelfile_names_source(enum sp_modelfile_command command);

/* Records that a packed file stores: all that name no source, byte for byte, each on a line of its
 * own. */
SP_MUST_CHECK enum sp_status
sp_modelfile_print(struct sp_text *text, const struct sp_modelfile *file, struct sp_err *err);

/* The Modelfile that recreates a packed file: FROM with the path `from`, DRAFT with `draft` (NULL:
 * none), then the stored records. */
SP_MUST_CHECK enum sp_status sp_modelfile_recreate(struct sp_text *text, const char *from,
                                                   const char *draft, const struct sp_text *records,
                                                   struct sp_err *err);

enum sp_parameter_type {
    SP_PARAMETER_INT,
    SP_PARAMETER_FLOAT,
    SP_PARAMETER_BOOL,
    SP_PARAMETER_TEXT
};

/* Line and column, from 1, of a byte of the text; a column is a character. */
void sp_modelfile_place(const struct sp_modelfile *file, size_t offset, unsigned long *line,
                        unsigned long *column);

/* SP_E_INPUT with "path:line:column: " in front of the sentence. */
enum sp_status sp_modelfile_fail(const struct sp_modelfile *file, size_t offset, struct sp_err *err,
                                 const char *format, ...) SP_PRINTF(4, 5);

#endif
