/* The C library knows one locale a thread: it is exchanged for the time of a call. */
#include "format/base/number_text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

struct exchange {
    locale_t plain, program;
};

/* newlocale("C") cannot fail in practice; if it did, the program's own locale would stay. */
static struct exchange begin(void)
{
    struct exchange e = {.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};

    e.program = uselocale(e.plain);
    return e;
}

static void end(struct exchange e)
{
    uselocale(e.program);
    if (e.plain != (locale_t)0) freelocale(e.plain);
}

double sp_number_read(const char *text, char **rest)
{
    struct exchange e = begin();
    double x = strtod(text, rest);

    end(e);
    return x;
}

int sp_number_vprint(char *out, size_t size, const char *format, va_list args)
{
    struct exchange e = begin();
    int n = vsnprintf(out, size, format, args);

    end(e);
    return n;
}

int sp_number_print(char *out, size_t size, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = sp_number_vprint(out, size, format, args);
    va_end(args);
    return n;
}
