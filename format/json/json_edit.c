#include "format/json/json_edit.h"

#include "format/json/json_scan.h"
#include "format/json/json_write.h"

static struct sp_json_scan scan_of(const struct sp_strbuf *text)
{
    return (struct sp_json_scan){.text = text->at, .size = text->len};
}

enum sp_status sp_json_members(struct sp_json_member **members, size_t *n,
                               const struct sp_strbuf *text, size_t at, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_scan scan = scan_of(text);
    struct sp_json_member *list = NULL;
    size_t n_list = 0, cap = 0;

    scan.end = at;
    if ((st = sp_json_scan(&scan, err))) return st;
    if (scan.token != SP_JSON_TOKEN_OPEN_OBJECT)
        return sp_fail(err, SP_E_INPUT, "no JSON object at byte %zu", at);
    while (!(st = sp_json_scan(&scan, err)) && scan.token == SP_JSON_TOKEN_KEY) {
        struct sp_json_member m = {.begin = scan.start, .key_end = scan.end};
        if ((st = sp_json_scan(&scan, err))) break;
        m.value = scan.start;
        if ((st = sp_json_scan_value(&scan, err))) break;
        m.end = scan.end;
        if (n_list == SP_JSON_MAX_MEMBERS) {
            st = sp_fail(err, SP_E_UNSUPPORTED, "an object of more than %d members at byte %zu",
                         SP_JSON_MAX_MEMBERS, at);
            break;
        }
        if ((st = sp_grow(&list, &cap, n_list + 1, sizeof *list, err))) break;
        list[n_list++] = m;
    }
    if (st) {
        free(list);
        return st;
    }
    *members = list;
    *n = n_list;
    return SP_OK;
}

static bool is_named(const struct sp_strbuf *text, const struct sp_json_member *m, const char *key)
{
    size_t n = strlen(key);

    return m->key_end - m->begin == n + 2 && memcmp(text->at + m->begin + 1, key, n) == 0;
}

enum sp_status sp_json_find_member(bool *found, struct sp_json_member *member,
                                   const struct sp_strbuf *text, const char *key,
                                   struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_member *members = NULL;
    size_t n = 0;

    *found = false;
    if ((st = sp_json_members(&members, &n, text, 0, err))) return st;
    for (size_t i = 0; i < n; i++) {
        if (!is_named(text, &members[i], key)) continue;
        *found = true;
        *member = members[i];
    }
    free(members);
    return SP_OK;
}

/* The text becomes what was written. */
static enum sp_status replace(struct sp_strbuf *text, struct sp_json_out *out, struct sp_err *err)
{
    enum sp_status st = sp_json_out_check(out, err);

    sp_strbuf_release(st ? &out->text : text);
    if (!st) *text = out->text;
    return st;
}

/* Bytes first..end-1 become `with`. */
static enum sp_status splice(struct sp_strbuf *text, size_t first, size_t end, const char *with,
                             size_t size, struct sp_err *err)
{
    struct sp_json_out out = {0};

    sp_json_out_bytes(&out, text->at, first);
    sp_json_out_bytes(&out, with, size);
    sp_json_out_bytes(&out, text->at + end, text->len - end);
    return replace(text, &out, err);
}

/* A comma, and what stands between the bracket and the first member. */
static void append_gap(struct sp_json_out *out, const struct sp_strbuf *text, size_t open,
                       size_t begin)
{
    sp_json_out_raw(out, ",");
    sp_json_out_bytes(out, text->at + open, begin - open);
}

static bool has_key(const struct sp_strbuf *text, const struct sp_json_member *members, size_t n,
                    const char *key, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        const struct sp_json_member *m = &members[i];
        if (m->key_end - m->begin == len && memcmp(text->at + m->begin, key, len) == 0) return true;
    }
    return false;
}

enum sp_status sp_json_merge(struct sp_strbuf *text, const struct sp_strbuf *from,
                             bool (*wanted)(const char *key, size_t len), struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_member *own = NULL, *others = NULL;
    struct sp_json_out lines = {0};
    size_t n_own = 0, n_others = 0, open, begin;

    if ((st = sp_json_members(&own, &n_own, text, 0, err))) goto done;
    if ((st = sp_json_members(&others, &n_others, from, 0, err))) goto done;
    open = (size_t)((const char *)memchr(text->at, '{', text->len) - text->at) + 1;
    begin = n_own ? own[0].begin : open;
    for (size_t i = 0; i < n_others; i++) {
        const struct sp_json_member *m = &others[i];
        const char *key = from->at + m->begin;
        size_t len = m->key_end - m->begin;
        if (!wanted(key + 1, len - 2) || has_key(text, own, n_own, key, len)) continue;
        if (lines.text.len) append_gap(&lines, text, open, begin);
        sp_json_out_bytes(&lines, key, m->end - m->begin);
    }
    if (lines.text.len && n_own) append_gap(&lines, text, open, begin);
    if ((st = sp_json_out_check(&lines, err))) goto done;
    st = splice(text, begin, begin, lines.text.at, lines.text.len, err);
done:
    free(own);
    free(others);
    sp_strbuf_release(&lines.text);
    return st;
}

static bool is_any(const char *key, size_t len)
{
    (void)key;
    (void)len;
    return true;
}

enum sp_status sp_json_set(struct sp_strbuf *text, const char *key, const char *value,
                           size_t value_size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_out alone = {0};
    struct sp_json_member m;
    bool found;

    if ((st = sp_json_find_member(&found, &m, text, key, err))) return st;
    if (found) return splice(text, m.value, m.end, value, value_size, err);
    sp_json_out_print(&alone, "{\"%s\": ", key);
    sp_json_out_bytes(&alone, value, value_size);
    sp_json_out_raw(&alone, "}");
    if (!(st = sp_json_out_check(&alone, err))) st = sp_json_merge(text, &alone.text, is_any, err);
    sp_strbuf_release(&alone.text);
    return st;
}

enum sp_status sp_json_remove(struct sp_strbuf *text, const char *key, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_member *members = NULL;
    struct sp_json_out out = {0};
    size_t n = 0, n_kept = 0;

    if ((st = sp_json_members(&members, &n, text, 0, err)) || n == 0) return st;
    sp_json_out_bytes(&out, text->at, members[0].begin);
    for (size_t i = 0; i < n; i++) {
        /* With the comma and what else stands in front, unless it is now the first. */
        size_t begin = n_kept && i ? members[i - 1].end : members[i].begin;
        if (is_named(text, &members[i], key)) continue;
        sp_json_out_bytes(&out, text->at + begin, members[i].end - begin);
        n_kept++;
    }
    sp_json_out_bytes(&out, text->at + members[n - 1].end, text->len - members[n - 1].end);
    free(members);
    return replace(text, &out, err);
}

/* Spaces before byte `at` on its line. */
static size_t indentation(const struct sp_strbuf *text, size_t at)
{
    size_t first = at;

    while (first > 0 && text->at[first - 1] == ' ')
        first--;
    return first == 0 || text->at[first - 1] == '\n' ? at - first : 0;
}

enum sp_status sp_json_lift(struct sp_strbuf *text, const struct sp_json_member *member,
                            struct sp_err *err)
{
    struct sp_json_out out = {0};
    size_t most = indentation(text, member->begin);

    /* No string holds a line feed: what follows one is indentation. */
    for (size_t i = member->value; i < member->end; i++) {
        size_t skipped = 0;
        sp_json_out_bytes(&out, text->at + i, 1);
        if (text->at[i] != '\n') continue;
        while (skipped < most && text->at[i + 1] == ' ') {
            i++;
            skipped++;
        }
    }
    return replace(text, &out, err);
}
