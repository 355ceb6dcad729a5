/* This thread reads lines; as many others as there are sessions answer them. Whoever completes the
 * first one that is not out yet writes it, and all complete ones behind it. */
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

/* Lines that are known at a time, for each session: one long answer keeps the others busy behind
 * it. */
enum { LINES_PER_SESSION = 16 };

static const char no_room[] = "out of memory for an answer";

struct line {
    char *text; /* [size], owned */
    size_t size;
    char *out; /* [out_size], owned; of a line that is done NULL: there was no memory for it */
    size_t out_size;
    bool done;
    struct line *next;
};

struct batch {
    struct sp_session_pool *sessions;
    pthread_mutex_t reading; /* one prompt at a time, by this: */
    struct sp_generation *generation;
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct line *first, *last; /* not out yet */
    struct line *waiting;      /* the first of these that nobody has taken */
    size_t n_lines, most;
    struct sp_progress progress;
    uint64_t n_bytes, n_input; /* of lines that are out; of a file at standard input, else 0 */
    bool ended;                /* no more lines come, or are of use */
    struct sp_err err;
    size_t n_lacking;   /* lines that there was no memory to answer */
    struct sp_err lack; /* of the first one */
};

/* ---- one line ---------------------------------------------------------------------------------
 */

static enum sp_status generate(FILE *out, struct batch *b, struct sp_batch_line *line,
                               struct sp_err *err)
{
    struct sp_generation g;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_chat_reader *reader = NULL;
    enum sp_status st;

    pthread_mutex_lock(&b->reading);
    st = sp_batch_line_ask(&g, line, b->generation, err);
    pthread_mutex_unlock(&b->reading);
    if (st) return st;
    g.style.whole = out;
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

static void tell_error(FILE *file, const char *custom_id, const char *sentence)
{
    struct sp_json_out out = {.file = file};

    sp_json_out_begin(&out, NULL, '{');
    if (custom_id) sp_json_out_text(&out, "custom_id", custom_id);
    sp_json_out_text(&out, "error", sentence);
    sp_json_out_end(&out, '}');
    putc('\n', file);
}

/* Is it the line's fault, or that of what is answered beside it? The others go on. */
static bool is_its_own(enum sp_status st)
{
    return st == SP_E_USAGE || st == SP_E_INPUT || st == SP_E_UNSUPPORTED || st == SP_E_NOMEM;
}

static void count_lack(struct batch *b, const struct sp_err *err)
{
    pthread_mutex_lock(&b->lock);
    if (b->n_lacking++ == 0) b->lack = *err;
    pthread_mutex_unlock(&b->lock);
}

static enum sp_status answer(struct batch *b, struct line *line, struct sp_err *err)
{
    FILE *out = open_memstream(&line->out, &line->out_size);
    struct sp_batch_line asked;
    struct sp_err own = {0};
    enum sp_status st;

    if (out == NULL) {
        (void)sp_fail(&own, SP_E_NOMEM, "%s", no_room);
        count_lack(b, &own);
        return SP_OK;
    }
    st = sp_batch_line_read(&asked, line->text, line->size, b->generation, &own);
    if (st == SP_OK) st = generate(out, b, &asked, &own);
    if (is_its_own(st)) tell_error(out, asked.custom_id, own.text);
    if (st == SP_E_NOMEM) count_lack(b, &own);
    sp_batch_line_release(&asked);
    if (fclose(out)) return sp_fail(err, SP_E_NOMEM, "%s", no_room);
    if (st == SP_OK || is_its_own(st)) return SP_OK;
    *err = own;
    return st;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static void line_free(struct line *line)
{
    if (line == NULL) return;
    free(line->text);
    free(line->out);
    free(line);
}

/* Writes what is complete at the beginning. Under the lock, as the next two. */
static void write_out(struct batch *b)
{
    struct line *line;

    while ((line = b->first) != NULL && line->done) {
        if (line->out) fwrite(line->out, 1, line->out_size, stdout);
        if (line->out == NULL) tell_error(stdout, NULL, no_room);
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

/* What has ended is not waited for. */
static bool is_over(void *context)
{
    struct batch *b = context;
    bool over;

    pthread_mutex_lock(&b->lock);
    over = b->ended || sp_signals_caught();
    pthread_mutex_unlock(&b->lock);
    return over;
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
    struct sp_err own = {0};
    pthread_t *threads = NULL;
    size_t n = 0;
    enum sp_status st;

    if ((st = sp_new(&threads, n_sessions, sizeof *threads, err))) return st;
    while (n < n_sessions && pthread_create(&threads[n], NULL, answer_lines, b) == 0)
        n++;
    st = n > 0 ? sp_each_line(add_line, is_over, b, &own)
               : sp_fail(&own, SP_E_NOMEM, "cannot create a thread to generate in");
    if (st == SP_OK && sp_signals_caught()) st = sp_fail(&own, SP_E_CHECK, "interrupted");
    pthread_mutex_lock(&b->lock);
    if (st) end_with(b, &own);
    b->ended = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    free(threads);
    if (b->err.status == SP_OK && b->n_lacking > 0) {
        sp_fail(&b->err, SP_E_NOMEM, "%zu prompt%s not answered: %s", b->n_lacking,
                b->n_lacking == 1 ? "" : "s", b->lack.text);
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
                      .reading = PTHREAD_MUTEX_INITIALIZER,
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
