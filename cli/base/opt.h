/* Commands and their options, as tables.
 *
 * A command is a row with its name, a summary and a table of options. That table drives parsing,
 * range checks, --help, shell completions, and the test that compares the man pages with it. Values
 * are stored in the command's own struct of options, which starts as a copy of its defaults. */
#ifndef SP_CLI_BASE_OPT_H
#define SP_CLI_BASE_OPT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sp_opt_kind {
    SP_OPT_END,     /* the last row of a table */
    SP_OPT_HEADING, /* `help` is the heading of the rows after it */
    SP_OPT_FLAG,    /* bool */
    SP_OPT_INT,     /* int64_t in min..max, or `word` */
    SP_OPT_INT32,   /* int in min..max */
    SP_OPT_NUMBER,  /* double in min..max */
    SP_OPT_FLOAT,   /* float in min..max */
    SP_OPT_SIZE, /* uint64_t: bytes, at least 1; k, M, G are powers of 1000, Ki, Mi, Gi of 1024 */
    SP_OPT_SECONDS, /* double: a duration such as 5m (duration.c) */
    SP_OPT_STRING,  /* const char *, borrowed from the command line */
    SP_OPT_CHOICE,  /* const char *: one of `choices` */
    SP_OPT_LIST,    /* struct sp_opt_list: all values, in order */
};

struct sp_opt {
    enum sp_opt_kind kind;
    char letter;       /* -q, or 0 */
    const char *name;  /* "quantize" for --quantize */
    const char *alias; /* another long name, or NULL */
    const char *value; /* name of the value in --help: "N"; NULL for flags */
    size_t offset;     /* offset of the value in the command's options */
    double min, max;
    const char *word;           /* SP_OPT_INT: a word that is accepted in place of a number */
    int64_t word_value;         /* the number that `word` stands for */
    const char *const *choices; /* words, then NULL; case is ignored on the command line */
    /* SP_OPT_STRING: words, then NULL, of a value that may be left out, which means the first. The
     * next argument is the value only if it is one of them; any other value follows a '='. */
    const char *const *words;
    bool path;         /* the value is a file name (for completions) */
    const char *shown; /* default shown by --help, or NULL */
    const char *help;  /* one or more sentences, without the last period */
};

struct sp_opt_list {
    const char **items; /* [n] values; owned by sp_args */
    size_t n;
    char *text; /* values that came from the environment; owned by sp_args; NULL: none did */
};

enum { SP_OPT_MAX = 96 }; /* most rows of a table */

/* A parsed command line. */
struct sp_args {
    const struct sp_command *command;
    void *options; /* the command's struct of options; owned */
    char **operands;
    size_t n_operands;               /* operands[n]: the array is owned, the strings are borrowed */
    bool help;                       /* --help was given; nothing after it was checked */
    bool given[SP_OPT_MAX];          /* on the command line, or by the environment */
    bool by_environment[SP_OPT_MAX]; /* of these, those that the environment gives */
};

struct sp_command {
    const char *name;
    const char *summary;  /* one line, no period */
    const char *operands; /* "FILE [PROMPT]" */
    size_t min_operands, max_operands;
    const char *text_operand;  /* name of the last operand if it is a text: "PROMPT"; or NULL */
    const struct sp_opt *opts; /* [.., SP_OPT_END] */
    const void *defaults;      /* NULL: all zero */
    size_t options_size;
    bool hidden; /* not listed by `spectool help` */
    /* Options that the command line lacks are taken from variables such as
     * SPECTOOL_SERVE_MAX_QUEUE, for --max-queue of serve. An empty variable counts as absent. A
     * flag's is true or false; the values of an option that is repeatable stand in lines. */
    bool reads_environment;
    /* Place of a struct sp_rank_group * in the options; 0: does not run in several processes. */
    size_t group_offset;
    bool in_place;       /* a model that is not packed is read where it is */
    bool takes_model;    /* FILE is a model (packed_checkpoint.h); --help says what it may be */
    const char *details; /* paragraphs below the options in --help, or NULL */
    enum sp_status (*run)(const struct sp_args *args, struct sp_err *err);
};

/* The options of a command by its table and its defaults. */
#define SP_COMMAND_OPTIONS(table, values)                                                          \
    .opts = (table), .defaults = &(values), .options_size = sizeof(values)

/* Parses argv[0..argc-1], the arguments after the command's name. SP_E_USAGE with one sentence
 * that ends with a pointer to --help. On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_args_parse(struct sp_args *out, const struct sp_command *command,
                                           int argc, char **argv, struct sp_err *err);
void sp_args_release(struct sp_args *args);

/* True if the option, one of the table, was given on the command line or by the environment. */
bool sp_args_given(const struct sp_args *args, const char *name);
/* True if the option was given by the environment. */
bool sp_args_by_environment(const struct sp_args *args, const char *name);

/* *out = the one of `choices` that `text` names, case ignored. SP_E_USAGE lists the choices and
 * names the nearest; `name` stands for the option, with its dashes. */
SP_MUST_CHECK enum sp_status sp_opt_choose(const char **out, const char *const *choices,
                                           const char *name, const char *text, struct sp_err *err);

/* Reads true or false, 1 or 0, yes or no, on or off, in any case. */
SP_MUST_CHECK enum sp_status sp_opt_flag(bool *to, const char *text, struct sp_err *err);

/* Returns the second operand, a text; NULL, for standard input, if it is missing or "-". */
const char *sp_args_text(const struct sp_args *args);

/* ---- prints the text of --help ---- */

/* What an operand FILE may be where a command takes a model. */
#define SP_OPT_ANY_MODEL                                                                           \
    "FILE is a packed file, or a checkpoint folder, a GGUF file or the name of a stored model "    \
    "(ORG/NAME, NAME:TAG), which is "
#define SP_OPT_MODEL_HELP SP_OPT_ANY_MODEL "packed once into the cache folder."
#define SP_OPT_IN_PLACE_HELP SP_OPT_ANY_MODEL "read in place."

/* Prints the help of a command. */
void sp_opt_print_help(FILE *out, const struct sp_command *command);

/* Returns the columns of a help text on `out`. */
int sp_help_width(FILE *out);
/* Prints words from `column` on, breaks lines before `width` and indents the following lines.
 * Returns the column after the text. */
int sp_help_put_words(FILE *out, const char *text, int column, int indent, int width);
/* Prints paragraphs, which an empty line separates, and a line end. */
void sp_help_put_paragraphs(FILE *out, const char *text, int width);

/* ---- other tools (other_tools.c) ----
 *
 * Commands and options of other tools (ollama, llama.cpp, mlx-lm, hf), which users try here: what
 * they are called, or what to do instead. */

/* Finds an option of another tool, without its dashes, or "", which is an operand that the command
 * does not take. *ours = the name of the command's option that means the same, "" if an operand
 * does; or *hint = what to know or do instead; both static, NULL if not. */
void sp_other_option_find(const char **ours, const char **hint, const struct sp_command *command,
                          const char *name);

/* Returns what to do here instead of another tool's command, or of an option in place of a command;
 * static; NULL: none is known. */
const char *sp_other_tools_hint(const char *command);

/* ---- durations, as ollama's clients and Go write them (duration.c) ---- */

/* The longest duration in seconds: clocks can add it to their time. */
#define SP_DURATION_MAX 1e12

/* *seconds = a duration such as "5m", "1h30m", "1.5s" or "300ms"; a number without a unit counts
 * seconds. A sign applies to the whole. Returns false if the text is not a duration, or is longer
 * than SP_DURATION_MAX. */
bool sp_duration_read(double *seconds, const char *text);

#endif
