#include "cli/serve/http/serve_http.h"
#include "format/base/file.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_FILE_BYTES = 1 << 20 };

static enum sp_status add(struct sp_serve_keys *keys, const char *text, size_t size,
                          struct sp_err *err)
{
    enum sp_status st = sp_grow(&keys->at, &keys->cap, keys->n + 1, sizeof *keys->at, err);

    if (!st) st = sp_copy_text(&keys->at[keys->n], text, size, err);
    if (!st) keys->n++;
    return st;
}

static enum sp_status add_lines(struct sp_serve_keys *keys, const char *text, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    while (*text != '\0' && !st) {
        size_t line = strcspn(text, "\n"), begin = strspn(text, " \t\r"), end = line;
        while (end > begin && strchr(" \t\r", text[end - 1]))
            end--;
        if (end > begin && text[begin] != '#') st = add(keys, text + begin, end - begin, err);
        text += line + (text[line] == '\n');
    }
    return st;
}

enum sp_status sp_serve_keys_read(struct sp_serve_keys *out, const char *path, const char *key,
                                  struct sp_err *err)
{
    static const char bom[] = "\xEF\xBB\xBF"; /* byte order mark of some editors */
    struct sp_serve_keys keys = {0};
    struct sp_text text = {0};
    enum sp_status st = SP_OK;

    if (path) {
        st = sp_file_read_text(&text, path, MAX_FILE_BYTES, err);
        if (!st && strlen(text.at) != text.size)
            st = sp_fail(err, SP_E_INPUT, "%s: byte %zu is NUL", path, strlen(text.at));
        if (!st) st = add_lines(&keys, text.at + (strncmp(text.at, bom, 3) == 0 ? 3 : 0), err);
        if (!st && keys.n == 0) st = sp_fail(err, SP_E_INPUT, "%s has no key", path);
    }
    if (!st && key && *key) st = add(&keys, key, strlen(key), err);
    free(text.at);
    if (st) sp_serve_keys_release(&keys);
    *out = keys;
    return st;
}

void sp_serve_keys_release(struct sp_serve_keys *keys)
{
    while (keys->n > 0)
        free(keys->at[--keys->n]);
    free(keys->at);
    *keys = (struct sp_serve_keys){0};
}

/* Compares without an early end, so that the time does not reveal how much of a key is right. */
static bool is_key(const char *key, const char *given, size_t size)
{
    size_t len = strlen(key);
    volatile unsigned char different = len != size;

    for (size_t i = 0; i < size; i++)
        different |= (unsigned char)(given[i] ^ key[i % len]);
    return different == 0;
}

static bool is_any(const struct sp_serve_keys *keys, const char *given)
{
    size_t size = strlen(given);
    bool found = false;

    for (size_t i = 0; i < keys->n; i++)
        found |= is_key(keys->at[i], given, size);
    return found;
}

bool sp_serve_keys_allow(const struct sp_serve_keys *keys, const char *authorization,
                         const char *x_api_key)
{
    static const char bearer[] = "Bearer ";

    if (keys->n == 0) return true;
    if (authorization && strncasecmp(authorization, bearer, sizeof bearer - 1) == 0) {
        authorization += sizeof bearer - 1;
        return is_any(keys, authorization + strspn(authorization, " "));
    }
    return x_api_key && is_any(keys, x_api_key);
}
