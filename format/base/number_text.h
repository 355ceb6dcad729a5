/* Numbers as text the way C spells them, with a point, whatever locale the program has set: the
 * library's only readers of fractions, and writers of them. */
#ifndef SP_FORMAT_BASE_NUMBER_TEXT_H
#define SP_FORMAT_BASE_NUMBER_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* strtod */
double sp_number_read(const char *text, char **end);

/* snprintf, vsnprintf */
int sp_number_print(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int sp_number_vprint(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
