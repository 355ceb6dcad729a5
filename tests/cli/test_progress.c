/* Tests the rate and the remaining time of a progress bar, and the terminal after two signals. */
#define _XOPEN_SOURCE 700 /* posix_openpt */

#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "format/base/clock.h"
#include "tests/support/unit_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* Returns the bar, 10 seconds after its beginning; static. */
static const char *shown(uint64_t before, uint64_t done, uint64_t total)
{
    static char text[300];
    struct sp_progress progress = {.on = true,
                                   .label = "batch",
                                   .unit = "lines",
                                   .start = sp_seconds() - 10,
                                   .before = before};
    FILE *f = tmpfile();
    int saved = dup(STDERR_FILENO);

    assert_non_null(f);
    fflush(stderr);
    dup2(fileno(f), STDERR_FILENO);
    sp_progress_show(&progress, done, total);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

TEST(rates)
{
    assert_non_null(strstr(shown(0, 50, 100), "50 of 100 lines  5.0/s  0:10 left"));
    /* 10 lines in 10 seconds, after 40 that were there before */
    assert_non_null(strstr(shown(40, 50, 100), "50 of 100 lines  1.0/s  0:50 left"));
    assert_null(strstr(shown(50, 50, 100), "left"));
}

static bool echoes(int terminal)
{
    struct termios modes;

    assert_int_equal(tcgetattr(terminal, &modes), 0);
    return modes.c_lflag & ECHO;
}

TEST(second_signal_gives_the_terminal_its_echo)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY), terminal, status = 0;
    pid_t child;

    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && echoes(terminal));
    if ((child = fork()) == 0) {
        dup2(terminal, STDIN_FILENO);
        sp_signals_catch();
        sp_signals_hide_typing();
        raise(SIGINT);
        if (!echoes(terminal)) raise(SIGINT);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_true(echoes(terminal));
    close(terminal);
    close(master);
}
