/* Guesses the whitespace of a JSON text where it is optional: as it was the last time after the
 * same byte, outside strings and inside the same number of brackets, where JSON is indented
 * alike. */
#ifndef SP_RUNTIME_GRAMMAR_WHITESPACE_GUESS_H
#define SP_RUNTIME_GRAMMAR_WHITESPACE_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* Sets *next to the byte that text[0 .. len-1] probably continues with, which need not be
 * whitespace. False: there is no earlier place to guess from. */
bool sp_whitespace_guess(char *next, const char *text, size_t len);

#endif
