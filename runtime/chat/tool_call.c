#include "runtime/chat/tool_call.h"

enum { MAX_NAME = 256 };

bool sp_tool_call_is_list(const struct sp_tool_call_format *s)
{
    return s->style == SP_TOOL_CALL_OBJECT || s->style == SP_TOOL_CALL_PYTHON;
}

static void set_name(struct sp_tool_call *call, const char *name, size_t size)
{
    call->name.len = 0;
    if (sp_strbuf_append(&call->name, name, size, NULL) ||
        sp_strbuf_append(&call->name, "", 1, NULL))
        call->arguments.no_memory = true;
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
static struct sp_json *parse_object(struct sp_tool_call *call, const char *text, size_t size)
{
    struct sp_json *out = NULL;

    if (!has_capital(text, size) &&
        sp_json_parse(&out, text, size, SP_JSON_LENIENT, NULL) == SP_E_NOMEM)
        call->arguments.no_memory = true;
    return out;
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
static enum sp_value_read append_arguments(struct sp_tool_call *call, const struct sp_json *value)
{
    size_t size;
    const char *text = sp_json_to_string(value, &size);
    struct sp_json *inner = text ? parse_object(call, text, size) : NULL;
    enum sp_value_read read = SP_VALUE_READ;

    if (inner != NULL) value = inner;
    if (value == NULL)
        sp_json_out_raw(&call->arguments, "{}");
    else if (sp_json_kind(value) == SP_JSON_OBJECT)
        sp_json_out_value(&call->arguments, NULL, value);
    else
        read = SP_VALUE_NONE;
    sp_json_free(inner);
    return read;
}

static enum sp_value_read take_object(struct sp_tool_call *call,
                                      const struct sp_tool_call_source *in,
                                      const struct sp_json *object)
{
    const struct sp_tool_call_format *s = in->format;
    static const char *const names[] = {"name", NULL}, *const arguments[] = {"arguments",
                                                                             "parameters", NULL};
    struct sp_json_iter only = {0};
    const struct sp_json *value;
    const char *text;
    size_t size;

    if (s->style == SP_TOOL_CALL_OBJECT && !*s->name_key) {
        if (sp_json_len(object) != 1 || !sp_json_next(object, &only)) return SP_VALUE_NONE;
        text = only.key;
        size = strlen(text);
        value = only.value;
    } else {
        if (sp_json_kind(sp_json_get(object, "function")) == SP_JSON_OBJECT)
            object = sp_json_get(object, "function");
        text = sp_json_to_string(member(object, s->name_key, names), &size);
        value = member(object, s->arguments_key, arguments);
        if (text == NULL || (in->bare && value == NULL)) return SP_VALUE_NONE;
    }
    if (!sp_tool_call_name_possible(text, size)) return SP_VALUE_NONE;
    set_name(call, text, size);
    return append_arguments(call, value);
}

/* Skips a byte after whitespace. */
static bool skip(const struct sp_tool_call_source *in, size_t *at, char c)
{
    *at += sp_whitespace_run(in->text + *at, in->size - *at);
    if (*at == in->size || in->text[*at] != c) return false;
    ++*at;
    return true;
}

/* Skips a string without escapes to its end: names have none. */
static bool skip_string(const struct sp_tool_call_source *in, size_t *at, size_t *begin,
                        size_t *len)
{
    const char *end;

    if (!skip(in, at, '"')) return false;
    *begin = *at;
    end = memchr(in->text + *at, '"', in->size - *at);
    if (end == NULL) return false;
    *len = (size_t)(end - in->text) - *at;
    *at += *len + 1;
    return memchr(in->text + *begin, '\\', *len) == NULL;
}

/* Finds the arguments that have begun, {"name": "f", "arguments": { or {"f": {, and the name before
 * them, in an object that a grammar guarantees to be a call. */
static void find_arguments(struct sp_tool_call *call, const struct sp_tool_call_source *in,
                           size_t at)
{
    size_t name, n_name, key, n_key, end;
    bool found = skip(in, &at, '{');

    if (*in->format->name_key)
        found = found && skip_string(in, &at, &key, &n_key) && skip(in, &at, ':');
    found = found && skip_string(in, &at, &name, &n_name);
    if (*in->format->name_key)
        found = found && skip(in, &at, ',') && skip_string(in, &at, &key, &n_key);
    if (!found || !skip(in, &at, ':') || !skip(in, &at, '{')) return;
    set_name(call, in->text + name, n_name);
    call->written = in->text + at - 1;
    call->n_written = in->size - at + 1;
    if (sp_tool_value_json_end(&end, call->written, call->n_written) == SP_VALUE_READ)
        call->n_written = end;
}

static enum sp_value_read read_object(struct sp_tool_call *call, size_t *used,
                                      const struct sp_tool_call_source *in)
{
    struct sp_json *object;
    size_t at = sp_whitespace_run(in->text, in->size), end;
    enum sp_value_read read;

    if (at < in->size && in->text[at] == '[') {
        at++;
        at += sp_whitespace_run(in->text + at, in->size - at);
    }
    if (at == in->size) return SP_VALUE_MORE;
    if (in->text[at] != '{') return SP_VALUE_NONE;
    if (in->constrained && in->format->style == SP_TOOL_CALL_OBJECT) find_arguments(call, in, at);
    read = sp_tool_value_json_end(&end, in->text + at, in->size - at);
    if (read != SP_VALUE_READ) return read;
    *used = at + end;
    object = parse_object(call, in->text + at, end);
    read = take_object(call, in, object);
    sp_json_free(object);
    return read;
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

static enum sp_value_read read_named(struct sp_tool_call *call, size_t *used,
                                     const struct sp_tool_call_source *in)
{
    const struct sp_value_notation bare = {in->format->quote, false};
    struct sp_json *object;
    size_t name, n_name, at, end = 0;
    enum sp_value_read read =
        find_name(&name, &n_name, &at, in->format->before_arguments, in->text, in->size);

    if (read != SP_VALUE_READ) return read;
    at += sp_whitespace_run(in->text + at, in->size - at);
    if (at == in->size) return SP_VALUE_MORE;
    if (in->text[at] != '{') return SP_VALUE_NONE;
    set_name(call, in->text + name, n_name);
    if (in->format->style == SP_TOOL_CALL_BARE) {
        read = sp_tool_value_read(&call->arguments, &end, in->text + at, in->size - at, &bare);
        *used = at + end;
        return read;
    }
    read = sp_tool_value_json_end(&end, in->text + at, in->size - at);
    call->written = in->text + at;
    call->n_written = read == SP_VALUE_READ ? end : in->size - at;
    if (read != SP_VALUE_READ) return read;
    *used = at + end;
    object = parse_object(call, in->text + at, end);
    if (object == NULL) read = SP_VALUE_NONE;
    sp_json_free(object);
    sp_json_out_bytes(&call->arguments, in->text + at, end);
    return read;
}

static enum sp_value_read read_python(struct sp_tool_call *call, size_t *used,
                                      const struct sp_tool_call_source *in)
{
    static const struct sp_value_notation python = {"", true};
    size_t skip = sp_whitespace_run(in->text, in->size), name, n_name, at, end = 0;
    enum sp_value_read read;

    if (skip < in->size && in->text[skip] == '[') skip++;
    skip += sp_whitespace_run(in->text + skip, in->size - skip);
    /* Some models write a JSON object between the same tags. */
    if (skip < in->size && in->text[skip] == '{') return read_object(call, used, in);
    read = find_name(&name, &n_name, &at, "", in->text + skip, in->size - skip);
    if (read != SP_VALUE_READ) return read;
    at += skip;
    if (in->text[at] != '(') return SP_VALUE_NONE;
    set_name(call, in->text + skip + name, n_name);
    read = sp_tool_value_read(&call->arguments, &end, in->text + at, in->size - at, &python);
    *used = at + end;
    return read;
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
static void append_value(struct sp_tool_call *call, const struct sp_tool_call_source *in,
                         const char *key, const char *value, size_t size, bool is_text, bool is_cut)
{
    size_t lead = strlen(in->format->value_lead), tail = strlen(in->format->value_tail);
    struct sp_json_out *out = &call->arguments;

    if (size >= lead && memcmp(value, in->format->value_lead, lead) == 0) {
        value += lead;
        size -= lead;
    }
    if (size >= tail && memcmp(value + size - tail, in->format->value_tail, tail) == 0)
        size -= tail;
    if (out->text.len > 1) sp_json_out_raw(out, ", ");
    sp_tool_value_string(out, key, strlen(key));
    sp_json_out_raw(out, ": ");
    if (!is_text && !is_cut) {
        sp_tool_value_typed(out, in->tools, call->name.at, key, value, size);
    } else if (!is_text) {
        sp_json_out_bytes(out, value, size);
    } else {
        sp_tool_value_string(out, value, size);
        if (is_cut && !out->no_memory) out->text.len--;
    }
}

/* Reads the argument whose key begins at *at; *at moves after it. */
static enum sp_value_read read_argument(struct sp_tool_call *call, size_t *at,
                                        const struct sp_tool_call_source *in)
{
    const struct sp_tool_call_format *s = in->format;
    const char *text = in->text;
    size_t key = *at + sp_whitespace_run(in->text + *at, in->size - *at), n_key, i = key, len,
           text_at = key, text_len, value;
    enum sp_tag_match match = sp_tag_find(s->before_value, text, in->size, &i, &len),
                      text_match = sp_tag_find(s->before_text, text, in->size, &text_at, &text_len);
    bool typed = strcmp(s->before_value, s->before_text) != 0, is_text = false;
    enum sp_value_read read;
    char name[MAX_NAME + 1];

    if (text_match != SP_TAG_NO && (match == SP_TAG_NO || text_at < i)) {
        is_text = typed;
        match = text_match;
        i = text_at;
        len = text_len;
    }
    n_key = sp_trim_whitespace(text + key, i - key);
    if (n_key > MAX_NAME || memchr(text + key, '\n', n_key) != NULL) return SP_VALUE_NONE;
    if (match != SP_TAG_YES) return SP_VALUE_MORE;
    value = i + len;
    memcpy(name, text + key, n_key);
    name[n_key] = '\0';
    is_text = is_text || sp_tool_value_is_text(sp_tool_value_tool(in->tools, call->name.at), name);
    read = find_value_end(at, &len, value, in, is_text);
    if (read == SP_VALUE_READ || in->final)
        append_value(call, in, name, text + value, *at - value, is_text, read != SP_VALUE_READ);
    if (read == SP_VALUE_READ) *at += len;
    return read;
}

/* Reads all arguments up to the closing tag, which may only be missing at the end of an answer that
 * no grammar constrains. */
static enum sp_value_read read_arguments(struct sp_tool_call *call, size_t *at,
                                         const struct sp_tool_call_source *in)
{
    const struct sp_tool_call_format *s = in->format;
    enum sp_tag_match match, closes = SP_TAG_NO;
    enum sp_value_read read;
    size_t len;

    for (;;) {
        *at += sp_whitespace_run(in->text + *at, in->size - *at);
        match = sp_tag_match(s->before_key, in->text + *at, in->size - *at, &len);
        if (match != SP_TAG_YES) break;
        *at += len;
        if ((read = read_argument(call, at, in)) != SP_VALUE_READ) return read;
    }
    if (*s->close) closes = sp_tag_match(s->close, in->text + *at, in->size - *at, &len);
    if (closes == SP_TAG_YES ||
        (in->final && !in->constrained && (closes == SP_TAG_MAYBE || *at == in->size)))
        return SP_VALUE_READ;
    if (match == SP_TAG_MAYBE || closes == SP_TAG_MAYBE) return SP_VALUE_MORE;
    return *s->close ? SP_VALUE_NONE : SP_VALUE_READ;
}

static enum sp_value_read read_tagged(struct sp_tool_call *call, size_t *used,
                                      const struct sp_tool_call_source *in)
{
    struct sp_json *object = NULL;
    size_t name, n_name, at;
    enum sp_value_read read =
        find_name(&name, &n_name, &at, in->format->after_name, in->text, in->size);

    if (read != SP_VALUE_READ) return read;
    set_name(call, in->text + name, n_name);
    if (call->arguments.no_memory) return SP_VALUE_NONE;
    sp_json_out_raw(&call->arguments, "{");
    if ((read = read_arguments(call, &at, in)) != SP_VALUE_READ) return read;
    sp_json_out_raw(&call->arguments, "}");
    *used = at;
    /* An object with a repeated key is refused: its values may be quoted text. */
    if (sp_json_parse(&object, call->arguments.text.at, call->arguments.text.len, SP_JSON_STRICT,
                      NULL))
        read = SP_VALUE_NONE;
    sp_json_free(object);
    return read;
}

enum sp_status sp_tool_call_read(enum sp_value_read *read, struct sp_tool_call *call, size_t *used,
                                 const struct sp_tool_call_source *in, struct sp_err *err)
{
    static enum sp_value_read (*const readers[])(struct sp_tool_call *, size_t *,
                                                 const struct sp_tool_call_source *) = {
        [SP_TOOL_CALL_OBJECT] = read_object, [SP_TOOL_CALL_NAMED] = read_named,
        [SP_TOOL_CALL_BARE] = read_named,    [SP_TOOL_CALL_TAGGED] = read_tagged,
        [SP_TOOL_CALL_PYTHON] = read_python, [SP_TOOL_CALL_HARMONY] = NULL,
    };

    call->name.len = call->arguments.text.len = 0;
    call->written = NULL;
    call->arguments.comma = false;
    *read = SP_VALUE_NONE;
    if (readers[in->format->style]) *read = readers[in->format->style](call, used, in);
    if (*read == SP_VALUE_MORE && in->final) *read = SP_VALUE_NONE;
    if (*read == SP_VALUE_READ && in->bare && !call->arguments.no_memory &&
        sp_tool_value_tool(in->tools, call->name.at) == NULL)
        *read = SP_VALUE_NONE;
    return sp_json_out_check(&call->arguments, err);
}
