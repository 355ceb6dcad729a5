#include "cli/base/opt.h"

#include <stdlib.h>
#include <string.h>

/* The seconds of the unit that `text` begins with, and the length of its name; 0: none. */
static double unit_of(const char *text, size_t *len)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *len = strlen(units[i].name);
        if (strncmp(text, units[i].name, *len) == 0) return units[i].seconds;
    }
    return 0;
}

bool sp_duration_read(double *seconds, const char *text)
{
    bool negative = *text == '-';
    double sum = 0;
    bool has_unit = false;

    text += negative || *text == '+';
    do {
        size_t digits = strspn(text, "0123456789."), len;
        char *end;
        double n = strtod(text, &end), unit;
        if (digits == 0 || end != text + digits) return false;
        unit = unit_of(end, &len);
        if (unit == 0 && (*end != '\0' || has_unit)) return false;
        has_unit = unit != 0;
        sum += unit == 0 ? n : n * unit;
        text = unit == 0 ? end : end + len;
    } while (*text != '\0');
    if (!(sum <= SP_DURATION_MAX)) return false;
    *seconds = negative ? -sum : sum;
    return true;
}
