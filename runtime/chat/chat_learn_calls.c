/* Learns the style and the tags of tool calls from the text that a template writes around their
 * names and arguments. */
#include "runtime/chat/chat_parser.h"
#include "runtime/chat/chat_probe.h"
#include "runtime/chat/tool_call.h"

#include <stdlib.h>
#include <string.h>

/* The places of a rendered call in the text. */
struct call_place {
    size_t name, after_name;
    size_t key[SP_PROBE_ARGUMENTS], after_key[SP_PROBE_ARGUMENTS];
    size_t value[SP_PROBE_ARGUMENTS], after_value[SP_PROBE_ARGUMENTS];
};

/* The renderings to learn from. */
struct rendering {
    char *text;        /* rendering with calls; owned */
    char *plain;       /* rendering with content alone; may be NULL */
    size_t begin, end; /* range of the text that the calls added */
    unsigned n_calls;
    struct call_place calls[2];
};

/* ---- places ---- */

static bool find_word(size_t *at, size_t *end, const char *text, size_t from, const char *word)
{
    const char *found = strstr(text + from, word);

    if (found == NULL) return false;
    *at = (size_t)(found - text);
    *end = *at + strlen(word);
    return true;
}

/* Finds a call from `from` on; arguments follow the name. */
static bool find_call(struct call_place *call, const char *text, size_t from, const char *name)
{
    size_t at;

    if (!find_word(&call->name, &call->after_name, text, from, name)) return false;
    at = call->after_name;
    for (size_t i = 0; i < SP_PROBE_ARGUMENTS; i++) {
        if (!find_word(&call->key[i], &call->after_key[i], text, at, sp_probe_keys[i]) ||
            !find_word(&call->value[i], &call->after_value[i], text, call->after_key[i],
                       sp_probe_values[i]))
            return false;
        at = call->after_value[i];
    }
    return true;
}

/* Finds the end of the calls: the plain answer ends like this one after the tags of calls. */
static size_t end_of_calls(const struct rendering *r)
{
    size_t size = strlen(r->text), n = 0, n_tail;
    const char *tail = r->plain ? strstr(r->plain, SP_PROBE_CONTENT) : NULL;

    if (tail == NULL) return size;
    tail += strlen(SP_PROBE_CONTENT);
    n_tail = strlen(tail);
    while (n < n_tail && n < size && tail[n_tail - 1 - n] == r->text[size - 1 - n])
        n++;
    if (n == n_tail) return size - n;
    while (n > 0 && r->text[size - n] != '<')
        n--;
    return size - n;
}

static bool find_places(struct rendering *r, const char *asked)
{
    const char *content = r->plain ? strstr(r->plain, SP_PROBE_CONTENT) : NULL;
    size_t size = strlen(r->text), same, last;

    if (!find_call(&r->calls[0], r->text, 0, SP_PROBE_NAME)) return false;
    last = r->calls[0].after_value[SP_PROBE_ARGUMENTS - 1];
    if (r->n_calls == 2) {
        if (!find_call(&r->calls[1], r->text, last, SP_PROBE_SECOND_NAME)) return false;
        last = r->calls[1].after_value[SP_PROBE_ARGUMENTS - 1];
    }
    r->begin = 0;
    if (content) r->begin = sp_probe_same(r->text, size, r->plain, (size_t)(content - r->plain));
    same = asked ? sp_probe_same(r->text, size, asked, strlen(asked)) : 0;
    if (same > r->begin) r->begin = same;
    r->end = end_of_calls(r);
    return r->begin <= r->calls[0].name && last <= r->end;
}

/* ---- tags between calls ---- */

/* The length of the common suffix of two texts, shortened so that it does not divide a <tag>. */
static size_t same_end(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const char *longer = a;
    size_t n = 0, at;

    while (n < n_a && n < n_b && a[n_a - 1 - n] == b[n_b - 1 - n])
        n++;
    at = n_a - n;
    if (at == 0) { /* all of a is the suffix: the tag of b may still be divided */
        longer = b;
        at = n_b - n;
    }
    while (at > 0 && longer[at - 1] != '>' && longer[at - 1] != '<')
        at--;
    if (at == 0 || longer[at - 1] == '>') return n;
    while (n > 0 && a[n_a - n] != '>')
        n--;
    return n > 0 ? n - 1 : 0;
}

/* Drops whitespace and list brackets at the end, or the beginning, of tags around objects. */
static size_t without_list_open(const char *text, size_t size)
{
    size = sp_trim_whitespace(text, size);
    if (size > 0 && text[size - 1] == '[') size--;
    return sp_trim_whitespace(text, size);
}

static size_t list_close(const char *text, size_t size)
{
    size_t n = sp_whitespace_run(text, size);

    if (n < size && text[n] == ']') n++;
    return n + sp_whitespace_run(text + n, size - n);
}

/* Learns tags of styles with several calls between one pair. ends[i]: the end of call i. */
static bool learn_list_tags(struct sp_tool_call_format *s, const struct rendering *r, size_t begin,
                            size_t end)
{
    const char *text = r->text;
    size_t n = list_close(text + end, r->end - end);

    return sp_probe_tag(s->open, text + r->begin,
                        without_list_open(text + r->begin, begin - r->begin)) &&
           sp_probe_tag(s->close, text + end + n, r->end - end - n);
}

/* Learns the tags around each call and around all. `ends`: the end of each call's arguments. */
static bool learn_tags(struct sp_tool_call_format *s, const struct rendering *r,
                       const size_t ends[2])
{
    const char *text = r->text, *first = text + r->begin, *between = text + ends[0],
               *last = text + ends[r->n_calls - 1];
    size_t n_first = r->calls[0].name - r->begin, n_between, n_last = r->end - ends[r->n_calls - 1];
    size_t n_open, n_close, n_whitespace;

    if (r->n_calls == 1)
        return sp_probe_tag(s->open, first, n_first) && sp_probe_tag(s->close, last, n_last);
    n_between = r->calls[1].name - ends[0];
    n_open = same_end(first, n_first, between, n_between);
    n_close = sp_trim_whitespace(between, n_between - n_open);
    if (!sp_probe_tag(s->all_open, first, n_first - n_open) ||
        !sp_probe_tag(s->open, first + n_first - n_open, n_open) ||
        !sp_probe_tag(s->close, between, n_close))
        return false;
    n_whitespace = sp_whitespace_run(last, n_last);
    if (n_close > n_last || memcmp(last, between, n_close) != 0) return n_whitespace == n_last;
    return sp_probe_tag(s->all_close, last + n_close, n_last - n_close);
}

/* ---- forms ---- */

/* Learns the keys if the object at text[at] is the call. */
static bool learn_keys(struct sp_tool_call_format *s, const char *text, size_t size)
{
    struct sp_json *object = NULL;
    const struct sp_json *members;
    struct sp_json_iter it = {0};
    bool named = false, found = false;

    if (sp_json_parse(&object, text, size, SP_JSON_STRICT, NULL)) return false;
    members = object;
    if (sp_json_kind(sp_json_get(object, "function")) == SP_JSON_OBJECT)
        members = sp_json_get(object, "function");
    while (sp_json_next(members, &it)) {
        const char *value = sp_json_to_string(it.value, NULL);
        bool whole = sp_json_get(it.value, sp_probe_keys[0]) != NULL ||
                     (value != NULL && strstr(value, sp_probe_keys[0]) != NULL);
        if (value != NULL && strcmp(value, SP_PROBE_NAME) == 0)
            named = sp_probe_tag(s->name_key, it.key, strlen(it.key));
        else if (whole && strcmp(it.key, SP_PROBE_NAME) == 0)
            named = found = true;
        else if (whole)
            found = sp_probe_tag(s->arguments_key, it.key, strlen(it.key));
    }
    sp_json_free(object);
    return named && found && (*s->name_key != '\0') == (*s->arguments_key != '\0');
}

/* Finds the end of the last call's object; the first one begins at `begin`. */
static bool end_of_objects(size_t *end, const struct rendering *r, size_t begin)
{
    const char *text = r->text;
    size_t len;

    if (sp_tool_value_json_end(&len, text + begin, r->end - begin) != SP_VALUE_READ) return false;
    *end = begin + len;
    if (r->n_calls == 1) return true;
    while (*end < r->calls[1].name && text[*end] != '{')
        ++*end;
    if (sp_tool_value_json_end(&len, text + *end, r->end - *end) != SP_VALUE_READ) return false;
    *end += len;
    return *end > r->calls[1].name;
}

static bool learn_object(struct sp_tool_call_format *s, const struct rendering *r)
{
    const char *text = r->text;
    size_t len, end;

    for (size_t at = r->begin; at < r->calls[0].name; at++) {
        if (text[at] != '{') continue;
        if (sp_tool_value_json_end(&len, text + at, r->end - at) != SP_VALUE_READ) continue;
        if (at + len <= r->calls[0].after_value[0] || !learn_keys(s, text + at, len)) continue;
        s->style = SP_TOOL_CALL_OBJECT;
        return end_of_objects(&end, r, at) && learn_list_tags(s, r, at, end);
    }
    return false;
}

/* True if the name stands between quotes: it is part of some JSON that is not a whole object. */
static bool is_quoted(const struct rendering *r)
{
    const char *text = r->text;
    size_t before = sp_trim_whitespace(text, r->calls[0].name);

    if (before == 0 || text[before - 1] != '"') return false;
    before = sp_trim_whitespace(text, before - 1);
    return before > 0 && (text[before - 1] == ':' || text[before - 1] == '{');
}

static bool learn_named(struct sp_tool_call_format *s, const struct rendering *r)
{
    size_t ends[2] = {0, 0}, len = 0, at;

    if (is_quoted(r)) return false;
    for (unsigned i = 0; i < r->n_calls; i++) {
        const struct call_place *c = &r->calls[i];
        const char *brace = memchr(r->text + c->after_name, '{', c->key[0] - c->after_name);
        if (brace == NULL) return false;
        at = (size_t)(brace - r->text);
        if (sp_tool_value_json_end(&len, brace, r->end - at) != SP_VALUE_READ) return false;
        ends[i] = at + len;
        if (ends[i] < c->after_value[SP_PROBE_ARGUMENTS - 1]) return false;
        if (i == 0 &&
            !sp_probe_tag(s->before_arguments, r->text + c->after_name, at - c->after_name))
            return false;
    }
    s->style = SP_TOOL_CALL_NAMED;
    return learn_tags(s, r, ends);
}

/* Learns {key:QUOTEtextQUOTE}. */
static bool learn_bare(struct sp_tool_call_format *s, const struct rendering *r)
{
    const struct call_place *c = &r->calls[0];
    const char *text = r->text;
    size_t quote = c->after_key[0] + 1, n = c->value[0] - quote;

    if (text[c->after_key[0]] != ':' || c->value[0] <= quote || n >= SP_TAG_SIZE) return false;
    if (strncmp(text + c->after_value[0], text + quote, n) != 0) return false;
    if (text[c->key[0] - 1] != '{') return false;
    memcpy(s->quote, text + quote, n);
    s->quote[n] = '\0';
    if (!learn_named(s, r)) return false;
    s->style = SP_TOOL_CALL_BARE;
    return true;
}

static bool learn_python(struct sp_tool_call_format *s, const struct rendering *r)
{
    const struct call_place *c = &r->calls[0], *last = &r->calls[r->n_calls - 1];
    size_t end = last->after_value[SP_PROBE_ARGUMENTS - 1];

    if (c->key[0] != c->after_name + 1 || r->text[c->after_name] != '(') return false;
    if (r->text[c->after_key[0]] != '=' || r->text[end] != ')') return false;
    s->style = SP_TOOL_CALL_PYTHON;
    return learn_list_tags(s, r, c->name, end + 1);
}

/* Copies the whitespace at the beginning, or the end, of a text. */
static bool learn_whitespace(char n_whitespace[8], const char *text, size_t size, bool at_end)
{
    size_t n = at_end ? size - sp_trim_whitespace(text, size) : sp_whitespace_run(text, size);

    if (n >= 8) return false;
    memcpy(n_whitespace, at_end ? text + size - n : text, n);
    n_whitespace[n] = '\0';
    return true;
}

static bool learn_tagged(struct sp_tool_call_format *s, const struct rendering *r)
{
    const struct call_place *c = &r->calls[0];
    const char *text = r->text, *head = text + c->after_name, *next = text + c->after_value[0];
    size_t n_head = c->key[0] - c->after_name, n_next = c->key[1] - c->after_value[0];
    size_t n_key = same_end(head, n_head, next, n_next), n_value = n_next - n_key, ends[2] = {0, 0};

    if (is_quoted(r)) return false;
    n_value = sp_trim_whitespace(next, n_value);
    for (unsigned i = 0; i < r->n_calls; i++) {
        size_t last = r->calls[i].after_value[SP_PROBE_ARGUMENTS - 1];
        if (r->end - last < n_value || memcmp(text + last, next, n_value) != 0) return false;
        ends[i] = last + n_value;
    }
    s->style = SP_TOOL_CALL_TAGGED;
    return sp_probe_tag(s->after_name, head, n_head - n_key) &&
           sp_probe_tag(s->before_key, head + n_head - n_key, n_key) &&
           sp_probe_tag(s->after_value, next, n_value) &&
           sp_probe_tag(s->before_text, text + c->after_key[0], c->value[0] - c->after_key[0]) &&
           sp_probe_tag(s->before_value, text + c->after_key[2], c->value[2] - c->after_key[2]) &&
           learn_whitespace(s->value_lead, text, c->value[0], true) &&
           learn_whitespace(s->value_tail, next, n_next, false) && *s->before_key &&
           *s->before_text && *s->before_value && *s->after_value && learn_tags(s, r, ends);
}

static bool learn_harmony(struct sp_tool_call_format *s, const struct rendering *r)
{
    if (strstr(r->text, "<|channel|>") == NULL || strstr(r->text, "<|message|>") == NULL)
        return false;
    s->style = SP_TOOL_CALL_HARMONY;
    return true;
}

/* ---- belief ---- */

struct checking {
    unsigned n_right, n_wrong;
};

static void check_part(void *context, const struct sp_chat_part *part)
{
    static const char *const names[] = {SP_PROBE_NAME, SP_PROBE_SECOND_NAME};
    struct checking *c = context;
    struct sp_json *arguments = NULL;
    const char *a, *b;
    int64_t number = 0;

    if (part->kind != SP_CHAT_TOOL_CALL) return;
    if (sp_json_parse(&arguments, part->text, part->size, SP_JSON_STRICT, NULL) == SP_OK &&
        c->n_right < 2 && strcmp(part->name, names[c->n_right]) == 0 &&
        (a = sp_json_to_string(sp_json_get(arguments, sp_probe_keys[0]), NULL)) != NULL &&
        (b = sp_json_to_string(sp_json_get(arguments, sp_probe_keys[1]), NULL)) != NULL &&
        strcmp(a, sp_probe_values[0]) == 0 && strcmp(b, sp_probe_values[1]) == 0 &&
        sp_json_to_i64(sp_json_get(arguments, sp_probe_keys[2]), &number) &&
        number == strtol(sp_probe_values[2], NULL, 10) && sp_json_len(arguments) == 3)
        c->n_right++;
    else
        c->n_wrong++;
    sp_json_free(arguments);
}

/* Parses the rendering with the learned format and compares. */
static enum sp_status check(bool *right, const struct sp_tool_call_format *s,
                            const struct rendering *r, struct sp_err *err)
{
    struct sp_chat_format format = {.calls = *s};
    struct checking checking = {0, 0};
    struct sp_chat_parser_options reading = {
        .format = &format, .part = check_part, .context = &checking};
    struct sp_chat_parser *parser = NULL;
    struct sp_json *tools = NULL;
    enum sp_status st;

    *right = false;
    if ((st = sp_probe_tools(&tools, err))) return st;
    reading.tools = tools;
    if ((st = sp_chat_parser_open(&parser, &reading, err))) goto done;
    if ((st = sp_chat_parser_feed(parser, r->text + r->begin, r->end - r->begin, false, err)))
        goto done;
    if ((st = sp_chat_parser_finish(parser, err))) goto done;
    *right = checking.n_right == r->n_calls && checking.n_wrong == 0;
done:
    sp_chat_parser_close(parser);
    sp_json_free(tools);
    return st;
}

static enum sp_status learn_from(struct sp_tool_call_format *out, const struct rendering *r,
                                 const struct sp_probe *probe, struct sp_err *err)
{
    static bool (*const forms[])(struct sp_tool_call_format *, const struct rendering *) = {
        learn_harmony, learn_object, learn_bare, learn_named, learn_python, learn_tagged};
    enum sp_status st;
    bool right = false;

    for (size_t i = 0; i < sizeof forms / sizeof *forms && !right; i++) {
        struct sp_tool_call_format s = {.text_arguments = probe->text_arguments,
                                        .null_content = probe->null_content};
        if (!forms[i](&s, r)) continue;
        if (s.style != SP_TOOL_CALL_OBJECT && !*s.open && !*s.all_open &&
            s.style != SP_TOOL_CALL_HARMONY)
            continue;
        if ((st = check(&right, &s, r, err))) return st;
        if (right) *out = s;
    }
    return SP_OK;
}

static enum sp_status try_one(struct sp_tool_call_format *out, const struct sp_template *t,
                              const struct sp_probe *calls, struct sp_err *err)
{
    struct sp_probe probe = *calls;
    struct rendering r = {.n_calls = calls->n_calls};
    enum sp_status st;
    char *asked = NULL;

    if ((st = sp_probe_render(&r.text, t, &probe, false, err)) || r.text == NULL) return st;
    probe.answer = SP_PROBE_PLAIN;
    if ((st = sp_probe_render(&r.plain, t, &probe, false, err))) goto done;
    probe.answer = SP_PROBE_NONE;
    if ((st = sp_probe_render(&asked, t, &probe, false, err))) goto done;
    if (find_places(&r, asked)) st = learn_from(out, &r, calls, err);
done:
    free(r.text);
    free(r.plain);
    free(asked);
    return st;
}

enum sp_status sp_chat_learn_calls(struct sp_chat_format *out, const struct sp_template *t,
                                   struct sp_err *err)
{
    enum sp_status st;

    /* objects and empty content first, as the servers of other programs send them */
    for (unsigned i = 0; i < 8 && out->calls.style == SP_TOOL_CALL_UNKNOWN; i++) {
        const struct sp_probe probe = {
            .answer = SP_PROBE_CALLS,
            .tools = true,
            .n_calls = i & 1 ? 1 : 2,
            .null_content = (i & 2) != 0,
            .text_arguments = (i & 4) != 0,
        };
        if ((st = try_one(&out->calls, t, &probe, err))) return st;
    }
    return SP_OK;
}
