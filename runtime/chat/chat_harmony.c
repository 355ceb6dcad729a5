/* OpenAI's harmony: an answer is messages, each with a header that says what it is.
 *
 *   <|channel|>analysis<|message|>REASONING<|end|>
 *   <|start|>assistant<|channel|>commentary to=functions.NAME
 * <|constrain|>json<|message|>{}<|call|>
 *   <|start|>assistant<|channel|>final<|message|>CONTENT<|return|>
 *
 * The recipient may also stand in front of the channel; a message on the channel "commentary"
 * without one is content. */
#include "runtime/chat/chat_pending.h"

const char *const sp_chat_harmony_tags[] = {"<|start|>", "<|channel|>", "<|message|>",   "<|end|>",
                                            "<|call|>",  "<|return|>",  "<|constrain|>", NULL};

enum { MAX_HEADER = 256 };

/* Returns the word after the last `tag`, up to whitespace or another tag. */
static const char *word_after(size_t *size, const char *tag, const char *text, size_t len)
{
    const char *word = NULL;
    size_t n = strlen(tag);

    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(text + i, tag, n) == 0) word = text + i + n;
    *size = 0;
    while (word != NULL && word + *size < text + len && !sp_is_whitespace(word[*size]) &&
           word[*size] != '<')
        ++*size;
    return word;
}

static enum sp_status read_header(struct sp_chat_harmony *h, const struct sp_chat_pending *s,
                                  size_t len, struct sp_err *err)
{
    static const char functions[] = "functions.", analysis[] = "analysis";
    size_t n_channel, n_name, skip = strlen(functions);
    const char *channel = word_after(&n_channel, "<|channel|>", s->text.at, len);
    const char *name = word_after(&n_name, "to=", s->text.at, len);
    enum sp_status st;

    h->inside = true;
    h->kind = SP_CHAT_CONTENT;
    if (channel && n_channel == strlen(analysis) && memcmp(channel, analysis, n_channel) == 0)
        h->kind = SP_CHAT_REASONING;
    if (name == NULL || s->reading->tools == NULL) return SP_OK;
    if (n_name <= skip || memcmp(name, functions, skip) != 0) return SP_OK;
    h->kind = SP_CHAT_TOOL_CALL;
    h->name.len = 0;
    st = sp_strbuf_append(&h->name, name + skip, n_name - skip, err);
    return st ? st : sp_strbuf_append(&h->name, "", 1, err);
}

/* Returns true if the text is a header or may become one. */
static bool may_be_header(const struct sp_chat_pending *s)
{
    static const char *const begins[] = {"<|start|>",     "<|channel|>", "<|message|>",
                                         "<|constrain|>", "assistant",   "to="};
    size_t at = sp_whitespace_run(s->text.at, s->text.len), len;

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (sp_tag_match(begins[i], s->text.at + at, s->text.len - at, &len) != SP_TAG_NO)
            return true;
    return false;
}

/* Finds the end of the message: the first of its closing tags. */
static enum sp_tag_match find_end(const struct sp_chat_pending *s, size_t *at, size_t *len,
                                  bool *next)
{
    static const struct {
        const char *tag;
        bool next; /* the tag belongs to the next header */
    } ends[] = {{"<|end|>", false},
                {"<|call|>", false},
                {"<|return|>", false},
                {"<|start|>", true},
                {"<|channel|>", true}};
    enum sp_tag_match match = SP_TAG_NO;

    *at = s->text.len;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t here = 0, n = 0;
        enum sp_tag_match m = sp_tag_find(ends[i].tag, s->text.at, s->text.len, &here, &n);
        if (m == SP_TAG_NO || here >= *at) continue;
        match = m;
        *at = here;
        *len = n;
        *next = ends[i].next;
    }
    return match;
}

/* Emits a call; arguments that are not an object are content. */
static enum sp_status emit_call(struct sp_chat_harmony *h, struct sp_chat_pending *s, size_t n,
                                struct sp_err *err)
{
    size_t from = sp_whitespace_run(s->text.at, n),
           size = sp_trim_whitespace(s->text.at + from, n - from);
    struct sp_tool_call call = {.name = h->name};
    struct sp_json *object = NULL;

    if (sp_json_parse(&object, s->text.at + from, size, SP_JSON_STRICT, NULL) ||
        sp_json_kind(object) != SP_JSON_OBJECT) {
        sp_json_free(object);
        sp_chat_pending_emit(s, SP_CHAT_CONTENT, n);
        return SP_OK;
    }
    sp_json_free(object);
    sp_json_out_bytes(&call.arguments, s->text.at + from, size);
    if (!call.arguments.no_memory) sp_chat_pending_emit_call(s, &call);
    sp_strbuf_release(&call.arguments.text);
    sp_chat_pending_drop(s, n);
    return sp_json_out_check(&call.arguments, err);
}

/* Reads a message; *more = false: more text is needed. */
static enum sp_status read_message(bool *more, struct sp_chat_harmony *h, struct sp_chat_pending *s,
                                   bool final, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    size_t n, len = 0;
    bool next = false;
    enum sp_tag_match match = find_end(s, &n, &len, &next);

    *more = false;
    if (match == SP_TAG_MAYBE && final) {
        match = SP_TAG_NO;
        n = s->text.len;
    }
    if (h->kind == SP_CHAT_TOOL_CALL) {
        if (match != SP_TAG_YES && !final) return SP_OK;
        if ((st = emit_call(h, s, n, err))) return st;
    } else {
        sp_chat_pending_emit(s, h->kind, n);
    }
    if (match != SP_TAG_YES) return SP_OK;
    sp_chat_pending_drop(s, next ? 0 : len);
    h->inside = false;
    *more = true;
    return SP_OK;
}

enum sp_status sp_chat_harmony_read(struct sp_chat_harmony *h, struct sp_chat_pending *s,
                                    bool final, struct sp_err *err)
{
    static const char message[] = "<|message|>";
    enum sp_status st = SP_OK;
    bool more = true;

    while (more && !st && s->text.len > 0) {
        size_t at = 0, len = 0;
        enum sp_tag_match match;
        if (h->inside) {
            st = read_message(&more, h, s, final, err);
            continue;
        }
        match = sp_tag_find(message, s->text.at, s->text.len, &at, &len);
        if (!may_be_header(s) || at > MAX_HEADER || (match != SP_TAG_YES && final)) {
            /* Text that is not a header is content, even if it begins with a tag. */
            h->inside = true;
            h->kind = SP_CHAT_CONTENT;
            if (s->text.at[0] == '<') sp_chat_pending_emit(s, SP_CHAT_CONTENT, 1);
        } else if (match == SP_TAG_YES) {
            st = read_header(h, s, at, err);
            sp_chat_pending_drop(s, at + len);
        } else {
            more = false;
        }
    }
    return st;
}
