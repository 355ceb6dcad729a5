#include "cli/serve/serve_start.h"
#include "cli/base/out.h"

#include <string.h>

enum { LOG_INDENT = 4 }; /* blanks before the rest of a line that is broken on a terminal */

/* Replaces characters of the request that are not printable ASCII by '?', so that a client cannot
 * send control sequences to the terminal. */
static void mask(char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7E) *text = '?';
}

/* Writes a request as a JSON object; `members` are further members of it. */
static void log_json(FILE *out, const char *time, const char *method, const char *path, int status,
                     const char *members, const char *ignored)
{
    struct sp_json_out json = {.file = out};
    char shown[201];

    snprintf(shown, sizeof shown, "%s", path);
    mask(shown);
    sp_json_out_put(&json, "{time:%s, method:%s, path:%s, status:%zu", time, method, shown,
                    (size_t)status);
    if (*members) sp_json_out_written(&json, NULL, members, strlen(members));
    if (*ignored) sp_json_out_text(&json, "ignored", ignored);
    sp_json_out_end_line(&json);
}

static void log_text(FILE *out, const char *time, const char *method, const char *path, int status,
                     const char *log_line, const char *ignored)
{
    char line[1280], result[32] = "client disconnected";

    if (status != 0) snprintf(result, sizeof result, "%d", status);
    snprintf(line, sizeof line, "%s %.16s %.200s %s%s%s%s%s", time, method, path, result,
             *log_line ? ": " : "", log_line, *ignored ? ", ignored: " : "", ignored);
    mask(line);
    sp_word_wrap_print(out, LOG_INDENT, "%s", line);
}

void sp_serve_log_request(void *context, const char *method, const char *path, int status,
                          const char *log_line, const char *ignored)
{
    const struct sp_serve *s = context;
    char time[SP_TIME_TEXT];

    sp_serve_metrics_response(s->metrics, status);
    if (s->quiet) return;
    flockfile(stderr);
    (s->log_json ? log_json : log_text)(stderr, sp_serve_time(time, NULL), method, path, status,
                                        log_line, ignored);
    funlockfile(stderr);
}

void sp_serve_log_model(const struct sp_serve *s, const struct sp_serve_model *m, const char *what,
                        double seconds)
{
    struct sp_json_out json = {.file = stderr};
    char time[SP_TIME_TEXT];

    if (s->quiet || s->n_models == 1) return;
    sp_serve_time(time, NULL);
    flockfile(stderr);
    if (s->log_json) {
        sp_json_out_put(&json, "{time:%s, event:%s, model:%s, seconds:%g}\n", time, what,
                        m->names[0], seconds);
    } else {
        char line[512];
        snprintf(line, sizeof line, "%s %s %.300s in %.3f s", time, what, m->names[0], seconds);
        mask(line);
        fprintf(stderr, "%s\n", line);
    }
    funlockfile(stderr);
}

void sp_serve_log_shutdown(const struct sp_serve *s, double seconds)
{
    const struct sp_serve_load load = sp_serve_queue_load(s->queue);
    const size_t n = load.n_pending;
    struct sp_json_out json = {.file = stderr};
    char time[SP_TIME_TEXT], limit[48] = "";

    if (n == 0 || seconds == 0) return;
    sp_serve_time(time, NULL);
    if (seconds > 0) snprintf(limit, sizeof limit, ", at most %g s", seconds);
    flockfile(stderr);
    if (s->log_json) {
        sp_json_out_put(&json, "{time:%s, event:'shutting down', pending:%zu, seconds:%g}\n", time,
                        n, seconds);
    } else {
        if (sp_out_is_screen(stderr)) fputc('\r', stderr); /* over the ^C that a terminal shows */
        sp_word_wrap_print(stderr, LOG_INDENT,
                           "%s waiting for %zu answer%s%s; a second signal ends the server at once",
                           time, n, n == 1 ? "" : "s", limit);
    }
    funlockfile(stderr);
}

/* Prints a request to try, for a shell: each of its lines fits 80 columns, if the names do. */
static void print_example(const struct sp_serve *s, const char *url)
{
    fprintf(stderr, "  curl %s/v1/chat/completions \\\n", url);
    if (s->keys->n > 0) fputs("    -H \"Authorization: Bearer $SPECTOOL_API_KEY\" \\\n", stderr);
    fputs("    -d '{", stderr);
    if (s->n_models > 1) fprintf(stderr, "\"model\": \"%s\",\n      ", s->all->names[0]);
    fputs("\"messages\": [{\"role\": \"user\", \"content\": \"Why is the sky blue?\"}]}'\n",
          stderr);
}

void sp_serve_announce(const struct sp_serve *s, const char *url)
{
    const struct sp_serve_model *m = s->all;
    const struct sp_loaded_model *loaded = m->loaded;
    const char *what = strncmp(url, "http", 4) == 0 ? "APIs and a page for browsers " : "";

    if (s->n_models == 1) {
        sp_word_wrap_print(stderr, LOG_INDENT, "%s: %s, draft %s, %zu tokens of context, %sat %s",
                           m->names[0], m->file.facts.parts[SP_PART_TARGET].config.family,
                           loaded->no_draft || loaded->info.draft == NULL ? "none"
                                                                          : loaded->info.draft,
                           m->n_context, what, url);
    } else {
        fprintf(stderr, "%zu models:", s->n_models);
        for (size_t i = 0; i < s->n_models; i++)
            fprintf(stderr, "%s %s", i ? "," : "", m[i].names[0]);
        fprintf(stderr, "; %sat %s\n", what, url);
    }
    if (sp_out_is_terminal(stderr)) print_example(s, url);
    fflush(stderr);
}
