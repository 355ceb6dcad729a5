/* _XOPEN_SOURCE declares wcwidth. */
#define _XOPEN_SOURCE 700
#include "cli/base/out.h"

#include <string.h>
#include <wchar.h>

enum { TAB_COLUMNS = 8, FENCE_LENGTH = 3 };

void sp_word_wrap_begin(struct sp_word_wrap *w, FILE *file)
{
    const int width = sp_out_is_screen(file) ? sp_out_width(file) - 1 : 0;

    *w = (struct sp_word_wrap){.file = file, .width = width, .begins = true};
}

static void begin_line(struct sp_word_wrap *w)
{
    w->column = w->columns = 0;
    w->size = w->n_fence = 0;
    w->begins = true;
    w->opens = false;
    w->is_too_long = false;
}

/* *size = the length of the first character. Returns its columns: 0 for a combining character. */
static int measure(size_t *size, const char *text, size_t most)
{
    mbstate_t state = {0};
    wchar_t c;
    size_t n = mbrtowc(&c, text, most, &state);
    int columns;

    *size = n == 0 || n > most ? 1 : n;
    while (n > most && *size < most && ((unsigned char)text[*size] & 0xC0) == 0x80)
        ++*size;
    columns = n == 0 || n > most ? 1 : wcwidth(c);
    return columns < 0 ? 1 : columns;
}

/* Follows the fences: three or more backticks or tildes at the beginning of a line begin code, and
 * a line of at least as many and nothing else ends it. */
static void watch_for_fence(struct sp_word_wrap *w, char c)
{
    bool is_fence = c == '`' || c == '~';

    if (!w->begins || c == ' ' || c == '\r') return;
    if (c == '\n') {
        if (w->is_code && !w->opens && w->n_fence >= w->n_opening) w->is_code = false;
        return;
    }
    if (!is_fence || ((w->is_code || w->n_fence > 0) && c != w->fence)) {
        w->begins = false;
        return;
    }
    w->fence = c;
    w->n_fence++;
    if (w->is_code ? w->opens : w->n_fence == FENCE_LENGTH) {
        w->is_code = w->opens = true;
        w->n_opening = w->n_fence;
    }
}

/* Moves the word, shown except its last `size` bytes (`columns` columns), to the next line. */
static void move_word(struct sp_word_wrap *w, size_t size, int columns)
{
    if (w->columns > columns) fprintf(w->file, "\033[%dD\033[K", w->columns - columns);
    fprintf(w->file, "\n%*s", w->indent, "");
    sp_out_text(w->file, w->word, w->size - size);
    w->column = w->indent + w->columns;
    w->begins = false;
}

/* Adds a character to the word, and begins a new line if the word does not fit. */
static void add_character(struct sp_word_wrap *w, const char *text, size_t size, int columns)
{
    w->column += columns;
    w->columns += columns;
    if (w->size + size > sizeof w->word || w->columns > w->width) w->is_too_long = true;
    if (w->is_too_long) {
        w->size = 1;
    } else {
        memcpy(w->word + w->size, text, size);
        w->size += size;
        if (w->column > w->width && !w->is_code) move_word(w, size, columns);
    }
    sp_out_text(w->file, text, size);
}

static void end_word(struct sp_word_wrap *w)
{
    if (w->is_too_long) w->column %= w->width + 1; /* the terminal has broken it */
    w->size = 0;
    w->columns = 0;
    w->is_too_long = false;
}

void sp_word_wrap_text(struct sp_word_wrap *w, const char *text, size_t size)
{
    size_t n;

    if (w->width == 0) {
        sp_out_text(w->file, text, size);
        return;
    }
    for (; size > 0; text += n, size -= n) {
        int columns = measure(&n, text, size);
        watch_for_fence(w, *text);
        if (*text == '\n') {
            sp_out_text(w->file, text, n);
            begin_line(w);
        } else if (*text == ' ' || *text == '\t') {
            end_word(w);
            w->column += *text == '\t' ? TAB_COLUMNS - w->column % TAB_COLUMNS : 1;
            /* A blank that would be the first of the next line is dropped. */
            if (w->column <= w->width || w->is_code) sp_out_text(w->file, text, n);
        } else {
            if (columns == 2) end_word(w); /* Chinese and Japanese have no blanks between words */
            add_character(w, text, n, columns);
            if (columns == 2) end_word(w);
        }
    }
}

void sp_word_wrap_sentence(FILE *file, int indent, const char *format, va_list args)
{
    struct sp_word_wrap wrap;
    char text[SP_WRAP_SENTENCE_SIZE];
    int n = vsnprintf(text, sizeof text, format, args);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;

    sp_word_wrap_begin(&wrap, file);
    wrap.indent = indent < wrap.width / 2 ? indent : 0;
    sp_word_wrap_text(&wrap, text, size);
    putc('\n', file);
}

void sp_word_wrap_print(FILE *file, int indent, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sp_word_wrap_sentence(file, indent, format, args);
    va_end(args);
}

void sp_note(const char *command, const char *format, ...)
{
    char sentence[SP_WRAP_SENTENCE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    sp_word_wrap_print(stderr, 0, "spectool %s: note: %s", command, sentence);
}
