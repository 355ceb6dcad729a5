/* Breaks the lines of a growing text between words at the width of a terminal.
 *
 * A word is shown as it comes; when it turns out not to fit, it is erased and shown again in the
 * next line, so the terminal must have cursor control (sp_out_is_screen). Lines within Markdown's
 * code fences are left as they are. */
#ifndef SP_CLI_BASE_WORD_WRAP_H
#define SP_CLI_BASE_WORD_WRAP_H

#include "format/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    SP_WRAP_WORD_SIZE = 512,
    SP_WRAP_SENTENCE_SIZE = 16384, /* two paths of the greatest length fit */
};

struct sp_word_wrap {
    FILE *file;  /* the terminal; borrowed */
    int width;   /* columns that a line may have; the terminal's last column stays free */
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

#endif
