/* strftime for templates in the C locale, computed from the date alone, independent of the
 * machine's zone and locale. */
#include "runtime/template/jinja/jinja_time.h"

#include <stdio.h>
#include <string.h>

struct moment {
    const struct sp_template_time *at;
    int yday, wday; /* 0..365; 0 = Sunday */
};

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};

static bool leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int day_of_year(int year, int month, int day)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

    return before[month - 1] + day - 1 + (month > 2 && leap(year));
}

/* The weekday of 1 January, by counting leap years since year 1, which began on a Monday. */
static int first_weekday(int year)
{
    int y = year - 1;

    return (1 + y + y / 4 - y / 100 + y / 400) % 7;
}

/* The week of ISO 8601: week 1 contains the year's first Thursday. */
static int iso_week(const struct moment *t, int *year)
{
    int monday = (t->wday + 6) % 7;
    int week = (t->yday - monday + 10) / 7;
    int last;

    *year = t->at->year;
    if (week < 1) {
        --*year;
        week = (t->yday + 365 + leap(*year) - monday + 10) / 7;
        return week;
    }
    last = 365 + leap(*year);
    if (week == 53 && t->yday - monday + 3 >= last) {
        ++*year;
        week = 1;
    }
    return week;
}

static const char *text_of(const struct moment *t, char c)
{
    switch (c) {
    case 'A':
        return days[t->wday];
    case 'B':
        return months[t->at->month - 1];
    case 'p':
        return t->at->hour < 12 ? "AM" : "PM";
    case 'P':
        return t->at->hour < 12 ? "am" : "pm";
    case 'n':
        return "\n";
    case 't':
        return "\t";
    case '%':
        return "%";
    case 'f':
        return "000000";
    case 'z':
    case 'Z':
        return "";
    default:
        return NULL;
    }
}

/* The expansion of a conversion into others; NULL: it has none. */
static const char *long_form(char c)
{
    switch (c) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'r':
        return "%I:%M:%S %p";
    case 'R':
        return "%H:%M";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

/* The number of a conversion with its default width and padding; false: it is not numeric. */
static bool number_of(const struct moment *t, char c, int *value, int *width, char *pad)
{
    const struct sp_template_time *at = t->at;
    int year;

    *width = 2;
    *pad = '0';
    switch (c) {
    case 'd':
        *value = at->day;
        return true;
    case 'e':
        *value = at->day;
        *pad = ' ';
        return true;
    case 'H':
        *value = at->hour;
        return true;
    case 'k':
        *value = at->hour;
        *pad = ' ';
        return true;
    case 'I':
        *value = (at->hour + 11) % 12 + 1;
        return true;
    case 'l':
        *value = (at->hour + 11) % 12 + 1;
        *pad = ' ';
        return true;
    case 'm':
        *value = at->month;
        return true;
    case 'M':
        *value = at->minute;
        return true;
    case 'S':
        *value = at->second;
        return true;
    case 'y':
        *value = at->year % 100;
        return true;
    case 'C':
        *value = at->year / 100;
        return true;
    case 'U':
        *value = (t->yday + 7 - t->wday) / 7;
        return true;
    case 'W':
        *value = (t->yday + 7 - (t->wday + 6) % 7) / 7;
        return true;
    case 'V':
        *value = iso_week(t, &year);
        return true;
    case 'g':
        iso_week(t, &year);
        *value = year % 100;
        return true;
    case 'G':
        iso_week(t, value);
        *width = 1;
        return true;
    case 'Y':
        *value = at->year;
        *width = 1;
        return true;
    case 'j':
        *value = t->yday + 1;
        *width = 3;
        return true;
    case 'u':
        *value = (t->wday + 6) % 7 + 1;
        *width = 1;
        return true;
    case 'w':
        *value = t->wday;
        *width = 1;
        return true;
    default:
        return false;
    }
}

static enum sp_status build(struct sp_builder *b, const char *format, size_t len,
                            const struct moment *t);

/* Appends one conversion with its flag; format[0] is '%'. */
static enum sp_status build_one(struct sp_builder *b, const char *format, size_t len, size_t *n,
                                const struct moment *t)
{
    char flag = len > 2 && strchr("-_0", format[1]) && format[1] ? format[1] : '\0', pad, text[24];
    char c = len > 1 ? format[flag ? 2 : 1] : '\0';
    int value, width;

    *n = flag ? 3 : 2;
    if (c == 'a') return sp_build(b, days[t->wday], 3);
    if (c == 'b' || c == 'h') return sp_build(b, months[t->at->month - 1], 3);
    if (c && text_of(t, c) != NULL) return sp_build_text(b, text_of(t, c));
    if (c && long_form(c) != NULL) return build(b, long_form(c), strlen(long_form(c)), t);
    if (!number_of(t, c, &value, &width, &pad)) {
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "strftime_now: conversion %.*s",
                       (int)(len < *n ? len : *n), format);
    }
    if (flag == '-') width = 1;
    if (flag == '_') pad = ' ';
    if (flag == '0') pad = '0';
    if (pad == '0')
        snprintf(text, sizeof text, "%0*d", width, value);
    else
        snprintf(text, sizeof text, "%*d", width, value);
    return sp_build_text(b, text);
}

static enum sp_status build(struct sp_builder *b, const char *format, size_t len,
                            const struct moment *t)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0, n = 1; i < len && !st; i += n) {
        n = 1;
        st = format[i] == '%' ? build_one(b, format + i, len - i, &n, t)
                              : sp_build(b, format + i, 1);
    }
    return st;
}

enum sp_status sp_jinja_build_time(struct sp_builder *b, struct sp_value format,
                                   const struct sp_template_time *now)
{
    struct moment t = {.at = now};

    if (now->year < 1 || now->year > 9999 || now->month < 1 || now->month > 12 || now->day < 1 ||
        now->day > 31) {
        return sp_fail(b->heap->err, SP_E_USAGE, "%d-%d-%d is no date", now->year, now->month,
                       now->day);
    }
    t.yday = day_of_year(now->year, now->month, now->day);
    t.wday = (first_weekday(now->year) + t.yday) % 7;
    return build(b, format.text, format.len, &t);
}
