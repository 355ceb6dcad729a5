/* Predicts optional whitespace in a JSON text from the text's own style: the text probably
 * continues as it did after the last equal byte outside strings and inside the same number of
 * brackets, since JSON is indented by depth. */
#ifndef SP_RUNTIME_GRAMMAR_WHITESPACE_STYLE_H
#define SP_RUNTIME_GRAMMAR_WHITESPACE_STYLE_H

#include <stdbool.h>
#include <stddef.h>

/* Sets *next to the byte that probably follows text[0 .. len-1]; it need not be whitespace.
 * Returns false if the text has no earlier place to predict it from. */
bool sp_whitespace_style_next(char *next, const char *text, size_t len);

#endif
