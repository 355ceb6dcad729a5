#include "cli/line_edit.h"
#include "cli/out.h"
#include "format/mem.h"

#include <histedit.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { HISTORY_LINES = 1000 };

struct sp_line_edit {
    EditLine *editor;
    History *history;
    char *path; /* of the history, or NULL */
    char *line; /* last one read */
    size_t cap;
    char prompt[16];
};

static char *prompt_of(EditLine *editor)
{
    struct sp_line_edit *edit = NULL;

    el_get(editor, EL_CLIENTDATA, &edit);
    return edit->prompt;
}

/* LC_CTYPE only: numbers keep their point. */
enum sp_status sp_line_edit_open(struct sp_line_edit **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_line_edit *edit = NULL;
    HistEvent event;

    setlocale(LC_CTYPE, "");
    if ((st = sp_new(&edit, 1, sizeof *edit, err))) return st;
    if (path && (st = sp_copy_text(&edit->path, path, strlen(path), err))) goto done;
    edit->editor = el_init("spectool", stdin, stdout, stderr);
    edit->history = history_init();
    if (edit->editor == NULL || edit->history == NULL) {
        st = sp_fail(err, SP_E_NOMEM, "the line editor does not start");
        goto done;
    }
    history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
    history(edit->history, &event, H_SETUNIQUE, 1);
    if (edit->path) history(edit->history, &event, H_LOAD, edit->path);
    el_set(edit->editor, EL_CLIENTDATA, edit);
    el_set(edit->editor, EL_PROMPT, prompt_of);
    el_set(edit->editor, EL_EDITOR, "emacs");
    el_set(edit->editor, EL_HIST, history, edit->history);
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
    line = el_gets(edit->editor, &n);
    if (sp_signals_caught()) {
        sp_signals_clear();
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
