/* How a text writes blanks where it may write some or none: as it did the last time behind the same
 * byte, outside of strings and inside as many brackets, where JSON is indented alike. A guess. */
#ifndef SP_RUNTIME_GRAMMAR_WHITESPACE_GUESS_H
#define SP_RUNTIME_GRAMMAR_WHITESPACE_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* *next = the byte that text[0 .. len-1] goes on with: a blank, or what stood there when there was
 * none. false: there was no such place. */
bool sp_whitespace_guess(char *next, const char *text, size_t len);

#endif
