#include "cli/base/out.h"
#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int sp_out_width(FILE *stream)
{
    struct winsize size;

    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

bool sp_out_is_terminal(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

bool sp_out_is_screen(FILE *stream)
{
    const char *terminal = getenv("TERM");

    return sp_out_is_terminal(stream) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

void sp_out_text(FILE *out, const char *text, size_t size)
{
    char piece[512];
    size_t n;

    if (!sp_out_is_terminal(out)) {
        fwrite(text, 1, size, out);
        return;
    }
    for (; size > 0; text += n, size -= n) {
        n = size < sizeof piece ? size : sizeof piece;
        while (n < size && n > sizeof piece - SP_UTF8_MAX && ((uint8_t)text[n] & 0xC0) == 0x80)
            n--;
        memcpy(piece, text, n);
        sp_utf8_hide_controls(piece, n, "\n\t");
        fwrite(piece, 1, n, out);
    }
}

void sp_progress_begin(struct sp_progress *progress, const char *label, const char *unit)
{
    *progress = (struct sp_progress){
        .on = sp_out_is_screen(stderr), .label = label, .unit = unit, .start = sp_seconds()};
}

/* Appends rate and remaining time once enough time has passed to estimate them. */
static void append_rate(char *line, size_t cap, const struct sp_progress *p, uint64_t done,
                        uint64_t total, double elapsed)
{
    static const double min_elapsed = 0.1, most = 100 * 3600.0;
    char rate[SP_AMOUNT_TEXT];
    uint64_t now = done > p->before ? done - p->before : 0;
    double speed = elapsed >= min_elapsed ? (double)now / elapsed : 0;
    double left = speed > 0 ? (double)(total - done) / speed : most;
    size_t len = strlen(line);

    if (left >= most) return;
    if (p->unit && speed < 10)
        snprintf(rate, sizeof rate, "%.1f", speed);
    else
        (p->unit ? sp_out_count : sp_out_size)(rate, (uint64_t)speed);
    snprintf(line + len, cap - len, "  %s/s  %d:%02d left", rate, (int)left / 60, (int)left % 60);
}

enum {
    LEAST_BAR = 4, /* characters between the brackets */
    MOST_BAR = 40,
    BAR_SIZE = MOST_BAR + 4,
    OTHER_COLUMNS = 56, /* of a line beside its label and its bar */
};

/* Writes "[###...] " of this width; nothing if that is too narrow to show anything. */
static void write_bar(char bar[BAR_SIZE], int width, double part)
{
    int filled;

    bar[0] = '\0';
    if (width > MOST_BAR) width = MOST_BAR;
    if (width < LEAST_BAR) return;
    filled = (int)(part * width);
    memset(bar + 1, '.', (size_t)width);
    memset(bar + 1, '#', (size_t)filled);
    bar[0] = '[';
    snprintf(bar + 1 + width, 3, "] ");
}

/* Draws the bar in one line, cut at the terminal's width: a wrapped line could not be erased. */
static void draw(const struct sp_progress *p, uint64_t done, uint64_t total, double elapsed)
{
    const char *(*amount)(char *, uint64_t) = p->unit ? sp_out_count : sp_out_size;
    char line[256], bar[BAR_SIZE], have[SP_AMOUNT_TEXT], all[SP_AMOUNT_TEXT];
    double part = total ? (double)done / (double)total : 1;
    int columns = sp_out_width(stderr);

    write_bar(bar, columns - (int)strlen(p->label) - OTHER_COLUMNS, part);
    if (total > 0) {
        snprintf(line, sizeof line, "%s %s%3d%%  %s of %s%s%s", p->label, bar, (int)(part * 100),
                 amount(have, done), amount(all, total), p->unit ? " " : "",
                 p->unit ? p->unit : "");
        append_rate(line, sizeof line, p, done, total, elapsed);
    } else {
        snprintf(line, sizeof line, "%s: %s%s%s", p->label, amount(have, done), p->unit ? " " : "",
                 p->unit ? p->unit : "");
    }
    fprintf(stderr, "\r%.*s\x1b[K", columns - 1, line);
    fflush(stderr);
}

void sp_progress_show(struct sp_progress *p, uint64_t done, uint64_t total)
{
    double now;

    if (!p->on) return;
    now = sp_seconds();
    if (total > 0 && done > total) done = total;
    if (p->drawn && now - p->last < 0.1) return;
    draw(p, done, total, now - p->start);
    p->drawn = true;
    p->last = now;
}

void sp_progress_end(struct sp_progress *p)
{
    if (p->drawn) fputs("\r\x1b[K", stderr);
    *p = (struct sp_progress){0};
}

const char *sp_out_size(char text[SP_AMOUNT_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes / 1000;
    size_t unit = 0;

    if (bytes < 1000) {
        snprintf(text, SP_AMOUNT_TEXT, "%" PRIu64 " bytes", bytes);
        return text;
    }
    for (; v >= 999.5; unit++)
        v /= 1000;
    snprintf(text, SP_AMOUNT_TEXT,
             v < 9.995   ? "%.2f %s"
             : v < 99.95 ? "%.1f %s"
                         : "%.0f %s",
             v, units[unit]);
    return text;
}

const char *sp_out_count(char text[SP_AMOUNT_TEXT], uint64_t n)
{
    static const char units[] = {'K', 'M', 'B', 'T'};
    double v = (double)n / 1000;
    size_t unit = 0;

    if (n < 1000) {
        snprintf(text, SP_AMOUNT_TEXT, "%" PRIu64, n);
        return text;
    }
    for (; v >= 999.95 && unit < sizeof units - 1; unit++)
        v /= 1000;
    snprintf(text, SP_AMOUNT_TEXT, "%.1f%c", v, units[unit]);
    return text;
}

void sp_table_add(struct sp_table *table, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sp_utf8_hide_controls(text, strlen(text), "");
    if (table->st) return;
    table->st = sp_grow(&table->cells, &table->cap, table->n + 1, sizeof *table->cells, table->err);
    if (!table->st)
        table->st = sp_copy_text(&table->cells[table->n], text, strlen(text), table->err);
    if (!table->st) table->n++;
}

/* Returns the width of a text in characters. */
static int shown_width(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

enum sp_status sp_table_print(FILE *out, struct sp_table *table, int indent)
{
    size_t n_cols = strlen(table->align);
    int *widths = table->widths, most = sp_out_is_screen(out) ? sp_out_width(out) : INT_MAX, x = 0;

    if (table->st) return table->st;
    for (size_t i = table->n_printed; i < table->n; i++) {
        int width = shown_width(table->cells[i]);
        if (width > widths[i % n_cols]) widths[i % n_cols] = width;
    }
    for (size_t i = table->n_printed; i < table->n; i++) {
        size_t col = i % n_cols;
        int pad = widths[col] - shown_width(table->cells[i]);
        bool right = table->align[col] == 'r', last = col + 1 == n_cols;
        if (col && x + 2 + widths[col] > most) x = fprintf(out, "\n%*s", indent + 2, "") - 1;
        x = (col ? x + 2 : indent) + widths[col];
        fprintf(out, "%*s%*s%s", col ? 2 : indent, "", right ? pad : 0, "", table->cells[i]);
        fprintf(out, "%*s%s", right || last ? 0 : pad, "", last ? "\n" : "");
    }
    table->n_printed = table->n;
    return SP_OK;
}

void sp_table_release(struct sp_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct sp_table){0};
}

/* Opens each stream for the wrong direction, so that using it fails as before. */
void sp_out_open_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
    }
}
