/* Commands and their options, as tables.
 *
 * A command is a row: its name, what it does, and a table of options. The table drives everything
 * that knows about options: parsing, ranges, --help, shell completions, and the test that holds the
 * man pages against it. Values land in the command's own struct of options, which begins as a copy
 * of its defaults. */
#ifndef SP_CLI_BASE_OPT_H
#define SP_CLI_BASE_OPT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sp_opt_kind {
    SP_OPT_END,     /* the last row of a table */
    SP_OPT_HEADING, /* `help` heads the rows after it */
    SP_OPT_FLAG,    /* bool */
    SP_OPT_INT,     /* int64_t in min..max, or `word` */
    SP_OPT_NUMBER,  /* double in min..max */
    SP_OPT_STRING,  /* const char *, borrowed from the command line */
    SP_OPT_CHOICE,  /* const char *: one of `choices` */
    SP_OPT_LIST,    /* struct sp_opt_list: every value, in order */
};

struct sp_opt {
    enum sp_opt_kind kind;
    char letter;       /* -q, or 0 */
    const char *name;  /* "quantize" for --quantize */
    const char *alias; /* another long name, or NULL */
    const char *value; /* what --help calls the value: "N"; NULL for flags */
    size_t offset;     /* of the value in the command's options */
    double min, max;
    const char *word;           /* SP_OPT_INT: this word is accepted too, ... */
    int64_t word_value;         /* ... and means this */
    const char *const *choices; /* words, then NULL; in any case on the command line */
    bool path;                  /* the value is a file's name (for completions) */
    const char *shown;          /* default as --help shows it, or NULL */
    const char *help;           /* one or more sentences without the last period */
};

struct sp_opt_list {
    const char **items; /* [n], owned by sp_args */
    size_t n;
};

enum { SP_OPT_MAX = 64 }; /* rows of a table */

/* A command line, parsed. */
struct sp_args {
    const struct sp_command *command;
    void *options; /* the command's struct, owned */
    char **operands;
    size_t n_operands; /* operands[n]: owned array, borrowed strings */
    bool help;         /* --help was asked for; nothing was checked after it */
    bool given[SP_OPT_MAX];
};

struct sp_command {
    const char *name;
    const char *summary;  /* one line, no period */
    const char *operands; /* "FILE [PROMPT]" */
    size_t min_operands, max_operands;
    const struct sp_opt *opts; /* [.., SP_OPT_END] */
    const void *defaults;
    size_t options_size;
    bool hidden;         /* not listed by `spectool help` */
    const char *details; /* paragraphs below the options in --help, or NULL */
    enum sp_status (*run)(const struct sp_args *args, struct sp_err *err);
};

/* Parses argv[0..argc-1], the words after the command's name. SP_E_USAGE with one sentence that
 * ends with a pointer to --help. On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_args_parse(struct sp_args *out, const struct sp_command *command,
                                           int argc, char **argv, struct sp_err *err);
void sp_args_release(struct sp_args *args);

/* Was this option on the command line (else the default stands)? The name must be in the table. */
bool sp_args_given(const struct sp_args *args, const char *name);

/* The operand behind the first one; NULL: standard input, by none or by "-". */
const char *sp_args_text(const struct sp_args *args);

/* How many insertions, deletions, replacements and swaps of neighbours lead from a to b. */
size_t sp_edit_distance(const char *a, const char *b);

#endif
