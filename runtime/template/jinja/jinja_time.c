/* strftime for templates in the C locale, computed from the date alone, independent of the
 * machine's zone and locale. */
#include "runtime/template/jinja/jinja_text.h"

#include "format/system/macos.h"

#include <locale.h>
#include <string.h>
#include <time.h>

static bool leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The fields of a date. The weekday comes from the days since year 1, which began on a Monday. */
static struct tm moment(const struct sp_template_time *now)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int y = now->year - 1;
    struct tm tm = {.tm_year = now->year - 1900,
                    .tm_mon = now->month - 1,
                    .tm_mday = now->day,
                    .tm_hour = now->hour,
                    .tm_min = now->minute,
                    .tm_sec = now->second};

    tm.tm_yday = before[tm.tm_mon] + now->day - 1 + (now->month > 2 && leap(now->year));
    tm.tm_wday = (1 + y + y / 4 - y / 100 + y / 400 + tm.tm_yday) % 7;
    return tm;
}

/* Appends one conversion with its flag, `len` bytes from its '%'. */
static enum sp_status build_one(struct sp_builder *b, const char *at, size_t len,
                                const struct tm *tm, locale_t plain)
{
    char c = at[len - 1], format[4] = "", text[64];

    if (c == '\0' || c == '%' || strchr("zZ", c) != NULL)
        return sp_build_text(b, c == '%' ? "%" : "");
    if (c == 'f') return sp_build_text(b, "000000");
    if (strchr("aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY", c) == NULL) {
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "strftime_now: conversion %.*s", (int)len,
                       at);
    }
    memcpy(format, at, len);
    return sp_build(b, text, strftime_l(text, sizeof text, format, tm, plain));
}

enum sp_status sp_jinja_build_time(struct sp_builder *b, struct sp_value format,
                                   const struct sp_template_time *now)
{
    enum sp_status st = SP_OK;
    struct tm tm;
    locale_t plain;

    if (now->year < 1 || now->year > 9999 || now->month < 1 || now->month > 12 || now->day < 1 ||
        now->day > 31) {
        return sp_fail(b->heap->err, SP_E_USAGE, "%d-%d-%d is no date", now->year, now->month,
                       now->day);
    }
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return sp_fail(b->heap->err, SP_E_NOMEM, "no locale");
    tm = moment(now);
    for (size_t i = 0, n = 1; i < format.len && !st; i += n) {
        const char *at = format.text + i;
        size_t left = format.len - i;
        n = 1;
        if (*at == '%' && left > 1) n = left > 2 && strchr("-_0", at[1]) != NULL ? 3 : 2;
        if (*at == '%' && left == 1)
            st = sp_fail(b->heap->err, SP_E_INPUT, "strftime_now: a single %% at the end");
        else
            st = n > 1 ? build_one(b, at, n, &tm, plain) : sp_build(b, at, 1);
    }
    freelocale(plain);
    return st;
}
