/* The calling thread reads lines; one thread per session answers them. The thread that completes
 * the oldest pending line writes its answer and all completed ones that follow it. */
#include "cli/chat/batch.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "format/base/clock.h"
#include "format/base/mem.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most pending lines per session. While one long answer is generated, the other sessions go on
 * with the lines after it. */
enum { LINES_PER_SESSION = 16 };

static const char no_memory[] = "out of memory for an answer";

struct line {
    char *text; /* [size] text of the line; owned */
    size_t size, number;
    char *out; /* [out_size] its answer; owned; NULL in a line that is done: memory ran out */
    size_t out_size;
    bool done;
    struct line *next;
};

struct batch {
    const struct sp_batch_options *options;
    pthread_mutex_t prompt_lock; /* held while a prompt is read by `model` */
    struct sp_loaded_model *model;
    /* The following fields are protected by the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct line *first, *last; /* lines whose answers were not written yet */
    struct line *waiting;      /* the first of those lines that no thread has taken */
    size_t n_lines, most;
    struct sp_batch_output output;
    struct sp_progress progress;
    /* lines so far; answers in the output; lines of standard input, 0 if it is not a file */
    size_t n_read, n_written, n_input;
    size_t n_seen, part_begin,
        part_end; /* lines of the input; part_end: after the last to answer */
    bool ended;   /* no more lines are read */
    struct sp_err err;
    size_t n_tokens;             /* of answers in spectool's own format */
    size_t n_failed;             /* lines with an error as their answer */
    size_t n_out_of_memory;      /* lines that failed for lack of memory */
    size_t first_failed;         /* number of the first line that failed, or ran out of memory */
    struct sp_err first_failure; /* the error of that line */
};

/* ---- a line ---- */

static enum sp_status generate(FILE *out, struct batch *b, struct sp_batch_line *line,
                               struct sp_err *err)
{
    struct sp_loaded_model m;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_chat_reader *reader = NULL;
    enum sp_status st;

    pthread_mutex_lock(&b->prompt_lock);
    st = sp_batch_line_request(&m, line, b->model, err);
    pthread_mutex_unlock(&b->prompt_lock);
    if (st) return st;
    m.style.last_object_file = out;
    m.session = sp_session_pool_take(b->options->sessions, m.lora, 1, line->ids.at, line->ids.n);
    st = sp_loaded_model_answer(&result, &reader, &m, &line->ids, line->rendered, err);
    sp_session_pool_give(b->options->sessions, m.session);
    pthread_mutex_lock(&b->lock);
    b->n_tokens += result.n_ids;
    pthread_mutex_unlock(&b->lock);
    if (st == SP_OK && result.stop == SP_STOP_CANCELLED)
        st = sp_fail(err, SP_E_CANCELLED, "interrupted");
    sp_chat_reader_close(reader);
    sp_result_release(&result);
    return st;
}

static void write_error(FILE *file, const char *custom_id, const char *sentence)
{
    struct sp_json_out out = {.file = file};

    sp_json_out_begin(&out, NULL, '{');
    if (custom_id) sp_json_out_text(&out, "custom_id", custom_id);
    sp_json_out_put(&out, "error:%s}\n", sentence);
}

/* True for an error that concerns this line only, so that the other lines are still answered. */
static bool is_line_error(enum sp_status st)
{
    return st == SP_E_USAGE || st == SP_E_INPUT || st == SP_E_UNSUPPORTED || st == SP_E_NOMEM;
}

/* Counts a line that failed. An error for lack of memory is reported before any other. */
static void count_failure(struct batch *b, size_t number, const struct sp_err *err)
{
    bool memory = err->status == SP_E_NOMEM;

    pthread_mutex_lock(&b->lock);
    if (b->n_failed == 0 || (memory && b->n_out_of_memory == 0) ||
        (number < b->first_failed && memory == (b->n_out_of_memory > 0))) {
        b->first_failure = *err;
        b->first_failed = number;
    }
    b->n_failed++;
    b->n_out_of_memory += memory;
    pthread_mutex_unlock(&b->lock);
}

/* Writes the answer of spectool's own format, or the error. */
static enum sp_status answer_prompt(FILE *out, struct batch *b, const struct line *line,
                                    struct sp_batch_line *request, enum sp_status parsed,
                                    struct sp_err *err)
{
    enum sp_status st = parsed;

    if (!st) st = sp_batch_line_read(request, b->model, err);
    if (!st) st = generate(out, b, request, err);
    if (!is_line_error(st)) return st;
    sp_context(err, "line %zu", line->number);
    sp_advise(err);
    write_error(out, request->custom_id, err->text);
    return st;
}

static enum sp_status answer(struct batch *b, struct line *line, struct sp_err *err)
{
    const struct sp_batch_api *api = &b->options->api;
    FILE *out = open_memstream(&line->out, &line->out_size);
    struct sp_batch_line request;
    struct sp_err line_err = {0};
    enum sp_status st;

    if (out == NULL) {
        (void)sp_fail(&line_err, SP_E_NOMEM, "line %zu: %s", line->number, no_memory);
        count_failure(b, line->number, &line_err);
        return SP_OK;
    }
    st = sp_batch_line_parse(&request, line->text, line->size, &line_err);
    if (request.json != NULL && sp_batch_line_is_request(&request)) {
        line_err = (struct sp_err){0};
        st = api->answer(api->context, out, line->number, request.json, &line_err);
    } else {
        st = answer_prompt(out, b, line, &request, st, &line_err);
    }
    if (is_line_error(st)) count_failure(b, line->number, &line_err);
    sp_batch_line_release(&request);
    if (sp_close_text(out, &line->out, NULL)) return sp_fail(err, SP_E_NOMEM, "%s", no_memory);
    if (st == SP_OK || is_line_error(st)) return SP_OK;
    *err = line_err;
    return st;
}

/* ---- the batch ---- */

static void line_free(struct line *line)
{
    if (line == NULL) return;
    free(line->text);
    free(line->out);
    free(line);
}

/* Writes the completed answers at the head of the list. The caller holds the lock. */
static void write_out(struct batch *b)
{
    struct line *line = b->first;

    if (line && line->done && sp_batch_output_drop_tail(&b->output, &b->err)) {
        b->ended = true;
        return;
    }
    while ((line = b->first) != NULL && line->done) {
        if (line->out) fwrite(line->out, 1, line->out_size, b->output.file);
        if (line->out == NULL) write_error(b->output.file, NULL, no_memory);
        b->n_written++;
        b->first = line->next;
        b->n_lines--;
        line_free(line);
    }
    if (sp_batch_output_flush(&b->output, &b->err)) b->ended = true;
    sp_progress_show(&b->progress, b->n_written, b->n_input);
}

static struct line *take(struct batch *b)
{
    struct line *line;

    while (b->waiting == NULL && !b->ended)
        pthread_cond_wait(&b->changed, &b->lock);
    line = b->err.status ? NULL : b->waiting;
    if (line) b->waiting = line->next;
    return line;
}

static void end_with(struct batch *b, const struct sp_err *err)
{
    if (b->err.status == SP_OK) b->err = *err;
    b->ended = true;
}

static void *answer_lines(void *context)
{
    struct batch *b = context;
    struct line *line;

    pthread_mutex_lock(&b->lock);
    while ((line = take(b)) != NULL) {
        struct sp_err err = {0};
        enum sp_status st;
        pthread_mutex_unlock(&b->lock);
        st = answer(b, line, &err);
        pthread_mutex_lock(&b->lock);
        line->done = st == SP_OK;
        if (st) end_with(b, &err);
        write_out(b);
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

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
    struct sp_batch_line line;
    enum sp_status st;

    (void)!sp_batch_line_parse(&line, text, size, NULL); /* the answer may be the error of this */
    st = sp_batch_output_match(&b->output, b->n_read++, line.custom_id, err);
    sp_batch_line_release(&line);
    return st;
}

static enum sp_status add_line(void *context, size_t number, const char *text, size_t size,
                               struct sp_err *err)
{
    struct batch *b = context;
    struct line *line = NULL;
    size_t at = b->n_seen++;
    enum sp_status st;

    if (at < b->part_begin || at >= b->part_end) return SP_OK;
    if (b->n_read < b->output.n_kept) return skip_line(b, text, size, err);
    b->n_read++;
    if ((st = sp_new(&line, 1, sizeof *line, err)) ||
        (st = sp_copy_text(&line->text, text, size, err))) {
        free(line);
        return st;
    }
    line->size = size;
    line->number = number;
    pthread_mutex_lock(&b->lock);
    while (b->n_lines >= b->most && !b->ended)
        pthread_cond_wait(&b->changed, &b->lock);
    if (b->first == NULL)
        b->first = line;
    else
        b->last->next = line;
    b->last = line;
    if (b->waiting == NULL) b->waiting = line;
    b->n_lines++;
    st = b->err.status;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return st;
}

static enum sp_status read_lines(struct batch *b, size_t n_sessions, struct sp_err *err)
{
    struct sp_err line_err = {0};
    pthread_t *threads = NULL;
    size_t n = 0;
    enum sp_status st;

    if ((st = sp_new(&threads, n_sessions, sizeof *threads, err))) return st;
    while (n < n_sessions && pthread_create(&threads[n], NULL, answer_lines, b) == 0)
        n++;
    st = n > 0 ? sp_each_line(add_line, has_ended, b, "one JSON prompt per line", &line_err)
               : sp_fail(&line_err, SP_E_NOMEM, "cannot create a thread for generation");
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
    while (n > 0)
        pthread_join(threads[--n], NULL);
    free(threads);
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
    struct batch b = {.options = options,
                      .model = model,
                      .prompt_lock = PTHREAD_MUTEX_INITIALIZER,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER,
                      .most = LINES_PER_SESSION * options->n_sessions};
    double began = sp_seconds();
    enum sp_status st;

    if ((st = sp_batch_output_open(&b.output, options->output, err))) goto done;
    if (b.output.n_kept > 0 && !options->quiet) {
        sp_note("run", "%.300s has %zu answer%s already; the batch continues after %s",
                b.output.path, b.output.n_kept, b.output.n_kept == 1 ? "" : "s",
                b.output.n_kept == 1 ? "it" : "them");
    }
    b.n_written = b.output.n_kept;
    sp_progress_begin(&b.progress, "batch");
    b.progress.unit = "lines";
    b.progress.before = b.output.n_kept;
    b.progress.on = b.progress.on && (options->output || !sp_out_is_terminal(stdout));
    st = choose_lines(&b, err);
    if (!st) st = read_lines(&b, options->n_sessions, err);
    if (!st && !b.err.status) st = sp_batch_output_drop_tail(&b.output, err);
    sp_progress_end(&b.progress);
    print_end(&b, sp_seconds() - began);
    if (!st) st = finish(&b, err);
    while (b.first != NULL) {
        struct line *next = b.first->next;
        line_free(b.first);
        b.first = next;
    }
done:
    sp_batch_output_close(&b.output);
    return st;
}
