/* The calling thread reads lines and puts their jobs into the queue. Another one waits for the
 * answers in the order of the lines and writes them. */
#include "cli/serve/batch.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "format/base/clock.h"
#include "format/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most pending lines per session. While one long answer is generated, the other sessions go on
 * with the lines after it. */
enum { LINES_PER_SESSION = 16 };

/* Pending lines of more bytes wait for the first of them. */
static const size_t most_bytes = (size_t)64 << 20;

struct batch {
    const struct sp_batch_options *options;
    struct sp_batch_server server;
    struct sp_progress progress;
    /* lines so far; lines of standard input, 0 if it is not a file */
    size_t n_read, n_input;
    size_t n_seen, part_begin,
        part_end; /* lines of the input; part_end: after the last to answer */
    /* The following fields are the writer's. */
    struct sp_batch_output output;
    size_t n_written;            /* answers in the output */
    size_t n_tokens;             /* of answers in spectool's own format */
    size_t n_failed;             /* lines with an error as their answer */
    size_t n_out_of_memory;      /* lines that failed for lack of memory */
    struct sp_err first_failure; /* of the first line that failed, or ran out of memory */
    /* The following fields are protected by the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sp_batch_line *first, *last; /* lines whose answers were not written yet */
    size_t n_lines, n_bytes;
    bool ended; /* no more lines are read */
    struct sp_err err;
};

/* ---- the server without connections ---- */

static void close_server(struct sp_batch_server *s)
{
    if (s->serve.queue) sp_serve_queue_close(s->serve.queue, true);
    while (s->n_threads > 0)
        pthread_join(s->threads[--s->n_threads], NULL);
    free(s->threads);
    sp_serve_model_release(&s->model);
    sp_serve_queue_free(s->serve.queue);
    sp_serve_metrics_free(s->serve.metrics);
    sp_session_pool_free(s->sessions);
}

/* Starts the threads that generate. The caller calls close_server, after a failure too. */
static enum sp_status open_server(struct sp_batch_server *s, struct sp_loaded_model *m,
                                  const struct sp_batch_options *options, struct sp_err *err)
{
    const size_t n = options->n_sessions;
    enum sp_status st;

    s->serve.version = sp_version();
    s->serve.template_locks = s->template_locks;
    s->began_at = (uint64_t)time(NULL);
    s->refused = options->refused;
    if ((st = sp_session_pool_new(&s->sessions, m->session, n, err))) return st;
    if ((st = sp_serve_model_attach(&s->model, m, s->sessions, err))) return st;
    if ((st = sp_serve_metrics_new(&s->serve.metrics, 1, err))) return st;
    st = sp_serve_queue_new(&s->serve.queue, LINES_PER_SESSION * n, n, err);
    if (st || (st = sp_new(&s->threads, n, sizeof *s->threads, err))) return st;
    while (s->n_threads < n &&
           pthread_create(&s->threads[s->n_threads], NULL, sp_serve_job_run_all, &s->serve) == 0)
        s->n_threads++;
    return s->n_threads ? SP_OK : sp_fail(err, SP_E_NOMEM, "cannot create a thread for generation");
}

/* ---- the writer ---- */

/* Counts a line that failed. An error for lack of memory is reported before any other. */
static void count_failure(struct batch *b, const struct sp_err *err)
{
    bool memory = err->status == SP_E_NOMEM;

    if (b->n_failed == 0 || (memory && b->n_out_of_memory == 0)) b->first_failure = *err;
    b->n_failed++;
    b->n_out_of_memory += memory;
}

/* Waits for the answer to a line and writes it. */
static enum sp_status write_answer(struct batch *b, struct sp_batch_line *line, struct sp_err *err)
{
    struct sp_err line_err = {0};
    struct sp_json_out out = {.file = b->output.file};
    enum sp_status st;

    if ((st = sp_batch_output_drop_tail(&b->output, err))) return st;
    st = sp_batch_line_end(&out, &b->server, line, &line_err);
    if (sp_batch_is_line_error(st))
        count_failure(b, &line_err);
    else if (st)
        return sp_fail_as(err, &line_err);
    if (!line->is_openai && !line->is_anthropic) b->n_tokens += line->job.usage.n_ids;
    b->n_written++;
    sp_progress_show(&b->progress, b->n_written, b->n_input);
    return sp_batch_output_flush(&b->output, err);
}

static void end_with(struct batch *b, const struct sp_err *err)
{
    if (b->err.status == SP_OK) b->err = *err;
    b->ended = true;
}

/* Returns the first line when there is one; NULL: all lines were answered. */
static struct sp_batch_line *wait_for_line(struct batch *b)
{
    struct sp_batch_line *line;

    pthread_mutex_lock(&b->lock);
    while (b->first == NULL && !b->ended)
        pthread_cond_wait(&b->changed, &b->lock);
    line = b->first;
    pthread_mutex_unlock(&b->lock);
    return line;
}

/* Writes answers until the last, or until one cannot be had or written. */
static void *write_answers(void *context)
{
    struct batch *b = context;
    struct sp_batch_line *line;
    struct sp_err err = {0};

    while (err.status == SP_OK && (line = wait_for_line(b)) != NULL) {
        (void)!write_answer(b, line, &err);
        pthread_mutex_lock(&b->lock);
        if (err.status) end_with(b, &err);
        b->first = line->next;
        b->n_lines--;
        b->n_bytes -= line->size;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
        sp_batch_line_free(&b->server, line);
    }
    return NULL;
}

/* ---- the reader ---- */

/* True if the batch has ended, so that reading input stops. */
static bool has_ended(void *context)
{
    struct batch *b = context;
    bool ended;

    pthread_mutex_lock(&b->lock);
    ended = b->ended || sp_signals_caught();
    pthread_mutex_unlock(&b->lock);
    return ended;
}

/* Checks that the output has the answer to this line. */
static enum sp_status skip_line(struct batch *b, const char *text, size_t size, struct sp_err *err)
{
    struct sp_batch_line line = {.number = 0};
    enum sp_status st;

    (void)!sp_batch_line_parse(&line, text, size, NULL); /* the answer may be the error of this */
    st = sp_batch_output_match(&b->output, b->n_read++, line.custom_id, err);
    sp_json_free(line.json);
    return st;
}

static enum sp_status add_line(void *context, size_t number, const char *text, size_t size,
                               struct sp_err *err)
{
    struct batch *b = context;
    struct sp_batch_line *line = NULL;
    size_t at = b->n_seen++;
    enum sp_status st;

    if (at < b->part_begin || at >= b->part_end) return SP_OK;
    if (b->n_read < b->output.n_kept) return skip_line(b, text, size, err);
    b->n_read++;
    pthread_mutex_lock(&b->lock);
    while (!b->ended && (b->n_lines >= LINES_PER_SESSION * b->options->n_sessions ||
                         (b->n_lines > 0 && b->n_bytes + size > most_bytes)))
        pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    if ((st = sp_new(&line, 1, sizeof *line, err))) return st;
    line->number = number;
    sp_batch_line_begin(&b->server, line, text, size);
    pthread_mutex_lock(&b->lock);
    if (b->first == NULL)
        b->first = line;
    else
        b->last->next = line;
    b->last = line;
    b->n_lines++;
    b->n_bytes += size;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return SP_OK;
}

static enum sp_status read_lines(struct batch *b, struct sp_err *err)
{
    struct sp_err line_err = {0};
    pthread_t writer;
    enum sp_status st;

    if (pthread_create(&writer, NULL, write_answers, b))
        return sp_fail(err, SP_E_NOMEM, "cannot create a thread for the answers");
    st = sp_each_line(add_line, has_ended, b, "one JSON prompt per line", &line_err);
    if (st == SP_OK && sp_signals_caught()) st = sp_fail(&line_err, SP_E_CANCELLED, "interrupted");
    if (st == SP_OK && b->n_read < b->output.n_kept) {
        st = sp_fail(&line_err, SP_E_INPUT, "%s has %zu answers, but the input %zu lines",
                     b->output.path, b->output.n_kept, b->n_read);
    }
    pthread_mutex_lock(&b->lock);
    if (st) end_with(b, &line_err);
    b->ended = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(writer, NULL);
    return SP_OK;
}

/* Reports the lines that failed, or what is left of an interrupted batch. */
static enum sp_status finish(const struct batch *b, struct sp_err *err)
{
    size_t n = b->n_failed + b->output.n_kept_failures;

    if (b->err.status == SP_E_CANCELLED && b->output.path != NULL) {
        return sp_fail(err, SP_E_CANCELLED,
                       "interrupted; %s has %zu answer%s, and the same command continues after %s",
                       b->output.path, b->n_written, b->n_written == 1 ? "" : "s",
                       b->n_written == 1 ? "it" : "them");
    }
    if (b->err.status) return sp_fail_as(err, &b->err);
    if (n == 0) return SP_OK;
    if (b->n_failed == 0) {
        return sp_fail(err, SP_E_CHECK,
                       "%zu of %zu lines failed in earlier runs; remove %s, or its lines from "
                       "the first failed one on, to repeat them",
                       n, b->n_written, b->output.path);
    }
    return sp_fail(err, b->n_out_of_memory ? SP_E_NOMEM : SP_E_CHECK, "%zu of %zu lines failed: %s",
                   n, b->n_written, b->first_failure.text);
}

/* The number of lines of standard input that are not blank, if it is a file, else 0. */
static size_t count_input(void)
{
    char text[1 << 16];
    struct stat s;
    off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    bool blank = true;
    size_t lines = 0;
    ssize_t n;

    if (fstat(STDIN_FILENO, &s) || !S_ISREG(s.st_mode)) return 0;
    for (; at >= 0 && (n = pread(STDIN_FILENO, text, sizeof text, at)) > 0; at += n) {
        for (ssize_t i = 0; i < n; i++) {
            lines += blank && strchr(" \t\r\n", text[i]) == NULL;
            blank = text[i] == '\n' || (blank && strchr(" \t\r", text[i]) != NULL);
        }
    }
    return lines;
}

/* Determines the lines to read. The parts of a file, in order, are the whole file. */
static enum sp_status choose_lines(struct batch *b, struct sp_err *err)
{
    size_t part = b->options->part, n_parts = b->options->n_parts, n;
    struct stat s;

    b->part_end = SIZE_MAX;
    if (n_parts == 0) {
        b->n_input = b->progress.on ? count_input() : 0;
        return SP_OK;
    }
    if (fstat(STDIN_FILENO, &s) || !S_ISREG(s.st_mode))
        return sp_fail(err, SP_E_USAGE, "--part requires a file as standard input");
    n = count_input();
    b->part_begin = n / n_parts * (part - 1) + n % n_parts * (part - 1) / n_parts;
    b->part_end = n / n_parts * part + n % n_parts * part / n_parts;
    b->n_input = b->part_end - b->part_begin;
    return SP_OK;
}

static void print_end(const struct batch *b, double seconds)
{
    size_t n = b->n_written - b->output.n_kept;

    if (n == 0 || b->options->quiet || !sp_out_is_terminal(stderr)) return;
    fprintf(stderr, "%zu answer%s, %zu failed", n, n == 1 ? "" : "s", b->n_failed);
    if (b->n_tokens > 0 && seconds > 0)
        fprintf(stderr, ", %zu tokens, %.1f tokens/s", b->n_tokens, (double)b->n_tokens / seconds);
    putc('\n', stderr);
}

enum sp_status sp_batch(struct sp_loaded_model *model, const struct sp_batch_options *options,
                        struct sp_err *err)
{
    struct batch b = {
        .options = options,
        .server.template_locks = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER},
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER};
    double began = sp_seconds();
    enum sp_status st;

    if ((st = open_server(&b.server, model, options, err))) goto done;
    if ((st = sp_batch_output_open(&b.output, options->output, err))) goto done;
    if (b.output.n_kept > 0 && !options->quiet) {
        sp_note("run", "%.300s has %zu answer%s already; the batch continues after %s",
                b.output.path, b.output.n_kept, b.output.n_kept == 1 ? "" : "s",
                b.output.n_kept == 1 ? "it" : "them");
    }
    b.n_written = b.output.n_kept;
    sp_progress_begin(&b.progress, "batch", "lines");
    b.progress.before = b.output.n_kept;
    b.progress.on = b.progress.on && (options->output || !sp_out_is_terminal(stdout));
    st = choose_lines(&b, err);
    if (!st) st = read_lines(&b, err);
    if (!st && !b.err.status) st = sp_batch_output_drop_tail(&b.output, err);
    sp_progress_end(&b.progress);
    print_end(&b, sp_seconds() - began);
    if (!st) st = finish(&b, err);
done:
    if (b.server.serve.queue) sp_serve_queue_close(b.server.serve.queue, true);
    while (b.first != NULL) {
        struct sp_batch_line *next = b.first->next;
        sp_batch_line_free(&b.server, b.first);
        b.first = next;
    }
    close_server(&b.server);
    sp_batch_output_close(&b.output);
    return st;
}
