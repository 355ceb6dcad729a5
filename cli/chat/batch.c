/* The calling thread reads lines; one thread per session answers them. The thread that completes
 * the oldest pending line writes its answer and all completed ones that follow it. */
#include "cli/chat/batch.h"
#include "cli/chat/batch_line.h"
#include "cli/base/lines.h"
#include "cli/base/out.h"
#include "cli/chat/session_pool.h"
#include "format/base/mem.h"

#include <errno.h>
#include <pthread.h>
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
    size_t size;
    char *out; /* [out_size] its answer; owned; NULL in a line that is done: memory ran out */
    size_t out_size;
    bool done;
    struct line *next;
};

struct batch {
    struct sp_session_pool *sessions;
    pthread_mutex_t prompt_lock; /* held while a prompt is read by `generation` */
    struct sp_generation *generation;
    /* The following fields are protected by the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct line *first, *last; /* lines whose answers were not written yet */
    struct line *waiting;      /* the first of those lines that no thread has taken */
    size_t n_lines, most;
    struct sp_progress progress;
    /* bytes of the written lines; size of standard input, 0 if it is no file */
    uint64_t n_bytes, n_input;
    bool ended; /* no more lines are read */
    struct sp_err err;
    size_t n_out_of_memory;      /* lines that were not answered for lack of memory */
    struct sp_err first_failure; /* the error of the first of those lines */
};

/* ---- a line -----------------------------------------------------------------------------------
 */

static enum sp_status generate(FILE *out, struct batch *b, struct sp_batch_line *line,
                               struct sp_err *err)
{
    struct sp_generation g;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_chat_reader *reader = NULL;
    enum sp_status st;

    pthread_mutex_lock(&b->prompt_lock);
    st = sp_batch_line_request(&g, line, b->generation, err);
    pthread_mutex_unlock(&b->prompt_lock);
    if (st) return st;
    g.style.last_object_file = out;
    g.session = sp_session_pool_take(b->sessions, line->ids.at, line->ids.n);
    st = sp_generation_answer(&result, &reader, &g, &line->ids, line->rendered, err);
    sp_session_pool_give(b->sessions, g.session);
    if (st == SP_OK && result.stop == SP_STOP_CANCELLED) {
        st = sp_fail(err, SP_E_CHECK, "interrupted");
    }
    sp_chat_reader_close(reader);
    sp_result_release(&result);
    return st;
}

static void write_error(FILE *file, const char *custom_id, const char *sentence)
{
    struct sp_json_out out = {.file = file};

    sp_json_out_begin(&out, NULL, '{');
    if (custom_id) sp_json_out_text(&out, "custom_id", custom_id);
    sp_json_out_text(&out, "error", sentence);
    sp_json_out_end(&out, '}');
    putc('\n', file);
}

/* True for an error that concerns this line only, so that the other lines are still answered. */
static bool is_line_error(enum sp_status st)
{
    return st == SP_E_USAGE || st == SP_E_INPUT || st == SP_E_UNSUPPORTED || st == SP_E_NOMEM;
}

static void count_out_of_memory(struct batch *b, const struct sp_err *err)
{
    pthread_mutex_lock(&b->lock);
    if (b->n_out_of_memory++ == 0) b->first_failure = *err;
    pthread_mutex_unlock(&b->lock);
}

static enum sp_status answer(struct batch *b, struct line *line, struct sp_err *err)
{
    FILE *out = open_memstream(&line->out, &line->out_size);
    struct sp_batch_line request;
    struct sp_err line_err = {0};
    enum sp_status st;

    if (out == NULL) {
        (void)sp_fail(&line_err, SP_E_NOMEM, "%s", no_memory);
        count_out_of_memory(b, &line_err);
        return SP_OK;
    }
    st = sp_batch_line_read(&request, line->text, line->size, b->generation, &line_err);
    if (st == SP_OK) st = generate(out, b, &request, &line_err);
    if (is_line_error(st)) write_error(out, request.custom_id, line_err.text);
    if (st == SP_E_NOMEM) count_out_of_memory(b, &line_err);
    sp_batch_line_release(&request);
    if (sp_close_text(out, &line->out, NULL)) return sp_fail(err, SP_E_NOMEM, "%s", no_memory);
    if (st == SP_OK || is_line_error(st)) return SP_OK;
    *err = line_err;
    return st;
}

/* ---- the batch -------------------------------------------------------------------------------
 */

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
    struct line *line;

    while ((line = b->first) != NULL && line->done) {
        if (line->out) fwrite(line->out, 1, line->out_size, stdout);
        if (line->out == NULL) write_error(stdout, NULL, no_memory);
        b->n_bytes += line->size + 1;
        b->first = line->next;
        b->n_lines--;
        line_free(line);
    }
    if (fflush(stdout) || ferror(stdout)) {
        b->ended = sp_fail(&b->err, SP_E_IO, "standard output: %s", strerror(errno)) != SP_OK;
    }
    if (b->n_input && b->n_bytes <= b->n_input)
        sp_progress_show(&b->progress, b->n_bytes, b->n_input);
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

static enum sp_status add_line(void *context, const char *text, size_t size, struct sp_err *err)
{
    struct batch *b = context;
    struct line *line = NULL;
    enum sp_status st;

    if ((st = sp_new(&line, 1, sizeof *line, err)) ||
        (st = sp_copy_text(&line->text, text, size, err))) {
        free(line);
        return st;
    }
    line->size = size;
    pthread_mutex_lock(&b->lock);
    while (b->n_lines >= b->most && !b->ended)
        pthread_cond_wait(&b->changed, &b->lock);
    if (b->first == NULL) {
        b->first = line;
    } else {
        b->last->next = line;
    }
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
    st = n > 0 ? sp_each_line(add_line, has_ended, b, &line_err)
               : sp_fail(&line_err, SP_E_NOMEM, "cannot create a thread to generate in");
    if (st == SP_OK && sp_signals_caught()) st = sp_fail(&line_err, SP_E_CHECK, "interrupted");
    pthread_mutex_lock(&b->lock);
    if (st) end_with(b, &line_err);
    b->ended = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    free(threads);
    if (b->err.status == SP_OK && b->n_out_of_memory > 0) {
        sp_fail(&b->err, SP_E_NOMEM, "%zu prompt%s not answered: %s", b->n_out_of_memory,
                b->n_out_of_memory == 1 ? "" : "s", b->first_failure.text);
    }
    if (b->err.status && err) *err = b->err;
    return b->err.status;
}

static uint64_t size_of_input(void)
{
    struct stat s;

    return fstat(STDIN_FILENO, &s) == 0 && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
}

enum sp_status sp_batch(struct sp_generation *generation, size_t n_sessions, struct sp_err *err)
{
    struct batch b = {.generation = generation,
                      .prompt_lock = PTHREAD_MUTEX_INITIALIZER,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER,
                      .most = LINES_PER_SESSION * n_sessions};
    enum sp_status st;

    if ((st = sp_session_pool_new(&b.sessions, generation->session, n_sessions, err))) return st;
    sp_progress_begin(&b.progress, "prompts");
    if (!sp_out_is_terminal(stdout)) b.n_input = size_of_input();
    st = read_lines(&b, n_sessions, err);
    sp_progress_end(&b.progress);
    while (b.first != NULL) {
        struct line *next = b.first->next;
        line_free(b.first);
        b.first = next;
    }
    sp_session_pool_free(b.sessions);
    return st;
}
