#include "tests/support/keep.h"
#include "format/json/json_write.h"
#include "tests/support/unit_test.h"

#include <pthread.h>

struct kept {
    void *object;
    void (*release)(void *object);
};

static struct kept *all;
static size_t n_all, n_reserved;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both */

void *keep_with(void *object, void (*release)(void *object))
{
    pthread_mutex_lock(&lock);
    if (n_all == n_reserved) {
        n_reserved = 2 * n_reserved + 64;
        all = realloc(all, n_reserved * sizeof *all);
    }
    if (all == NULL) abort();
    all[n_all++] = (struct kept){object, release};
    pthread_mutex_unlock(&lock);
    return object;
}

void *keep(void *memory)
{
    return keep_with(memory, free);
}

const char *keep_format(const char *format, ...)
{
    char text[1 << 16];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) >= (int)sizeof text) abort();
    va_end(args);
    return keep(strdup(text));
}

static void free_json(void *json)
{
    sp_json_free(json);
}

struct sp_json *keep_json(struct sp_json *json)
{
    return keep_with(json, free_json);
}

/* Returns a kept copy with double quotes around the strings that have single ones. */
static char *quoted(const char *text, size_t size)
{
    char *copy = keep(calloc(1, size + 1)), quote = '\0'; /* of the string around a byte; 0: none */

    if (copy == NULL) abort();
    memcpy(copy, text, size);
    for (char *at = copy; at < copy + size; at++) {
        char found = *at;
        if (found == '\\' && at + 1 < copy + size)
            found = *++at;
        else if (quote == '\0' && (found == '"' || found == '\''))
            quote = found;
        else if (found == quote)
            quote = '\0';
        else
            continue;
        if (found == '\'' && quote != '"') *at = '"';
    }
    return copy;
}

const char *keep_quoted(const char *text)
{
    return strchr(text, '\'') ? quoted(text, strlen(text)) : text;
}

struct sp_json *keep_parsed(const char *text, size_t size, enum sp_json_strictness strictness)
{
    struct sp_json *json = NULL;
    struct sp_err err = {0};

    if (memchr(text, '\'', size)) text = quoted(text, size);
    if (sp_json_parse(&json, text, size, strictness, &err)) fail_msg("%s in %s", err.text, text);
    return keep_json(json);
}

char *keep_printed(const struct sp_json *json)
{
    char *text = NULL;

    assert_ok(sp_json_print(&text, json, NULL));
    return keep(text);
}

size_t kept_count(void)
{
    return n_all;
}

void kept_release(size_t n)
{
    while (n_all > n) {
        n_all--;
        all[n_all].release(all[n_all].object);
    }
    if (n > 0) return;
    free(all);
    all = NULL;
    n_reserved = 0;
}
