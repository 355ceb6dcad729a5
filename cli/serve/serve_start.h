/* What the server needs to start: its models, its log, its guard and its sandbox.
 *
 * The opener describes the packed files of the command line, and opens one of them when a request
 * names it. A file that was replaced is described again. */
#ifndef SP_CLI_SERVE_SERVE_START_H
#define SP_CLI_SERVE_SERVE_START_H

#include "cli/serve/jobs/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct sp_serve_opener {
    struct sp_serve *serve;
    struct sp_serve_model_options options;
    struct sp_serve_paths paths;           /* of the packed files; owned */
    struct sp_serve_models_options models; /* the caller sets the limits */
    bool verbose;  /* print settings and tags of each model that is opened */
    bool no_cache; /* neither read nor keep statistics of drafting */
};

/* Sets the models of o->serve, one for each path. A file that cannot be served is left out with a
 * note unless the command line names it. SP_E_USAGE: two models have one name. The caller calls
 * sp_serve_opener_close also on failure. */
SP_MUST_CHECK enum sp_status sp_serve_opener_open(struct sp_serve_opener *o,
                                                  const struct sp_opt_list *names,
                                                  struct sp_err *err);
/* Closes all models, which nobody may use, and releases the paths. */
void sp_serve_opener_close(struct sp_serve_opener *o);

/* ---- the log (serve_log.c) ----
 *
 * The lines that the server prints to standard error: its address and models, then its log. */

/* Prints the address and the model or, if there are several, their names. */
void sp_serve_announce(const struct sp_serve *s, const char *url);

/* Counts a request and prints its line of the log; the callback `log` of struct sp_http_options,
 * with the server as its context. */
void sp_serve_log_request(void *context, const char *method, const char *path, int status,
                          const char *log_line, const char *ignored);

/* Logs that a model was opened or closed, if there are several. `what`: "opened" or "closed". */
void sp_serve_log_model(const struct sp_serve *s, const struct sp_serve_model *m, const char *what,
                        double seconds);

/* Logs that the server shuts down if answers are pending, for `seconds`; negative: no limit. */
void sp_serve_log_shutdown(const struct sp_serve *s, double seconds);

/* ---- the guard (serve_guard.c) ----
 *
 * A thread that waits for signals. */

struct sp_serve_guard {
    const struct sp_serve *serve;
    double patience; /* seconds that answers have after a signal; negative: no limit */
    sigset_t signals;
    bool has_ranks;         /* of this program, which are its only children */
    atomic_bool serving;    /* the server is running; before, a signal ends the program at once */
    _Atomic double ends_at; /* when the time of pending answers is over, seconds of sp_seconds */
    atomic_bool ended;      /* the server has ended: a signal only ends the waiting thread */
    pthread_t thread;
    bool watches;
};

/* Blocks the signals for the calling thread and those that it creates afterwards, and starts the
 * thread. The caller sets the first members, up to `patience`, and `has_ranks`; the others are
 * zero. */
SP_MUST_CHECK enum sp_status sp_serve_guard_start(struct sp_serve_guard *guard, struct sp_err *err);
/* From now on the first signal ends the server's queue in time; before, it ends the program. */
void sp_serve_guard_serve(struct sp_serve_guard *guard);
/* The seconds that pending responses still have. */
double sp_serve_guard_seconds_left(const struct sp_serve_guard *guard);
void sp_serve_guard_end(struct sp_serve_guard *guard); /* one that was not started is fine */

/* ---- the sandbox (serve_sandbox.c, serve_syscalls.c) ----
 *
 * Takes from the server what it does not need after its start, so that a client that takes it over
 * gains little: it reads the files next to its models, and accepts connections. It creates and
 * changes no file but processed prompts and the statistics of drafting, starts no program, opens no
 * TCP connection or port, and sends signals to its own processes only. Linux enforces this by
 * Landlock, landlock(7), without privileges. */

/* Enters the sandbox. It holds for the calling thread, the threads that it creates afterwards, and
 * their processes, so the program has no other thread yet. prompt_cache, drafting_cache: folders
 * whose files are read, made and removed; NULL: none.
 * SP_E_UNSUPPORTED: this system has no Landlock; SP_E_IO: it refuses. */
SP_MUST_CHECK enum sp_status sp_serve_sandbox_enter(const struct sp_serve_paths *models,
                                                    const struct sp_serve_adapters *adapters,
                                                    const char *prompt_cache,
                                                    const char *drafting_cache,
                                                    const struct sp_listeners *listeners,
                                                    struct sp_err *err);

/* Whether the program was built with libseccomp. */
bool sp_serve_syscalls_can_be_filtered(void);

/* Forbids the server the system calls that it does not need after its start, by a filter that the
 * kernel runs for each of them, seccomp(2): for the calling thread, the threads that it creates
 * afterwards, and their processes, so the program has no other thread yet. SP_E_UNSUPPORTED: the
 * program was built without libseccomp, or the kernel has no such filters. */
SP_MUST_CHECK enum sp_status sp_serve_syscalls_filter(struct sp_err *err);

#endif
