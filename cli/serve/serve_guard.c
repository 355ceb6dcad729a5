#include "cli/serve/serve_start.h"
#include "format/base/clock.h"

#include <errno.h>
#include <stdio.h>

enum { WATCH_SECONDS = 30 };

/* Blocks SIGTERM, and SIGINT and SIGHUP unless the caller ignores them (nohup). SIGCHLD, not among
 * *signals, is blocked, too, and sent when a child ends, even if the caller ignores it. */
static void block_signals(sigset_t *signals)
{
    static const int numbers[] = {SIGINT, SIGHUP};
    struct sigaction now, child = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigset_t all;

    sigemptyset(&child.sa_mask);
    sigaction(SIGCHLD, &child, NULL);
    sigemptyset(signals);
    sigaddset(signals, SIGTERM); /* also sent to end the waiting thread */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(signals, numbers[i]);
    all = *signals;
    sigaddset(&all, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

/* Waits for a signal, for at most some seconds. Returns its number, or 0. */
static int await_signal(const sigset_t *signals, double seconds)
{
    const double until = sp_seconds() + seconds;
    struct timespec left;
    int number;

    do {
        double n = until - sp_seconds();
        if (n < 0) n = 0;
        left = (struct timespec){.tv_sec = (time_t)n};
        left.tv_nsec = (long)((n - (double)left.tv_sec) * 1e9);
        number = sigtimedwait(signals, NULL, &left);
    } while (number < 0 && errno == EINTR);
    return number > 0 ? number : 0;
}

/* Refuses further requests and lets the pending ones be completed in time. Returns the number of a
 * signal that arrived meanwhile, or of the next one. */
static int shut_down(struct sp_serve_guard *g)
{
    int number = 0;

    sp_serve_models_stop(g->serve->models);
    sp_serve_queue_close(g->serve->queue, false);
    sp_serve_log_shutdown(g->serve, g->patience);
    if (g->patience >= 0 && (number = await_signal(&g->signals, g->patience)) == 0)
        sp_serve_queue_close(g->serve->queue, true);
    return number == 0 && sigwait(&g->signals, &number) ? 0 : number;
}

/* Ends the program if a rank has ended, by what sp_backend_open_package sets for that: a server
 * without requests would not notice. */
static void check_ranks(const struct sp_serve_guard *g)
{
    struct sp_err err = {0};

    if (g->has_ranks && sp_package_check_ranks(g->serve->all->loaded->package, &err))
        fprintf(stderr, "spectool: %s\n", err.text);
}

/* Shuts the server down at the first signal and ends the program at the second. Until then it keeps
 * up with the counters of energy, with or without requests. */
static void *wait_for_signal(void *context)
{
    struct sp_serve_guard *g = context;
    sigset_t signals = g->signals;
    int number;

    sigaddset(&signals, SIGCHLD);
    do {
        number = await_signal(&signals, WATCH_SECONDS);
        if (atomic_load(&g->ended)) return NULL;
        if (!atomic_load(&g->serving)) continue;
        sp_serve_metrics_keep_up(g->serve->metrics);
        if (number == SIGCHLD) check_ranks(g);
    } while (number == 0 || number == SIGCHLD);
    if (atomic_load(&g->serving)) {
        atomic_store(&g->ends_at, sp_seconds() + g->patience);
        number = shut_down(g);
        if (number == 0 || atomic_load(&g->ended)) return NULL;
    }
    pthread_sigmask(SIG_UNBLOCK, &g->signals, NULL);
    raise(number);
    return NULL;
}

enum sp_status sp_serve_guard_start(struct sp_serve_guard *g, struct sp_err *err)
{
    block_signals(&g->signals);
    signal(SIGPIPE, SIG_IGN);
    if (pthread_create(&g->thread, NULL, wait_for_signal, g))
        return sp_fail(err, SP_E_NOMEM, "cannot create the thread that waits for signals");
    g->watches = true;
    return SP_OK;
}

void sp_serve_guard_end(struct sp_serve_guard *g)
{
    if (!g->watches) return;
    atomic_store(&g->ended, true);
    pthread_kill(g->thread, SIGTERM);
    pthread_join(g->thread, NULL);
}

void sp_serve_guard_serve(struct sp_serve_guard *g)
{
    atomic_store(&g->serving, true);
    check_ranks(g); /* that ended before */
}

double sp_serve_guard_seconds_left(const struct sp_serve_guard *g)
{
    double left = atomic_load(&g->ends_at) - sp_seconds();

    if (g->patience < 0) return SP_DURATION_MAX;
    return left > 0 ? left : 0;
}
