/* Writes the figures of bench as a chart. The left plot shows the time of a pass by its number of
 * rows, one line per depth. The right plot shows tokens per second: with and without drafting for
 * each prompt.
 *
 * The chart is plain SVG 1.1 without external resources. */
#include "cli/bench/bench.h"
#include "format/base/atomic_file.h"
#include "format/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The layout, in SVG user units; one unit is one pixel at full size. */
enum {
    WIDTH = 960,
    HEIGHT = 420,
    PLOT_TOP = 90,
    PLOT_HEIGHT = 250,
    PLOT_WIDTH = 360,
    LEFT_PLOT = 70,
    RIGHT_PLOT = 550,
    N_TICKS = 5,
    LABEL_WIDTH = 18, /* of the narrowest bar that has its rate above it */
};

static const char *const line_colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                          "#8c564b", "#e377c2", "#17becf", "#7f7f7f"};
static const char plain_color[] = "#9aa5b1", drafted_color[] = "#ff7f0e";

enum { N_COLORS = sizeof line_colors / sizeof *line_colors };

static void write_text(FILE *out, double x, double y, const char *anchor, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '&' || c == '<' || c == '>' || c == '"')
            fprintf(out, "&#%u;", c);
        else
            fputc(c >= 0x20 && c < 0x7f ? c : '?', out);
    }
    fputs("</text>\n", out);
}

/* A round end of an axis, at least `value`: N_TICKS times 1, 2, 2.5 or 5 times a power of 10. */
static double round_up(double value)
{
    static const double steps[] = {1, 2, 2.5, 5};

    for (double power = 1e-6; power < 1e12; power *= 10) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
            if (steps[i] * power * (double)N_TICKS >= value)
                return steps[i] * power * (double)N_TICKS;
    }
    return value;
}

static double height_of(double value, double top)
{
    return value / top * (double)PLOT_HEIGHT;
}

/* Writes the title, the horizontal lines and their labels. */
static void write_frame(FILE *out, double left, double top, const char *title)
{
    double bottom = PLOT_TOP + PLOT_HEIGHT;
    char label[32];

    write_text(out, left, PLOT_TOP - 14, "start", title);
    for (int i = 0; i <= N_TICKS; i++) {
        double y = bottom - (double)PLOT_HEIGHT * i / (double)N_TICKS;
        fprintf(out, "<path d=\"M%.1f %.1fh%d\" stroke=\"#d8dde3\"/>\n", left, y, PLOT_WIDTH);
        snprintf(label, sizeof label, "%g", top * i / (double)N_TICKS);
        write_text(out, left - 6, y + 4, "end", label);
    }
}

static double row_x(size_t n_rows)
{
    return LEFT_PLOT + (double)PLOT_WIDTH * (double)n_rows / (double)(SP_BENCH_MAX_ROWS + 1);
}

static const char *color_of(size_t index)
{
    return line_colors[index % N_COLORS];
}

/* Writes the legend of line `index` of a plot. */
static void write_legend(FILE *out, double left, size_t index, const char *label)
{
    fprintf(out, "<rect x=\"%.1f\" y=\"%zu\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", left + 10,
            PLOT_TOP + 6 + 16 * index, color_of(index));
    write_text(out, left + 26, (double)(PLOT_TOP + 15 + 16 * index), "start", label);
}

static void write_line(FILE *out, const struct sp_bench_depth *d, size_t color, double top)
{
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
            color_of(color));
    for (size_t k = 0; k < SP_BENCH_ROW_COUNTS; k++)
        fprintf(out, "%s%.1f,%.1f", k ? " " : "", row_x(sp_bench_row_counts[k]),
                PLOT_TOP + PLOT_HEIGHT - height_of(d->verify_seconds[k] * 1e3, top));
    fputs("\"/>\n", out);
}

static void write_rows(FILE *out, const struct sp_bench *b)
{
    double longest = 0, top;
    char label[48];

    for (size_t i = 0; i < b->n_depths; i++)
        for (size_t k = 0; k < SP_BENCH_ROW_COUNTS; k++)
            longest = fmax(longest, b->depths[i].verify_seconds[k]);
    top = round_up(longest * 1e3);
    write_frame(out, LEFT_PLOT, top, "Milliseconds per forward pass, by rows");
    for (size_t k = 0; k < SP_BENCH_ROW_COUNTS; k++) {
        snprintf(label, sizeof label, "%zu", sp_bench_row_counts[k]);
        write_text(out, row_x(sp_bench_row_counts[k]), PLOT_TOP + PLOT_HEIGHT + 18, "middle",
                   label);
    }
    for (size_t i = 0; i < b->n_depths; i++) {
        write_line(out, &b->depths[i], i, top);
        snprintf(label, sizeof label, "after %zu tokens", b->depths[i].n_before);
        write_legend(out, LEFT_PLOT, i, label);
    }
}

static void write_bar(FILE *out, double x, double width, double rate, double top, const char *color)
{
    double height = height_of(rate, top);
    char label[32];

    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x,
            PLOT_TOP + PLOT_HEIGHT - height, width, height, color);
    if (width < LABEL_WIDTH) return;
    snprintf(label, sizeof label, "%.0f", rate);
    write_text(out, x + width / 2, PLOT_TOP + PLOT_HEIGHT - height - 4, "middle", label);
}

static void write_bars(FILE *out, const struct sp_bench *b)
{
    double highest = 0, top, step = (double)PLOT_WIDTH / (double)b->n_prompts;
    double width = step * 0.35, bottom = PLOT_TOP + PLOT_HEIGHT;
    char label[64];

    for (size_t i = 0; i < b->n_prompts; i++)
        highest = fmax(highest, fmax(b->prompts[i].plain.rate, b->prompts[i].drafted.rate));
    top = round_up(highest * 1.05);
    write_frame(out, RIGHT_PLOT, top, "Tokens per second, by prompt");
    for (size_t i = 0; i < b->n_prompts; i++) {
        const struct sp_bench_prompt *p = &b->prompts[i];
        double middle = (double)RIGHT_PLOT + step * ((double)i + 0.5);
        write_bar(out, b->info.draft ? middle - width : middle - width / 2, width, p->plain.rate,
                  top, plain_color);
        if (b->info.draft) write_bar(out, middle, width, p->drafted.rate, top, drafted_color);
        snprintf(label, sizeof label, "%zu", i + 1);
        write_text(out, middle, bottom + 18, "middle", label);
    }
    fprintf(out, "<g fill=\"%s\">\n", plain_color);
    write_text(out, RIGHT_PLOT, bottom + 46, "start", "plain");
    fputs("</g>\n", out);
    if (b->info.draft == NULL) return;
    snprintf(label, sizeof label, "SIMULATED, acceptance %g", b->options->acceptance);
    fprintf(out, "<g fill=\"%s\">\n", drafted_color);
    write_text(out, RIGHT_PLOT + 60, bottom + 46, "start",
               sp_bench_simulated(b) ? label : "drafted");
    fputs("</g>\n", out);
}

/* The first line of a chart, by which an existing one is recognized; other files are kept. */
#define SVG_START "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "

static void write_chart(FILE *out, const struct sp_bench *b)
{
    fprintf(out,
            SVG_START
            "xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
            "<title>spectool bench</title>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    fputs("<g font-size=\"16\">\n", out);
    write_text(out, LEFT_PLOT, 34, "start", b->name);
    fputs("</g>\n", out);
    write_rows(out, b);
    fprintf(out, "<text x=\"%d\" y=\"54\">%u thread%s, %s kernels, medians of %zu</text>\n",
            LEFT_PLOT, b->info.n_threads, b->info.n_threads == 1 ? "" : "s", b->info.kernels,
            b->options->n_repeat);
    write_bars(out, b);
    fputs("</svg>\n", out);
}

enum sp_status sp_bench_check_svg(const char *path, struct sp_err *err)
{
    struct sp_atomic_file *output = NULL;
    enum sp_status st;

    st = sp_atomic_file_check_replaced(path, SVG_START, sizeof SVG_START - 1, "chart", err);
    if (!st) st = sp_atomic_file_open(&output, path, true, 0, err);
    sp_atomic_file_close(output);
    return st;
}

enum sp_status sp_bench_write_svg(const struct sp_bench *bench, const char *path,
                                  struct sp_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    enum sp_status st;

    if (out == NULL) return sp_fail(err, SP_E_NOMEM, "out of memory: a chart");
    write_chart(out, bench);
    if (!(st = sp_close_text(out, &text, err)) && !(st = sp_bench_check_svg(path, err)))
        st = sp_atomic_file_write_file(path, true, text, size, err);
    free(text);
    return st;
}
