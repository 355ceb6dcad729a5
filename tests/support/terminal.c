/* Runs a command on a pseudo-terminal, types what a script on standard input says, and copies what
 * the terminal shows to standard output. Nothing depends on time: a line is typed when the line
 * editor waits for it, that is, behind a prompt that was shown since the last key and with the
 * terminal's own echo off.
 *
 * usage: terminal [-c COLUMNS] COMMAND [ARGUMENT...] <SCRIPT
 *
 *     any text       types the line and Enter
 *     @keys TEXT     types these keys, when the line editor waits for them
 *     @send TEXT     types them now
 *     @await TEXT    waits until TEXT was shown since something was typed
 *     @kill NAME     sends SIGCONT, SIGTERM or SIGWINCH
 *
 * In TEXT \t, \n, \r, \\ and three octal digits behind \ are escapes.
 * At the end of the script Ctrl-D is typed at each prompt. The exit status is the command's, 128
 * and the signal that ended it, or 124 if it did nothing for four minutes: on a busy machine
 * a program with sanitizers may read a long prompt for more than one. */
#define _GNU_SOURCE /* forkpty */
#include <ctype.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { PATIENCE = 240000 /* ms without any output */, TIMED_OUT = 124, MAX_SHOWN = 1 << 20 };

static int terminal;
static pid_t child;
static char shown[MAX_SHOWN]; /* since something was typed, without escape sequences */
static size_t n_shown;
static bool in_escape;

static void end(int status)
{
    fflush(stdout);
    exit(status);
}

static void end_with_child(void)
{
    int status;

    waitpid(child, &status, 0);
    end(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

static void note_shown(char byte)
{
    if (byte == '\033') in_escape = true;
    if (!in_escape && n_shown < sizeof shown - 1) shown[n_shown++] = byte;
    if (in_escape && isalpha((unsigned char)byte)) in_escape = false;
    shown[n_shown] = '\0';
}

/* Copies what the terminal shows within `ms`. Returns whether there was something; ends the program
 * where the command ends. */
static bool read_terminal(int ms)
{
    struct pollfd wait = {.fd = terminal, .events = POLLIN};
    char bytes[4096];

    if (poll(&wait, 1, ms) <= 0) return false;
    ssize_t n = read(terminal, bytes, sizeof bytes);
    if (n <= 0) end_with_child();
    fwrite(bytes, 1, (size_t)n, stdout);
    for (ssize_t i = 0; i < n; i++)
        note_shown(bytes[i]);
    return true;
}

static bool ends_with(const char *text)
{
    size_t n = strlen(text);

    return n_shown >= n && memcmp(shown + n_shown - n, text, n) == 0;
}

/* Whether the line editor waits: it switches the terminal's echo off and shows a prompt. */
static bool is_prompt(const char *unused)
{
    struct termios modes;

    (void)unused;
    if (!ends_with(">>> ") && !ends_with("... ")) return false;
    return tcgetattr(terminal, &modes) == 0 && !(modes.c_lflag & (ECHO | ICANON));
}

static bool is_shown(const char *text)
{
    return strstr(shown, text) != NULL;
}

/* Waits until holds(text). The modes of the terminal change without output, so it is asked again
 * after a short time. */
static void await(bool (*holds)(const char *text), const char *text)
{
    for (int ms = 0; !holds(text);) {
        ms = read_terminal(5) ? 0 : ms + 5;
        if (ms < PATIENCE) continue;
        fprintf(stderr, "terminal: waited for %s, shown is: %s\n", text, shown);
        kill(child, SIGKILL);
        end(TIMED_OUT);
    }
}

static void type(const char *bytes, size_t n)
{
    n_shown = 0;
    shown[0] = '\0';
    if (write(terminal, bytes, n) != (ssize_t)n) end(TIMED_OUT);
}

/* Replaces the escapes of a text. */
static void unescape(char *text)
{
    static const char names[] = "tnr\\", values[] = "\t\n\r\\";
    char *to = text;

    while (*text != '\0') {
        const char *name = text[0] == '\\' && text[1] ? strchr(names, text[1]) : NULL;
        if (name != NULL) {
            *to++ = values[name - names];
            text += 2;
        } else if (text[0] == '\\' && isdigit((unsigned char)text[1])) {
            char digits[4] = {text[1], text[2], text[3], '\0'};
            *to++ = (char)strtol(digits, NULL, 8);
            text += 4;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

static void send_signal(const char *name)
{
    type("", 0);
    kill(child, strcmp(name, "TERM") == 0   ? SIGTERM
                : strcmp(name, "CONT") == 0 ? SIGCONT
                                            : SIGWINCH);
}

static void step(char *line)
{
    char *words = line + strcspn(line, " "); /* behind @keys and its like */

    if (line[0] != '@') {
        await(is_prompt, "a prompt");
        type(line, strlen(line));
        return;
    }
    line[strcspn(line, "\n")] = '\0';
    words += *words == ' ';
    unescape(words);
    if (strncmp(line, "@keys", 5) == 0) await(is_prompt, "a prompt");
    if (strncmp(line, "@await", 6) == 0)
        await(is_shown, words);
    else if (strncmp(line, "@kill", 5) == 0)
        send_signal(words);
    else
        type(words, strlen(words));
}

int main(int argc, char **argv)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char line[8192];

    if (argc > 3 && strcmp(argv[1], "-c") == 0) {
        size.ws_col = (unsigned short)atoi(argv[2]);
        argv += 2;
        argc -= 2;
    }
    if (argc < 2) return 2;
    child = forkpty(&terminal, NULL, NULL, &size);
    if (child < 0) return TIMED_OUT;
    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    while (fgets(line, sizeof line, stdin) != NULL)
        step(line);
    for (;;) {
        await(is_prompt, "the end");
        type("\4", 1);
    }
}
