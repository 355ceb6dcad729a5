/* Receipts of a packed file in words, a line for each text or choice. */
#ifndef SP_CLI_BASE_RECEIPT_WORDS_H
#define SP_CLI_BASE_RECEIPT_WORDS_H

#include "format/receipts.h"

#include <stdio.h>

enum { SP_RECEIPT_WORDS = 640 };

/* The number of lines of a receipt, which was checked when it was read. */
size_t sp_receipt_n_lines(const struct sp_json *receipt);
void sp_receipt_words(char text[SP_RECEIPT_WORDS], const struct sp_json *receipt, size_t line);

/* Writes a valid name as a JSON string. */
void sp_receipt_print_text(FILE *out, const char *text);

#endif
