/* A chat: opening it learns from the template how the model writes answers. */
#include "format/base/mem.h"
#include "format/json/json_write.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_pending.h"
#include "runtime/chat/chat_probe.h"

#include <stdlib.h>
#include <string.h>

/* ---- special tokens ---- */

static enum sp_status add_special(struct sp_chat_specials *out, uint32_t id, const char *text,
                                  size_t size, struct sp_err *err)
{
    size_t cap = out->n;
    enum sp_status st;

    for (size_t i = 0; i < out->n; i++)
        if (out->at[i].id == id) return SP_OK;
    if ((st = sp_grow(&out->at, &cap, out->n + 1, sizeof *out->at, err))) return st;
    if ((st = sp_copy_text(&out->at[out->n].text, text, size, err))) return st;
    out->at[out->n++].id = id;
    return SP_OK;
}

/* Adds the special tokens of a tag. */
static enum sp_status find_in(struct sp_chat_specials *out, const char *tag,
                              const struct sp_tokenizer *tokenizer, struct sp_err *err)
{
    struct sp_token_info token;
    uint32_t *ids = NULL;
    size_t n = 0;
    enum sp_status st =
        sp_tokenizer_encode(tokenizer, tag, strlen(tag), SP_ENCODE_PARSE_SPECIAL, &ids, &n, err);

    for (size_t i = 0; i < n && !st; i++) {
        if (!sp_tokenizer_token(tokenizer, ids[i], &token) || !token.special) continue;
        st = add_special(out, ids[i], token.bytes, token.len, err);
    }
    free(ids);
    return st;
}

static void release_specials(struct sp_chat_specials *specials)
{
    for (size_t i = 0; i < specials->n; i++)
        free(specials->at[i].text);
    free(specials->at);
    *specials = (struct sp_chat_specials){NULL, 0};
}

/* Finds the special tokens in the tags of reasoning and, if `calls`, of tool calls. */
static enum sp_status find_specials(struct sp_chat_specials *out,
                                    const struct sp_chat_format *format,
                                    const struct sp_tokenizer *tokenizer, bool calls,
                                    struct sp_err *err)
{
    const struct sp_tool_call_format *c = &format->calls;
    const char *const reasoning[] = {format->reasoning_open, format->reasoning_close};
    const char *const tags[] = {c->all_open,         c->all_close,    c->open,       c->close,
                                c->before_arguments, c->quote,        c->after_name, c->before_key,
                                c->before_text,      c->before_value, c->after_value};
    struct sp_chat_specials found = {NULL, 0};
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sizeof reasoning / sizeof *reasoning && !st; i++)
        st = find_in(&found, reasoning[i], tokenizer, err);
    for (size_t i = 0; calls && i < sizeof tags / sizeof *tags && !st; i++)
        st = find_in(&found, tags[i], tokenizer, err);
    for (size_t i = 0; c->style == SP_TOOL_CALL_HARMONY && sp_chat_harmony_tags[i] && !st; i++)
        st = find_in(&found, sp_chat_harmony_tags[i], tokenizer, err);
    if (st) {
        release_specials(&found);
        return st;
    }
    *out = found;
    return SP_OK;
}

/* ---- chats ---- */

/* What the template writes after the text `answer` in a conversation, without the whitespace before
 * it; owned by the caller; NULL where the template does not render it. */
static char *text_after_answer(const struct sp_template *t, const char *conversation,
                               const char *answer)
{
    struct sp_json_out messages = {0};
    struct sp_template_input in = {.now = {2000, 1, 1, 0, 0, 0}};
    char *text, *tail;
    size_t size;

    sp_json_out_raw(&messages, conversation);
    (void)!sp_probe_render_messages(&text, &size, t, &messages, NULL, &in, NULL);
    tail = text ? strstr(text, answer) : NULL;
    if (tail != NULL) {
        tail += strlen(answer);
        tail += strspn(tail, " \r\n");
        memmove(text, tail, strlen(tail) + 1);
        return text;
    }
    free(text);
    return NULL;
}

/* Some templates write another token after the last answer than after earlier ones: the token after
 * the last answer counts. Go templates leave the last answer open. */
static void find_end_id(struct sp_chat *chat)
{
#define MESSAGES                                                                                   \
    "[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"Answer\"}"
    static const char last[] = MESSAGES "]",
                      earlier[] = MESSAGES ",{\"role\":\"user\",\"content\":\"2\"}]";
#undef MESSAGES
    bool go = sp_template_language(chat->template) == SP_TEMPLATE_GO;
    char *tail = text_after_answer(chat->template, go ? earlier : last, "Answer");
    size_t size;

    if (tail == NULL) return;
    chat->has_end_id = sp_tokenizer_leading_special(chat->tokenizer, tail, &chat->end_id, &size);
    free(tail);
}

static void forget_format(struct sp_chat *chat)
{
    chat->format = (struct sp_chat_format){.reasoning_open = ""};
    release_specials(&chat->specials[0]);
    release_specials(&chat->specials[1]);
}

/* Tags that cannot be learned stay in the text of answers; that is not a failure. */
static enum sp_status learn(struct sp_chat *chat, struct sp_err *err)
{
    struct sp_err own = {0};
    enum sp_status st = sp_chat_format_learn(&chat->format, chat->template, chat->tokenizer, &own);

    for (size_t calls = 0; calls < 2 && chat->tokenizer && !st; calls++) {
        st =
            find_specials(&chat->specials[calls], &chat->format, chat->tokenizer, calls == 1, &own);
    }
    if (!st) st = sp_chat_learn_refusals(&chat->refused, chat->template, &chat->format, &own);
    if (st == SP_E_NOMEM) return sp_fail_as(err, &own);
    if (st) forget_format(chat);
    (void)sp_chat_format_describe_reasoning(chat->reasoning, &chat->format);
    (void)sp_chat_format_describe_calls(chat->tool_calls, &chat->format);
    if (chat->tokenizer && st != SP_E_CHECK) find_end_id(chat);
    return SP_OK;
}

static enum sp_status find_template(struct sp_chat *chat, const struct sp_chat_options *options,
                                    struct sp_err *err)
{
    enum sp_status st;

    if ((chat->template = options->chat_template) != NULL) return SP_OK;
    if (chat->package == NULL)
        return sp_fail(err, SP_E_USAGE, "a chat needs a package or a template");
    if ((st = sp_package_template(chat->package, &chat->own_template, err))) return st;
    chat->template = chat->own_template;
    if (chat->template) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "the file has no chat template");
}

enum sp_status sp_chat_open(struct sp_chat **out, const struct sp_package *package,
                            const struct sp_chat_options *options, struct sp_err *err)
{
    struct sp_chat_options o = {0};
    struct sp_chat *chat = NULL;
    enum sp_status st;

    if (options && (st = sp_copy_in(&o, sizeof o, options, "sp_chat_options", err))) return st;
    if ((st = sp_new(&chat, 1, sizeof *chat, err))) return st;
    chat->package = package;
    chat->tokenizer = o.tokenizer ? o.tokenizer : package ? sp_package_tokenizer(package) : NULL;
    if ((st = find_template(chat, &o, err)) || (st = learn(chat, err))) goto done;
    *out = chat;
    chat = NULL;
done:
    sp_chat_close(chat);
    return st;
}

void sp_chat_close(struct sp_chat *chat)
{
    if (chat == NULL) return;
    forget_format(chat);
    sp_template_close(chat->own_template);
    free(chat);
}

bool sp_chat_can_limit_reasoning(const struct sp_chat *chat)
{
    const struct sp_chat_format *format = &chat->format;

    return chat->tokenizer && *format->reasoning_close &&
           strchr(format->reasoning_close, SP_TAG_ANY) == NULL &&
           format->calls.style != SP_TOOL_CALL_HARMONY;
}

void sp_chat_describe(const struct sp_chat *chat, struct sp_chat_info *info)
{
    const struct sp_tool_call_format *calls = &chat->format.calls;
    const struct sp_chat_info all = {
        .size = sizeof all,
        .chat_template = chat->template,
        .has_reasoning = *chat->format.reasoning_close || calls->style == SP_TOOL_CALL_HARMONY,
        .has_tool_calls = calls->style != SP_TOOL_CALL_UNKNOWN,
        .reasoning = chat->reasoning,
        .tool_calls = chat->tool_calls,
        .text_arguments = calls->text_arguments,
        .null_content = calls->null_content,
        .no_content_with_reasoning = calls->style == SP_TOOL_CALL_HARMONY,
        .has_end_id = chat->has_end_id,
        .end_id = chat->end_id,
        .can_limit_reasoning = sp_chat_can_limit_reasoning(chat),
    };

    sp_copy_out(info, &all);
}
