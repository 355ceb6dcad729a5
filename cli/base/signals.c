#include "cli/base/signals.h"

#include "format/base/err.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <termios.h>
#include <unistd.h>

/* The only mutable globals: a signal handler has no other place to read and write. Other threads
 * read the first. */
static atomic_int caught_signal;
static struct termios terminal_modes; /* from before its echo was switched off */
static volatile sig_atomic_t echo_is_off;

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Ends the program by a second signal, after the terminal has its echo again. */
static void end_with_echo(int number)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal_modes);
    raise(number);
}

static void remember(int number)
{
    caught_signal = number;
    if (echo_is_off) set_handler(number, end_with_echo);
}

/* Sets the handler of signals that the caller does not ignore, as nohup and shells can. */
static void set_unless_ignored(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            set_handler(numbers[i], handler);
}

void sp_signals_catch(void)
{
    set_unless_ignored(remember);
}

void sp_signals_release(void)
{
    set_unless_ignored(SIG_DFL);
    sp_signals_resume();
}

void sp_signals_hide_typing(void)
{
    struct termios silent;

    if (tcgetattr(STDIN_FILENO, &terminal_modes) != 0) return;
    silent = terminal_modes;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    echo_is_off = 1;
    tcsetattr(STDIN_FILENO, TCSANOW, &silent);
}

void sp_signals_show_typing(void)
{
    if (echo_is_off) tcsetattr(STDIN_FILENO, TCSANOW, &terminal_modes);
    echo_is_off = 0;
}

bool sp_signals_caught(void)
{
    return caught_signal != 0;
}

void sp_signals_clear(void)
{
    if (caught_signal != SIGINT) return;
    caught_signal = 0;
    sp_signals_catch();
}

/* Ends the program after SIGBUS: returning would repeat the failed read. */
static void end_after_bus_error(int number)
{
    static const char sentence[] =
        "spectool: a file in use was truncated or can no longer be read\n";
    ssize_t ignored = write(STDERR_FILENO, sentence, sizeof sentence - 1);

    (void)number;
    (void)ignored;
    _exit(SP_E_IO);
}

void sp_signals_guard_files(void)
{
    set_handler(SIGXFSZ, SIG_IGN);
    set_handler(SIGBUS, end_after_bus_error);
}

void sp_signals_resume(void)
{
    if (caught_signal == 0) return;
    set_handler(caught_signal, SIG_DFL);
    raise(caught_signal);
}
