#include "tests/support/browser.h"
#include "format/json/json_write.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE = 60000 /* ms that Chromium has for one answer, on a busy machine */,
    MOST_NAPS = 3000, /* of 20 ms, in which a page reaches a state */
    SKIPPED = 77
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static const char *find_program(void)
{
    static const char *const names[] = {"chromium", "chromium-browser", "google-chrome"};
    static char path[1024];
    const char *folders = getenv("PATH");

    for (; folders && *folders; folders += strspn(folders, ":")) {
        size_t n = strcspn(folders, ":");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(path, sizeof path, "%.*s/%s", (int)n, folders, names[i]);
            if (access(path, X_OK) == 0) return path;
        }
        folders += n;
    }
    return NULL;
}

/* ---- messages ---- */

/* Returns the next message; borrowed until the next call. */
static const char *receive(struct browser *b)
{
    if (b->n_read) memmove(b->buffer, b->buffer + b->n_read, b->size - b->n_read);
    b->size -= b->n_read;
    b->n_read = 0;
    for (;;) {
        const char *end = b->size ? memchr(b->buffer, '\0', b->size) : NULL;
        struct pollfd wait = {.fd = b->from, .events = POLLIN};
        if (end != NULL) {
            b->n_read = (size_t)(end - b->buffer) + 1;
            return b->buffer;
        }
        b->buffer = realloc(b->buffer, b->size + 65536);
        assert_non_null(b->buffer);
        if (poll(&wait, 1, PATIENCE) != 1) fail_msg("Chromium does not answer");
        ssize_t n = read(b->from, b->buffer + b->size, 65536);
        if (n <= 0) fail_msg("Chromium has ended");
        b->size += (size_t)n;
    }
}

/* Keeps the words of an exception or of an error on the console. */
static void note_problem(struct browser *b, const struct sp_json *event, const char *message)
{
    const char *method = sp_json_get_text(event, "method");
    const struct sp_json *parameters = sp_json_get(event, "params");
    const char *level = sp_json_get_text(sp_json_get(parameters, "entry"), "level");
    size_t len = strlen(b->problems);

    if (method == NULL) return;
    if (strcmp(method, "Runtime.exceptionThrown") != 0 && !(level && strcmp(level, "error") == 0))
        return;
    snprintf(b->problems + len, sizeof b->problems - len, "%.300s\n", message);
}

const struct sp_json *browser_send(struct browser *b, const char *method, const char *parameters)
{
    unsigned id = ++b->n_sent;
    char head[256];
    int n = snprintf(head, sizeof head, "{\"id\": %u, \"method\": \"%s\"%s%s%s, \"params\": ", id,
                     method, *b->session ? ", \"sessionId\": \"" : "", b->session,
                     *b->session ? "\"" : "");

    assert_int_equal(write(b->to, head, (size_t)n), n);
    assert_int_equal(write(b->to, parameters, strlen(parameters)), strlen(parameters));
    assert_int_equal(write(b->to, "}", 2), 2); /* with its NUL */
    for (;;) {
        const char *message = receive(b);
        const struct sp_json *json = keep_parsed(message, strlen(message), SP_JSON_LENIENT);
        int64_t answered = 0;
        if (sp_json_to_i64(sp_json_get(json, "id"), &answered) && answered == id) {
            if (sp_json_get(json, "result") == NULL) fail_msg("%s: %.300s", method, message);
            return sp_json_get(json, "result");
        }
        note_problem(b, json, message);
    }
}

/* Sends a command whose only parameter is a string; returns the text at `member` of the result. */
static const char *send_text(struct browser *b, const char *method, const char *key,
                             const char *value, const char *further, const char *member)
{
    struct sp_json_out out = {0};
    struct sp_text command;

    sp_json_out_print(&out, "{\"%s\": ", key);
    sp_json_out_quoted(&out, value, strlen(value));
    sp_json_out_print(&out, "%s}", further);
    assert_int_equal(sp_json_out_take(&command, &out, NULL), 0);
    const struct sp_json *result = browser_send(b, method, keep(command.at));
    const struct sp_json *found = sp_json_get(result, member);
    if (sp_json_get(found, "value")) found = sp_json_get(found, "value");
    if (sp_json_get(result, "exceptionDetails"))
        fail_msg("%s: %.500s", value, keep_printed(result));
    return sp_json_to_string(found, NULL) ? sp_json_to_string(found, NULL) : "";
}

/* ---- the process ---- */

/* Runs in the child. The pipes are above the descriptors 3 and 4, which Chromium uses. */
static void run_program(const char *program, int in, int out)
{
    char profile[512];
    int silent = open("/dev/null", O_RDWR);

    snprintf(profile, sizeof profile, "--user-data-dir=%s", scratch_path("chromium"));
    setenv("HOME", scratch_folder(), 1);
    setenv("XDG_CACHE_HOME", scratch_folder(), 1);
    setenv("XDG_CONFIG_HOME", scratch_folder(), 1);
    dup2(in, 3);
    dup2(out, 4);
    dup2(silent, 0);
    dup2(silent, 1);
    dup2(silent, 2);
    setpgid(0, 0);
    execl(program, "chromium", "--headless", "--no-sandbox", "--disable-gpu",
          "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars",
          "--no-first-run", "--remote-debugging-pipe", profile, "about:blank", (char *)NULL);
    _exit(127);
}

struct browser browser_start(void)
{
    const char *program = find_program();
    struct browser b = {.pid = 0};
    int to[2], from[2];

    if (program == NULL) {
        fprintf(stderr, "skipped: Chromium is not installed (apt-get install chromium)\n");
        exit(SKIPPED);
    }
    assert_int_equal(pipe(to) | pipe(from), 0);
    for (int i = 0; i < 2; i++) { /* above 3 and 4, and not for other children */
        to[i] = fcntl(to[i], F_DUPFD_CLOEXEC, 16);
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
    }
    b.pid = fork();
    assert_true(b.pid >= 0);
    if (b.pid == 0) run_program(program, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    b.to = to[1];
    b.from = from[0];
    const char *target = send_text(&b, "Target.createTarget", "url", "about:blank", "", "targetId");
    snprintf(b.session, sizeof b.session, "%s",
             send_text(&b, "Target.attachToTarget", "targetId", target, ", \"flatten\": true",
                       "sessionId"));
    browser_send(&b, "Page.enable", "{}");
    browser_send(&b, "Runtime.enable", "{}");
    browser_send(&b, "Log.enable", "{}");
    return b;
}

void browser_stop(struct browser *b)
{
    close(b->to);
    close(b->from);
    kill(-b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    free(b->buffer);
}

/* ---- the page ---- */

void browser_open(struct browser *b, const char *url)
{
    send_text(b, "Page.navigate", "url", url, "", "frameId");
    browser_await(b, "document.readyState", "complete");
}

void browser_run(struct browser *b, const char *script)
{
    send_text(b, "Runtime.evaluate", "expression", script, "", "result");
}

void browser_run_file(struct browser *b, const char *words, const char *path)
{
    size_t size;

    browser_run(b, keep_format("%s%s", words, scratch_read(path, &size)));
}

const char *browser_value(struct browser *b, const char *expression)
{
    return send_text(b, "Runtime.evaluate", "expression", keep_format("String(%s)", expression),
                     ", \"returnByValue\": true", "result");
}

void browser_await(struct browser *b, const char *expression, const char *value)
{
    for (int i = 0; i < MOST_NAPS; i++, nap()) {
        const char *now = browser_value(b, expression);
        if (strcmp(now, value) == 0) return;
        if (i == MOST_NAPS - 1) fail_msg("%s is \"%s\", not \"%s\"", expression, now, value);
    }
}

void browser_type(struct browser *b, const char *text)
{
    send_text(b, "Input.insertText", "text", text, "", "none");
}

void browser_press(struct browser *b, const char *key)
{
    bool enter = strcmp(key, "Enter") == 0;
    const char *further =
        enter ? ", \"type\": \"keyDown\", \"windowsVirtualKeyCode\": 13, \"text\": \"\\r\""
              : ", \"type\": \"keyDown\", \"windowsVirtualKeyCode\": 27";

    send_text(b, "Input.dispatchKeyEvent", "key", key, further, "none");
    send_text(b, "Input.dispatchKeyEvent", "key", key, ", \"type\": \"keyUp\"", "none");
}

void browser_show_as(struct browser *b, int width, int height, bool dark)
{
    const char *phone = width < 600 ? "true" : "false";

    browser_send(
        b, "Emulation.setDeviceMetricsOverride",
        keep_format("{\"width\": %d, \"height\": %d, \"deviceScaleFactor\": 1, \"mobile\": %s}",
                    width, height, phone));
    browser_send(b, "Emulation.setTouchEmulationEnabled", keep_format("{\"enabled\": %s}", phone));
    browser_send(
        b, "Emulation.setEmulatedMedia",
        keep_format("{\"features\": [{\"name\": \"prefers-color-scheme\", \"value\": \"%s\"}]}",
                    dark ? "dark" : "light"));
}

void browser_picture(struct browser *b, const char *name)
{
    const char *folder = getenv("SPECTOOL_SCREENSHOTS");

    if (folder == NULL) return;
    FILE *f = popen(keep_format("base64 -d >'%s/%s.png'", folder, name), "w");
    assert_non_null(f);
    fputs(send_text(b, "Page.captureScreenshot", "format", "png", "", "data"), f);
    assert_int_equal(pclose(f), 0);
}
