#include "cli/chat/repl.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "format/base/mem.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000 };

struct sp_line_edit {
    EditLine *editor;
    History *history;
    char *path; /* file of the history; owned; NULL: none */
    char *line; /* the last line that was read; owned */
    size_t cap;
    bool interrupted;  /* an interrupt ended the last line */
    bool is_empty;     /* the line had no character when a signal came */
    bool screen;       /* the terminal supports bracketed paste */
    mbstate_t partial; /* state of a character that is partly read */
    char prompt[16];
    const char *const *texts; /* [n_texts] completions; borrowed */
    size_t n_texts;
    char completed[64]; /* the line after the last Tab */
};

static char *prompt_of(EditLine *editor)
{
    struct sp_line_edit *edit = NULL;

    el_get(editor, EL_CLIENTDATA, &edit);
    return edit->prompt;
}

/* ---- characters ---- */

static volatile sig_atomic_t resized, continued;

static void note_signal(int signal)
{
    if (signal == SIGWINCH)
        resized = 1;
    else
        continued = 1;
}

/* Installs signal handlers of our own, since libedit's (EL_SIGNAL) would pass an interrupt on to
 * the whole process group. */
static void install_handlers(void)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
}

/* Draws the line again if the window was resized or a shell used the terminal meanwhile. */
static void follow_terminal(EditLine *editor, const struct sp_line_edit *edit)
{
    if (!resized && !continued) return;
    if (continued) {
        el_set(editor, EL_PREP_TERM, 0);
        el_set(editor, EL_PREP_TERM, 1);
    }
    if (resized) el_resize(editor);
    resized = continued = 0;
    fputs(edit->screen ? "\r\033[J" : "\r\n", stdout);
    el_set(editor, EL_REFRESH);
}

/* Reads a character. Waits in poll, which every signal interrupts whatever its handler's flags. */
static int read_character(EditLine *editor, wchar_t *c)
{
    struct sp_line_edit *edit = NULL;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    size_t size;
    ssize_t n;
    char byte;

    el_get(editor, EL_CLIENTDATA, &edit);
    for (;;) {
        follow_terminal(editor, edit);
        if (sp_signals_caught()) {
            const LineInfoW *line = el_wline(editor);
            edit->is_empty = line->lastchar == line->buffer;
            return -1;
        }
        if (poll(&input, 1, -1) < 0) {
            if (errno == EINTR) continue;
            return -1;
        }
        if ((n = read(STDIN_FILENO, &byte, 1)) <= 0) return (int)n;
        size = mbrtowc(c, &byte, 1, &edit->partial);
        if (size == 0 || size == 1) return 1;
        if (size == (size_t)-1) memset(&edit->partial, 0, sizeof edit->partial);
    }
}

/* ---- pasted text ---- */

/* A terminal sends pasted text between these two sequences. */
static const char paste_begins[] = "\033[200~";
static const wchar_t paste_ends[] = L"\033[201~";
enum { PASTE_END_LEN = sizeof paste_ends / sizeof *paste_ends - 1 };

/* The pasted text up to the end sequence, for the caller to free; NULL: end of input or memory. */
static wchar_t *read_paste(EditLine *editor)
{
    wchar_t *text = NULL, c;
    size_t n = 0, cap = 0;

    while (el_wgetc(editor, &c) == 1) {
        if (sp_grow(&text, &cap, n + 1, sizeof *text, NULL)) break;
        text[n++] = c;
        if (n < PASTE_END_LEN) continue;
        if (wmemcmp(text + n - PASTE_END_LEN, paste_ends, PASTE_END_LEN) != 0) continue;
        text[n - PASTE_END_LEN] = L'\0';
        return text;
    }
    free(text);
    return NULL;
}

static bool is_line_end(wchar_t c)
{
    return c == L'\r' || c == L'\n';
}

/* Converts the line ends of pasted text to newlines and drops those at its end, since the user
 * sends the message. Two different line ends in a row count as one, because libedit makes the
 * terminal driver swap carriage returns and newlines. */
static void unify_line_ends(wchar_t *text)
{
    size_t n = 0;

    for (const wchar_t *c = text; *c; c++) {
        wchar_t first = *c;
        text[n++] = is_line_end(first) ? L'\n' : first;
        if (is_line_end(first) && is_line_end(c[1]) && c[1] != first) c++;
    }
    while (n > 0 && text[n - 1] == L'\n')
        n--;
    text[n] = L'\0';
}

static unsigned char insert_paste(EditLine *editor, int key)
{
    wchar_t *text = read_paste(editor);
    bool inserted;

    (void)key;
    if (text == NULL) return CC_ERROR;
    unify_line_ends(text);
    inserted = *text == L'\0' || el_winsertstr(editor, text) == 0;
    free(text);
    return inserted ? CC_REFRESH : CC_ERROR;
}

/* ---- completion ---- */

/* Writes the text before the cursor, runs of blanks as one; false: too long or not ASCII. */
static bool text_before_cursor(EditLine *editor, char *typed, size_t size)
{
    const LineInfoW *line = el_wline(editor);
    size_t n = 0;

    for (const wchar_t *c = line->buffer; c < line->cursor; c++) {
        if (*c >= 0x80 || n + 1 >= size) return false;
        if (*c != L' ' || n == 0 || typed[n - 1] != ' ') typed[n++] = (char)*c;
    }
    typed[n] = '\0';
    return true;
}

/* True if the text completes a command, which may end with a blank, or what follows a typed one. */
static bool completes(const char *text, const char *typed)
{
    size_t n = strlen(typed);
    const char *blank;

    if (strncmp(text, typed, n) != 0 || text[n] == '\0') return false;
    blank = strchr(text + n, ' ');
    return strchr(typed, ' ') || blank == NULL || blank[1] == '\0';
}

/* Shows what the command, or the text after it, may become, below the line. */
static void list_completions(const struct sp_line_edit *edit, const char *typed)
{
    enum { GAP = 2 };
    const char *blank = strchr(typed, ' ');
    size_t first = blank ? (size_t)(blank + 1 - typed) : 0;
    int widest = 0, column = 0, columns = sp_out_width(stdout);

    for (size_t i = 0; i < edit->n_texts; i++) {
        if (!completes(edit->texts[i], typed)) continue;
        int len = (int)strlen(edit->texts[i] + first);
        if (len > widest) widest = len;
    }
    putchar('\n');
    for (size_t i = 0; i < edit->n_texts; i++) {
        if (!completes(edit->texts[i], typed)) continue;
        if (column > 0 && column + widest >= columns) {
            putchar('\n');
            column = 0;
        }
        printf("%-*s", widest + GAP, edit->texts[i] + first);
        column += widest + GAP;
    }
    putchar('\n');
    fflush(stdout);
}

/* Completes a command's beginning as far as it is unique. A second Tab shows the completions. */
static unsigned char complete(EditLine *editor, int key)
{
    struct sp_line_edit *edit = NULL;
    char typed[64], more[64];
    const char *first = NULL;
    size_t n, same = 0, n_found = 0;
    bool again;

    (void)key;
    el_get(editor, EL_CLIENTDATA, &edit);
    if (!text_before_cursor(editor, typed, sizeof typed) || typed[0] != '/') return CC_ERROR;
    n = strlen(typed);
    for (size_t i = 0; i < edit->n_texts; i++) {
        const char *text = edit->texts[i];
        size_t k = 0;
        if (strncmp(text, typed, n) != 0) continue;
        while (first && text[k] && text[k] == first[k])
            k++;
        same = first == NULL ? strlen(text) : k < same ? k : same;
        first = first ? first : text;
        n_found++;
    }
    if (first == NULL || same - n >= sizeof more) return CC_ERROR;
    again = strcmp(edit->completed, typed) == 0;
    snprintf(edit->completed, sizeof edit->completed, "%.*s", (int)same, first);
    if (same == n) {
        if (!again || n_found < 2) return CC_ERROR;
        list_completions(edit, typed);
        return CC_REDISPLAY;
    }
    memcpy(more, first + n, same - n);
    more[same - n] = '\0';
    return el_insertstr(editor, more) == 0 ? CC_REFRESH : CC_ERROR;
}

void sp_line_edit_complete(struct sp_line_edit *edit, const char *const *texts, size_t n)
{
    edit->texts = texts;
    edit->n_texts = n;
}

static void bracket_pastes(const struct sp_line_edit *edit, bool on)
{
    if (!edit->screen) return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

enum sp_status sp_line_edit_open(struct sp_line_edit **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_line_edit *edit = NULL;
    HistEvent event;

    install_handlers();
    if ((st = sp_new(&edit, 1, sizeof *edit, err))) return st;
    if (path && (st = sp_copy_text(&edit->path, path, strlen(path), err))) goto done;
    edit->editor = el_init("spectool", stdin, stdout, stderr);
    edit->history = history_init();
    if (edit->editor == NULL || edit->history == NULL) {
        st = sp_fail(err, SP_E_NOMEM, "cannot start the line editor");
        goto done;
    }
    history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
    history(edit->history, &event, H_SETUNIQUE, 1);
    if (edit->path) history(edit->history, &event, H_LOAD, edit->path);
    el_set(edit->editor, EL_CLIENTDATA, edit);
    el_set(edit->editor, EL_PROMPT, prompt_of);
    el_wset(edit->editor, EL_GETCFN, read_character);
    el_set(edit->editor, EL_EDITOR, "emacs");
    el_set(edit->editor, EL_HIST, history, edit->history);
    el_set(edit->editor, EL_ADDFN, "insert-paste", "Insert what is pasted", insert_paste);
    el_set(edit->editor, EL_BIND, paste_begins, "insert-paste", NULL);
    el_set(edit->editor, EL_ADDFN, "complete", "Complete a command", complete);
    el_set(edit->editor, EL_BIND, "\t", "complete", NULL);
    edit->screen = sp_out_is_screen(stdout);
    *out = edit;
    edit = NULL;
done:
    sp_line_edit_close(edit);
    return st;
}

void sp_line_edit_close(struct sp_line_edit *edit)
{
    HistEvent event;

    if (edit == NULL) return;
    if (edit->history && edit->path) history(edit->history, &event, H_SAVE, edit->path);
    if (edit->editor) el_end(edit->editor);
    if (edit->history) history_end(edit->history);
    free(edit->path);
    free(edit->line);
    free(edit);
}

const char *sp_line_edit_read(struct sp_line_edit *edit, const char *prompt)
{
    HistEvent event;
    const char *line;
    int n = 0;

    snprintf(edit->prompt, sizeof edit->prompt, "%s", prompt);
    edit->completed[0] = '\0';
    edit->interrupted = false;
    if (sp_signals_caught()) return NULL;
    bracket_pastes(edit, true);
    resized = continued = 0;
    line = el_gets(edit->editor, &n);
    bracket_pastes(edit, false);
    if (sp_signals_caught()) {
        sp_signals_clear();
        if (sp_signals_caught()) return NULL;
        edit->interrupted = true;
        putchar('\n');
        return "";
    }
    if (line == NULL || n <= 0) return NULL;
    if (sp_grow(&edit->line, &edit->cap, (size_t)n + 1, 1, NULL)) return NULL;
    memcpy(edit->line, line, (size_t)n);
    while (n > 0 && (edit->line[n - 1] == '\n' || edit->line[n - 1] == '\r'))
        n--;
    edit->line[n] = '\0';
    if (n > 0) history(edit->history, &event, H_ENTER, edit->line);
    return edit->line;
}

bool sp_line_edit_interrupted(const struct sp_line_edit *edit)
{
    return edit->interrupted;
}

bool sp_line_edit_interrupted_empty(const struct sp_line_edit *edit)
{
    return edit->interrupted && edit->is_empty;
}

/* libedit has no function for its version: this is that of its header. */
void sp_line_edit_library(char *text, size_t size)
{
    snprintf(text, size, "libedit %d.%d", LIBEDIT_MAJOR, LIBEDIT_MINOR);
}
