/* The name and the arguments of a call that is still being written. A grammar guarantees that it
 * is a call, so its parts are found, not checked. */
#include "runtime/chat/partial_call.h"
#include "runtime/chat/tool_call.h"

#include <string.h>

struct reading {
    const char *text;
    size_t size, at;
};

static void skip_whitespace(struct reading *r)
{
    r->at += sp_whitespace_run(r->text + r->at, r->size - r->at);
}

/* Skips a byte after whitespace. */
static bool skip(struct reading *r, char c)
{
    skip_whitespace(r);
    if (r->at == r->size || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

/* Skips a string without escapes to its end: names have none. */
static bool skip_string(struct reading *r, size_t *at, size_t *len)
{
    const char *end;

    if (!skip(r, '"')) return false;
    *at = r->at;
    end = memchr(r->text + r->at, '"', r->size - r->at);
    if (end == NULL) return false;
    *len = (size_t)(end - r->text) - r->at;
    r->at += *len + 1;
    return memchr(r->text + *at, '\\', *len) == NULL;
}

/* Finds {"name": "f", "arguments": or {"f": */
static bool find_in_object(struct reading *r, struct sp_partial_call *out,
                           const struct sp_tool_call_format *s)
{
    size_t at, len;

    (void)skip(r, '[');
    if (!skip(r, '{')) return false;
    if (!*s->name_key) return skip_string(r, &out->name, &out->n_name) && skip(r, ':');
    return skip_string(r, &at, &len) && skip(r, ':') && skip_string(r, &out->name, &out->n_name) &&
           skip(r, ',') && skip_string(r, &at, &len) && skip(r, ':');
}

static bool find_after_name(struct reading *r, struct sp_partial_call *out,
                            const struct sp_tool_call_format *s)
{
    const char *brace = memchr(r->text, '{', r->size);
    size_t at = 0, len = 0;

    if (brace == NULL) return false;
    if (*s->before_arguments &&
        sp_tag_find(s->before_arguments, r->text, r->size, &at, &len) != SP_TAG_YES)
        return false;
    out->name = sp_whitespace_run(r->text, r->size);
    if (!*s->before_arguments) at = (size_t)(brace - r->text);
    out->n_name = sp_trim_whitespace(r->text + out->name, at - out->name);
    r->at = at + len;
    return true;
}

bool sp_partial_call_read(struct sp_partial_call *out, const struct sp_tool_call_source *source)
{
    const struct sp_tool_call_format *s = source->format;
    struct reading r = {source->text, source->size, 0};
    bool named = false;
    size_t end;

    if (s->style == SP_TOOL_CALL_OBJECT) named = find_in_object(&r, out, s);
    if (s->style == SP_TOOL_CALL_NAMED) named = find_after_name(&r, out, s);
    if (!named) return false;
    skip_whitespace(&r);
    if (r.at == r.size || r.text[r.at] != '{') return false;
    out->arguments = r.at;
    out->n_arguments = r.size - r.at;
    if (sp_tool_value_json_end(&end, r.text + r.at, r.size - r.at) == SP_VALUE_READ)
        out->n_arguments = end;
    return true;
}
