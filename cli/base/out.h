/* What a user sees: progress, tables, sizes; and the signals that end long work cleanly.
 *
 * Results go to stdout, everything else to stderr; progress only to a terminal. */
#ifndef SP_CLI_BASE_OUT_H
#define SP_CLI_BASE_OUT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Keeps the numbers of standard streams that are closed from files and connections that are opened
 * later: what is said to the user would be written into them. */
void sp_out_hold_streams(void);

/* Columns of the terminal behind `stream`, 80 where it is none. */
int sp_out_width(FILE *stream);
bool sp_out_is_terminal(FILE *stream);
/* A terminal whose cursor moves: one that TERM does not call dumb. */
bool sp_out_is_screen(FILE *stream);

/* "spectool COMMAND: note: sentence" on stderr. */
void sp_out_note(const char *command, const char *sentence);

/* A bar on stderr with rate and time left, redrawn at most ten times a second; nothing where stderr
 * is no terminal. Amounts are bytes, or whatever `unit`, set behind begin, says. */
struct sp_progress {
    bool on, drawn;
    const char *label, *unit; /* "tokens"; NULL: bytes */
    double start, last;       /* seconds */
};
void sp_progress_begin(struct sp_progress *progress, const char *label);
void sp_progress_show(struct sp_progress *progress, uint64_t done, uint64_t total);
void sp_progress_end(struct sp_progress *progress); /* wipes the bar */

/* "1.23 GB", "512 bytes"; "596.0M". Powers of ten. Returns `text`. */
enum { SP_AMOUNT_TEXT = 24 };
const char *sp_out_size(char text[SP_AMOUNT_TEXT], uint64_t bytes);
const char *sp_out_count(char text[SP_AMOUNT_TEXT], uint64_t n);

/* Columns that are as wide as their widest cell, two blanks apart. `align`: 'l' or 'r' a column. */
struct sp_table {
    const char *align;
    char **cells; /* owned */
    size_t n, cap;
};
/* Adds the next cell, row after row. */
SP_MUST_CHECK enum sp_status sp_table_add(struct sp_table *table, struct sp_err *err,
                                          const char *format, ...) SP_PRINTF(3, 4);
void sp_table_print(FILE *out, const struct sp_table *table, int indent);
void sp_table_release(struct sp_table *table);

/* From here on SIGINT, SIGTERM and SIGHUP only set a flag; a second one ends the program at once.
 * One that the caller ignores (nohup) stays ignored. */
void sp_signals_catch(void);
bool sp_signals_caught(void);
/* Forgets a caught interrupt and waits for the next; what ends the program (SIGTERM, SIGHUP) stays
 * caught. */
void sp_signals_clear(void);
/* From here on a file that may not grow is a write that fails, and a mapped file that is cut short,
 * or whose disk fails, ends the program with one sentence and the exit code of SP_E_IO. */
void sp_signals_guard_files(void);
/* Ends the program by the caught signal, so that a shell sees what happened; returns if none was.
 */
void sp_signals_resume(void);

#endif
