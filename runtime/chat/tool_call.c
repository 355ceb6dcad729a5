#include "runtime/chat/tool_call.h"
#include "format/json/json_write.h"

enum { MAX_NAME = 256 };

bool sp_tool_call_is_list(const struct sp_tool_call_format *s)
{
    return s->style == SP_TOOL_CALL_OBJECT || s->style == SP_TOOL_CALL_PYTHON;
}

static enum sp_status set_name(struct sp_tool_call *call, const char *name, size_t size,
                               struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(&call->name, name, size, err);

    return st ? st : sp_strbuf_append(&call->name, "", 1, err);
}

bool sp_tool_call_name_possible(const char *name, size_t size)
{
    if (size == 0 || size > MAX_NAME) return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("<>{}()\"'", name[i]) != NULL) return false;
    return true;
}

/* ---- {"name": ..., "arguments": {...}} ---- */

/* True if a capital stands outside of strings, as in NaN and Infinity, which a lenient reader would
 * take and which are not JSON. */
static bool has_capital(const char *text, size_t size)
{
    bool quoted = false;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') quoted = !quoted;
        if (quoted && text[i] == '\\') i++;
        if (!quoted && (text[i] == 'N' || text[i] == 'I')) return true;
    }
    return false;
}

/* NULL: the text is not JSON. A key that occurs twice has its last value, as for most readers of
 * JSON. */
static enum sp_status parse_object(struct sp_json **out, const char *text, size_t size,
                                   struct sp_err *err)
{
    struct sp_err ours = {0};
    enum sp_status st = SP_OK;

    *out = NULL;
    if (!has_capital(text, size)) st = sp_json_parse(out, text, size, SP_JSON_LENIENT, &ours);
    return st == SP_E_NOMEM ? sp_fail_as(err, &ours) : SP_OK;
}

static const struct sp_json *member(const struct sp_json *object, const char *learned,
                                    const char *const *others)
{
    const struct sp_json *value = *learned ? sp_json_get(object, learned) : NULL;

    for (; value == NULL && *others != NULL; others++)
        value = sp_json_get(object, *others);
    return value;
}

/* Appends the arguments: an object, an object in a string, or an empty object if there are none. */
static enum sp_status append_arguments(enum sp_value_read *read, struct sp_strbuf *out,
                                       const struct sp_json *value, struct sp_err *err)
{
    struct sp_json *inner = NULL;
    enum sp_status st = SP_OK;
    size_t size;
    const char *text = sp_json_to_string(value, &size);
    char *printed = NULL;

    *read = SP_VALUE_NONE;
    if (text != NULL && (st = parse_object(&inner, text, size, err))) return st;
    if (inner != NULL) value = inner;
    if (value == NULL || sp_json_kind(value) == SP_JSON_OBJECT) {
        *read = SP_VALUE_READ;
        st = value ? sp_json_print(&printed, value, err) : sp_copy_text(&printed, "{}", 2, err);
    }
    if (!st && printed != NULL) st = sp_strbuf_append(out, printed, strlen(printed), err);
    free(printed);
    sp_json_free(inner);
    return st;
}

static enum sp_status take_object(enum sp_value_read *read, struct sp_tool_call *call,
                                  const struct sp_tool_call_source *in,
                                  const struct sp_json *object, struct sp_err *err)
{
    const struct sp_tool_call_format *s = in->format;
    static const char *const names[] = {"name", NULL}, *const arguments[] = {"arguments",
                                                                             "parameters", NULL};
    struct sp_json_iter only = {0};
    const struct sp_json *name, *value;
    enum sp_status st;
    const char *text;
    size_t size;

    *read = SP_VALUE_NONE;
    if (s->style == SP_TOOL_CALL_OBJECT && !*s->name_key) {
        if (sp_json_len(object) != 1 || !sp_json_next(object, &only)) return SP_OK;
        if (!sp_tool_call_name_possible(only.key, strlen(only.key))) return SP_OK;
        if ((st = set_name(call, only.key, strlen(only.key), err))) return st;
        return append_arguments(read, &call->arguments, only.value, err);
    }
    if (sp_json_kind(sp_json_get(object, "function")) == SP_JSON_OBJECT)
        object = sp_json_get(object, "function");
    name = member(object, s->name_key, names);
    value = member(object, s->arguments_key, arguments);
    text = sp_json_to_string(name, &size);
    if (text == NULL || !sp_tool_call_name_possible(text, size) || (in->bare && value == NULL))
        return SP_OK;
    if ((st = set_name(call, text, size, err))) return st;
    return append_arguments(read, &call->arguments, value, err);
}

static enum sp_status read_object(enum sp_value_read *read, struct sp_tool_call *call, size_t *used,
                                  const struct sp_tool_call_source *in, struct sp_err *err)
{
    struct sp_json *object = NULL;
    size_t at = sp_whitespace_run(in->text, in->size), end;
    enum sp_status st;

    if (at < in->size && in->text[at] == '[') {
        at++;
        at += sp_whitespace_run(in->text + at, in->size - at);
    }
    *read = at == in->size ? SP_VALUE_MORE : SP_VALUE_NONE;
    if (at == in->size || in->text[at] != '{') return SP_OK;
    *read = sp_tool_value_json_end(&end, in->text + at, in->size - at);
    if (*read != SP_VALUE_READ) return SP_OK;
    *used = at + end;
    if ((st = parse_object(&object, in->text + at, end, err))) return st;
    st = take_object(read, call, in, object, err);
    sp_json_free(object);
    return st;
}

/* ---- a name and its arguments ---- */

/* Finds the name up to the tag `after` or, if empty, up to a bracket. *at: the place after both. */
static enum sp_value_read find_name(size_t *name, size_t *n_name, size_t *at, const char *after,
                                    const char *text, size_t size)
{
    size_t from = sp_whitespace_run(text, size), i = from, len = 0;
    enum sp_tag_match match = SP_TAG_NO;

    if (*after) {
        match = sp_tag_find(after, text, size, &i, &len);
        if (match == SP_TAG_NO) i = size;
    } else {
        while (i < size && strchr("{[(<", text[i]) == NULL && text[i] != '\n')
            i++;
        if (i < size) match = SP_TAG_YES;
    }
    *name = from;
    *n_name = sp_trim_whitespace(text + from, i - from);
    *at = i + len;
    if (match == SP_TAG_YES)
        return sp_tool_call_name_possible(text + from, *n_name) ? SP_VALUE_READ : SP_VALUE_NONE;
    return *n_name == 0 || sp_tool_call_name_possible(text + from, *n_name) ? SP_VALUE_MORE
                                                                            : SP_VALUE_NONE;
}

static enum sp_status read_named(enum sp_value_read *read, struct sp_tool_call *call, size_t *used,
                                 const struct sp_tool_call_source *in, struct sp_err *err)
{
    const struct sp_value_notation bare = {in->format->quote, false};
    struct sp_json *object = NULL;
    size_t name, n_name, at, end;
    enum sp_status st;

    *read = find_name(&name, &n_name, &at, in->format->before_arguments, in->text, in->size);
    if (*read != SP_VALUE_READ) return SP_OK;
    at += sp_whitespace_run(in->text + at, in->size - at);
    *read = at == in->size ? SP_VALUE_MORE : SP_VALUE_NONE;
    if (at == in->size || in->text[at] != '{') return SP_OK;
    if ((st = set_name(call, in->text + name, n_name, err))) return st;
    if (in->format->style == SP_TOOL_CALL_BARE) {
        st = sp_tool_value_read(read, &call->arguments, &end, in->text + at, in->size - at, &bare,
                                err);
        *used = at + end;
        return st;
    }
    *read = sp_tool_value_json_end(&end, in->text + at, in->size - at);
    if (*read != SP_VALUE_READ) return SP_OK;
    *used = at + end;
    if ((st = parse_object(&object, in->text + at, end, err))) return st;
    if (object == NULL) *read = SP_VALUE_NONE;
    sp_json_free(object);
    return sp_strbuf_append(&call->arguments, in->text + at, end, err);
}

static enum sp_status read_python(enum sp_value_read *read, struct sp_tool_call *call, size_t *used,
                                  const struct sp_tool_call_source *in, struct sp_err *err)
{
    static const struct sp_value_notation python = {"", true};
    size_t skip = sp_whitespace_run(in->text, in->size), name, n_name, at, end;
    enum sp_status st;

    if (skip < in->size && in->text[skip] == '[') skip++;
    skip += sp_whitespace_run(in->text + skip, in->size - skip);
    /* Some models write a JSON object between the same tags. */
    if (skip < in->size && in->text[skip] == '{') return read_object(read, call, used, in, err);
    *read = find_name(&name, &n_name, &at, "", in->text + skip, in->size - skip);
    if (*read != SP_VALUE_READ) return SP_OK;
    at += skip;
    *read = SP_VALUE_NONE;
    if (in->text[at] != '(') return SP_OK;
    if ((st = set_name(call, in->text + skip + name, n_name, err))) return st;
    st = sp_tool_value_read(read, &call->arguments, &end, in->text + at, in->size - at, &python,
                            err);
    *used = at + end;
    return st;
}

/* ---- arguments between tags ---- */

/* Finds the end of a value that begins at `at`: the next tag that is not inside JSON. *len: the
 * length of that tag. */
static enum sp_value_read find_value_end(size_t *end, size_t *len, size_t at,
                                         const struct sp_tool_call_source *in, bool is_text)
{
    const char *tag = in->format->after_value, *text = in->text;
    size_t from = at + sp_whitespace_run(text + at, in->size - at), n = 0;
    enum sp_value_read json = SP_VALUE_NONE;
    enum sp_tag_match match = SP_TAG_NO;

    if (!is_text) json = sp_tool_value_json_end(&n, text + from, in->size - from);
    if (json == SP_VALUE_MORE && !in->final) return SP_VALUE_MORE;
    if (json == SP_VALUE_READ) {
        *end = from + n;
        *end += sp_whitespace_run(text + *end, in->size - *end);
        match = sp_tag_match(tag, text + *end, in->size - *end, len);
        if (match == SP_TAG_YES) return SP_VALUE_READ;
        if (match == SP_TAG_MAYBE && !in->final) return SP_VALUE_MORE;
    }
    *end = at;
    match = sp_tag_find(tag, text, in->size, end, len);
    return match == SP_TAG_YES ? SP_VALUE_READ : SP_VALUE_MORE;
}

/* Appends the value without the whitespace that the template writes around it. A value that is cut
 * is the beginning of its JSON. */
static enum sp_status append_value(struct sp_tool_call *call, const struct sp_tool_call_source *in,
                                   const char *key, const char *value, size_t size, bool is_text,
                                   bool is_cut, struct sp_err *err)
{
    size_t lead = strlen(in->format->value_lead), tail = strlen(in->format->value_tail);
    enum sp_status st;

    if (size >= lead && memcmp(value, in->format->value_lead, lead) == 0) {
        value += lead;
        size -= lead;
    }
    if (size >= tail && memcmp(value + size - tail, in->format->value_tail, tail) == 0)
        size -= tail;
    if (call->arguments.len > 1 && (st = sp_strbuf_append(&call->arguments, ", ", 2, err)))
        return st;
    if ((st = sp_tool_value_string(&call->arguments, key, strlen(key), err))) return st;
    if ((st = sp_strbuf_append(&call->arguments, ": ", 2, err))) return st;
    if (is_text) {
        st = sp_tool_value_string(&call->arguments, value, size, err);
        if (is_cut && !st) call->arguments.len--;
        return st;
    }
    if (is_cut) return sp_strbuf_append(&call->arguments, value, size, err);
    return sp_tool_value_typed(&call->arguments, in->tools, call->name.at, key, value, size, err);
}

/* Reads the argument whose key begins at *at; *at moves after it. */
static enum sp_status read_argument(enum sp_value_read *read, struct sp_tool_call *call, size_t *at,
                                    const struct sp_tool_call_source *in, struct sp_err *err)
{
    const struct sp_tool_call_format *s = in->format;
    const char *text = in->text;
    size_t key = *at + sp_whitespace_run(in->text + *at, in->size - *at), n_key, i = key, len,
           text_at = key, text_len, value;
    enum sp_tag_match match = sp_tag_find(s->before_value, text, in->size, &i, &len),
                      text_match = sp_tag_find(s->before_text, text, in->size, &text_at, &text_len);
    bool typed = strcmp(s->before_value, s->before_text) != 0, is_text = false;
    enum sp_status st;
    char *name;

    if (text_match != SP_TAG_NO && (match == SP_TAG_NO || text_at < i)) {
        is_text = typed;
        match = text_match;
        i = text_at;
        len = text_len;
    }
    n_key = sp_trim_whitespace(text + key, i - key);
    *read = SP_VALUE_NONE;
    if (n_key > MAX_NAME || memchr(text + key, '\n', n_key) != NULL) return SP_OK;
    *read = match == SP_TAG_YES ? SP_VALUE_READ : SP_VALUE_MORE;
    if (*read != SP_VALUE_READ) return SP_OK;
    value = i + len;
    if ((st = sp_copy_text(&name, text + key, n_key, err))) return st;
    is_text = is_text || sp_tool_value_is_text(sp_tool_value_tool(in->tools, call->name.at), name);
    *read = find_value_end(at, &len, value, in, is_text);
    if (*read == SP_VALUE_READ || in->final)
        st = append_value(call, in, name, text + value, *at - value, is_text,
                          *read != SP_VALUE_READ, err);
    if (*read == SP_VALUE_READ) *at += len;
    free(name);
    return st;
}

/* Reads all arguments up to the closing tag, which may only be missing at the end of an answer that
 * no grammar constrains. */
static enum sp_status read_arguments(enum sp_value_read *read, struct sp_tool_call *call,
                                     size_t *at, const struct sp_tool_call_source *in,
                                     struct sp_err *err)
{
    const struct sp_tool_call_format *s = in->format;
    enum sp_tag_match match, closes = SP_TAG_NO;
    enum sp_status st;
    size_t len;

    for (;;) {
        *at += sp_whitespace_run(in->text + *at, in->size - *at);
        match = sp_tag_match(s->before_key, in->text + *at, in->size - *at, &len);
        if (match != SP_TAG_YES) break;
        *at += len;
        if ((st = read_argument(read, call, at, in, err)) || *read != SP_VALUE_READ) return st;
    }
    if (*s->close) closes = sp_tag_match(s->close, in->text + *at, in->size - *at, &len);
    *read = SP_VALUE_READ;
    if (closes == SP_TAG_YES ||
        (in->final && !in->constrained && (closes == SP_TAG_MAYBE || *at == in->size)))
        return SP_OK;
    if (match == SP_TAG_MAYBE || closes == SP_TAG_MAYBE)
        *read = SP_VALUE_MORE;
    else if (*s->close)
        *read = SP_VALUE_NONE;
    return SP_OK;
}

static enum sp_status read_tagged(enum sp_value_read *read, struct sp_tool_call *call, size_t *used,
                                  const struct sp_tool_call_source *in, struct sp_err *err)
{
    struct sp_json *object = NULL;
    size_t name, n_name, at;
    enum sp_status st;

    *read = find_name(&name, &n_name, &at, in->format->after_name, in->text, in->size);
    if (*read != SP_VALUE_READ) return SP_OK;
    if ((st = set_name(call, in->text + name, n_name, err)) ||
        (st = sp_strbuf_append(&call->arguments, "{", 1, err)) ||
        (st = read_arguments(read, call, &at, in, err)) || *read != SP_VALUE_READ ||
        (st = sp_strbuf_append(&call->arguments, "}", 1, err)))
        return st;
    *used = at;
    /* An object with a repeated key is refused: its values may be quoted text. */
    if (sp_json_parse(&object, call->arguments.at, call->arguments.len, SP_JSON_STRICT, NULL))
        *read = SP_VALUE_NONE;
    sp_json_free(object);
    return SP_OK;
}

enum sp_status sp_tool_call_read(enum sp_value_read *read, struct sp_tool_call *call, size_t *used,
                                 const struct sp_tool_call_source *in, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    call->name.len = call->arguments.len = 0;
    *read = SP_VALUE_NONE;
    switch (in->format->style) {
    case SP_TOOL_CALL_OBJECT:
        st = read_object(read, call, used, in, err);
        break;
    case SP_TOOL_CALL_NAMED:
    case SP_TOOL_CALL_BARE:
        st = read_named(read, call, used, in, err);
        break;
    case SP_TOOL_CALL_TAGGED:
        st = read_tagged(read, call, used, in, err);
        break;
    case SP_TOOL_CALL_PYTHON:
        st = read_python(read, call, used, in, err);
        break;
    case SP_TOOL_CALL_UNKNOWN:
    case SP_TOOL_CALL_HARMONY:
        break;
    }
    if (st) return st;
    if (*read == SP_VALUE_MORE && in->final) *read = SP_VALUE_NONE;
    if (*read == SP_VALUE_READ && in->bare && sp_tool_value_tool(in->tools, call->name.at) == NULL)
        *read = SP_VALUE_NONE;
    return SP_OK;
}
