/* Drives a page in headless Chromium by its DevTools protocol, through pipes: a program starts it
 * with --remote-debugging-pipe and writes messages that end with a NUL to its descriptor 3. Every
 * failure fails the test. */
#ifndef SP_TESTS_SUPPORT_BROWSER_H
#define SP_TESTS_SUPPORT_BROWSER_H

#include "format/json/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct browser {
    pid_t pid;
    int to, from; /* pipes */
    unsigned n_sent;
    char session[64]; /* of the page */
    char *buffer;     /* [size] messages that were received; owned */
    size_t size, n_read;
    char problems[1024]; /* what the page reported: exceptions, and errors on its console */
};

/* Starts Chromium and opens an empty page. Ends the program with status 77, by which ctest knows a
 * skipped test, if Chromium is not installed. */
struct browser browser_start(void);
void browser_stop(struct browser *b);

/* Sends a command with the parameters that a JSON object has, and returns the member "result" of
 * the answer; kept (keep.h). */
const struct sp_json *browser_send(struct browser *b, const char *method, const char *parameters);
/* Opens an address and waits until it is loaded. */
void browser_open(struct browser *b, const char *url);
/* Runs a script in the page; what it declares stays. */
void browser_run(struct browser *b, const char *script);
/* Runs the script that is in a file, with words before its text. */
void browser_run_file(struct browser *b, const char *words, const char *path);
/* Returns the value of an expression, converted to a string; kept. */
const char *browser_value(struct browser *b, const char *expression);
/* Checks that the expression has this value, within ten seconds. */
void browser_await(struct browser *b, const char *expression, const char *value);
/* Types a text where the focus is, and presses a key such as "Enter". */
void browser_type(struct browser *b, const char *text);
void browser_press(struct browser *b, const char *key);
/* Sets the size of the window in pixels, and the color scheme, which the user prefers. A narrow
 * window is that of a phone with a touch screen. */
void browser_show_as(struct browser *b, int width, int height, bool dark);
/* Writes a picture of the page to the folder that SPECTOOL_SCREENSHOTS names, if it is set. */
void browser_picture(struct browser *b, const char *name);

#endif
