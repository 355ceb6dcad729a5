/* Output for the user: progress, tables and sizes.
 *
 * Results go to stdout, everything else to stderr; progress is shown on terminals only. */
#ifndef SP_CLI_BASE_OUT_H
#define SP_CLI_BASE_OUT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdarg.h>

/* Opens /dev/null for each standard stream that is closed. Otherwise a file or connection opened
 * later would get its number and receive the output meant for the user. */
void sp_out_open_closed_streams(void);

/* Returns the columns of the terminal of `stream`, 80 if it is not a terminal. */
int sp_out_width(FILE *stream);
bool sp_out_is_terminal(FILE *stream);
/* True if `stream` is a terminal with cursor control, which TERM=dumb denies. */
bool sp_out_is_screen(FILE *stream);

/* Writes a text from a model or a foreign file. On a terminal control characters other than line
 * ends and tabs are shown as '?'; anywhere else the bytes are written as they are. */
void sp_out_text(FILE *out, const char *text, size_t size);

/* A progress bar on stderr with rate and remaining time, or without them for a total of 0, which
 * means that it is not known. It is redrawn at most ten times a second; nothing is drawn if stderr
 * is not a terminal. Amounts are bytes or the `unit`; what was done before is set after
 * sp_progress_begin. */
struct sp_progress {
    bool on, drawn;
    const char *label, *unit; /* unit: such as "tokens"; NULL: bytes */
    uint64_t before;          /* amount that was done before; the rate leaves it out */
    double start, last;       /* seconds */
};
void sp_progress_begin(struct sp_progress *progress, const char *label, const char *unit);
void sp_progress_show(struct sp_progress *progress, uint64_t done, uint64_t total);
void sp_progress_end(struct sp_progress *progress); /* erases the bar */

/* Write a size ("1.23 GB", "512 bytes") and a count ("596.0M") with decimal prefixes. */
enum { SP_AMOUNT_TEXT = 24 };
const char *sp_out_size(char text[SP_AMOUNT_TEXT], uint64_t bytes);
const char *sp_out_count(char text[SP_AMOUNT_TEXT], uint64_t n);

/* A table whose columns are as wide as their widest cell, with two spaces between columns.
 * `align`: 'l' or 'r' for each column. `widths`: their least widths; a table that is printed in
 * parts needs them to keep later rows in line. */
enum { SP_TABLE_MAX_COLUMNS = 32 };
struct sp_table {
    const char *align;
    int widths[SP_TABLE_MAX_COLUMNS];
    char **cells; /* cells, row after row; owned */
    size_t n, cap, n_printed;
    enum sp_status st; /* the first failure, after which cells have no effect */
    struct sp_err *err;
};
/* Adds the next cell of the current row; control characters in it are shown as '?'. */
void sp_table_add(struct sp_table *table, const char *format, ...) SP_PRINTF(2, 3);
/* Prints the rows that were added since the last call; those that are too wide for a terminal are
 * broken between columns, all at the same ones. Returns the first failure of the table,
 * after which nothing is printed. */
SP_MUST_CHECK enum sp_status sp_table_print(FILE *out, struct sp_table *table, int indent);
void sp_table_release(struct sp_table *table);

/* ---- lines broken between words (word_wrap.c) ----
 *
 * Breaks the lines of a growing text between words at the width of a terminal.
 *
 * A word is shown as it comes; when it turns out not to fit, it is erased and shown again in the
 * next line; where there is no terminal with cursor control (sp_out_is_screen) no line is broken.
 * Lines within Markdown's code fences are left as they are. */

enum {
    SP_WRAP_WORD_SIZE = 512,
    SP_WRAP_SENTENCE_SIZE = 16384, /* two paths of the greatest length fit */
};

struct sp_word_wrap {
    FILE *file;  /* borrowed */
    int width;   /* columns that a line may have, the last one stays free; 0: no line is broken */
    int indent;  /* blanks before a word that was moved to the next line */
    int column;  /* columns of the current line, its word included */
    int columns; /* columns of the word */
    size_t size; /* bytes of the word; 0: the next character begins one */
    char word[SP_WRAP_WORD_SIZE];
    char fence;       /* character of the fence that the line may begin with */
    size_t n_fence;   /* number of such characters so far */
    size_t n_opening; /* number of them in the line that began the code */
    bool begins;      /* the line has only blanks and a fence so far */
    bool opens;       /* the line begins code */
    bool is_code;     /* the line is within a code fence */
    bool is_too_long; /* the word is longer than a line or than `word`, so it is not moved */
};

/* Begins a text at the start of a line. Requires the locale's LC_CTYPE to be UTF-8; otherwise only
 * ASCII is measured, and other characters count as one column. */
void sp_word_wrap_begin(struct sp_word_wrap *wrap, FILE *file);
/* Shows text that consists of whole characters. */
void sp_word_wrap_text(struct sp_word_wrap *wrap, const char *text, size_t size);

/* Writes a text for the user, cut after SP_WRAP_SENTENCE_SIZE - 1 bytes, and a line end. On a
 * terminal with cursor control its lines are broken between words, and what follows a break begins
 * after `indent` blanks. Allocates nothing. */
void sp_word_wrap_print(FILE *file, int indent, const char *format, ...) SP_PRINTF(3, 4);
void sp_word_wrap_sentence(FILE *file, int indent, const char *format, va_list args)
    SP_PRINTF(3, 0);

/* Prints the note "spectool COMMAND: note: sentence" to stderr. */
void sp_note(const char *command, const char *format, ...) SP_PRINTF(2, 3);

/* ---- what a user can do about a failure that the library reports (advice.c) ---- */

/* Puts the options that concern the failure's topic, if there are any, behind its sentence. A
 * failure gets them once. */
void sp_advise(struct sp_err *err);

/* ---- arrays (npy.c) ----
 *
 * NumPy's file format 1.0 for two-dimensional arrays of float32 (numpy.lib.format). */

enum { SP_NPY_HEADER = 128, SP_NPY_MAGIC = 6 };

/* The first SP_NPY_MAGIC bytes of a file. */
extern const char sp_npy_magic[];

/* Writes the header; the numbers follow it row by row, as sp_npy_row writes them. */
void sp_npy_header(uint8_t header[SP_NPY_HEADER], size_t n_rows, size_t n_cols);
/* bytes[4 * n] = numbers[n], little-endian. */
void sp_npy_row(uint8_t *bytes, const float *numbers, size_t n);

#endif
