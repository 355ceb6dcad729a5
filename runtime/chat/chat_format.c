#include "runtime/chat/chat_format.h"
#include "runtime/chat/chat_probe.h"
#include "runtime/spectool.h"

#include <stdlib.h>
#include <string.h>

/* ---- known formats ---- */

/* Returns true if the vocabulary has a token for this text. */
static bool is_token(const struct sp_tokenizer *tokenizer, const char *text)
{
    return tokenizer && sp_tokenizer_find(tokenizer, text, strlen(text)) != SP_TOKEN_NONE;
}

/* Tool call formats of models whose templates describe them in words, or not at all. */
static const struct sp_tool_call_format known_formats[] = {
    {.style = SP_TOOL_CALL_PYTHON, .open = "<|tool_call_start|>", .close = "<|tool_call_end|>"},
    {.style = SP_TOOL_CALL_OBJECT,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .name_key = "name",
     .arguments_key = "arguments"},
    {.style = SP_TOOL_CALL_OBJECT,
     .open = "<|tool_call|>",
     .close = "<|/tool_call|>",
     .name_key = "name",
     .arguments_key = "arguments"},
    {.style = SP_TOOL_CALL_OBJECT,
     .open = "[TOOL_CALLS]",
     .name_key = "name",
     .arguments_key = "arguments"},
};

static enum sp_status choose_known_format(struct sp_tool_call_format *out,
                                          const struct sp_template *t,
                                          const struct sp_tokenizer *tokenizer, struct sp_err *err)
{
    const struct sp_probe probe = {.answer = SP_PROBE_NONE, .tools = true};
    enum sp_status st;
    char *text = NULL;

    if ((st = sp_probe_render(&text, t, &probe, true, err)) || text == NULL) return st;
    for (size_t i = 0; i < sizeof known_formats / sizeof *known_formats &&
                       out->style == SP_TOOL_CALL_UNKNOWN && strstr(text, SP_PROBE_NAME) != NULL;
         i++)
        if (strstr(text, known_formats[i].open) != NULL ||
            is_token(tokenizer, known_formats[i].open))
            *out = known_formats[i];
    free(text);
    return SP_OK;
}

enum sp_status sp_chat_format_learn(struct sp_chat_format *out, const struct sp_template *t,
                                    const struct sp_tokenizer *tokenizer, struct sp_err *err)
{
    struct sp_chat_format s = {.reasoning_open = ""};
    enum sp_status st;

    if ((st = sp_chat_learn_reasoning(&s, t, err))) return st;
    if ((st = sp_chat_learn_calls(&s, t, err))) return st;
    if (!*s.reasoning_close && is_token(tokenizer, "<think>") && is_token(tokenizer, "</think>")) {
        strcpy(s.reasoning_open, "<think>");
        strcpy(s.reasoning_close, "</think>");
    }
    if (s.calls.style == SP_TOOL_CALL_UNKNOWN &&
        (st = choose_known_format(&s.calls, t, tokenizer, err)))
        return st;
    *out = s;
    return SP_OK;
}

bool sp_chat_format_opens_reasoning(const struct sp_chat_format *s, const char *prompt, size_t size)
{
    size_t len;

    if (!*s->reasoning_open || !*s->reasoning_close || s->calls.style == SP_TOOL_CALL_HARMONY)
        return false;
    size = sp_trim_whitespace(prompt, size);
    for (size_t n = 1; n <= size && n <= 2 * SP_TAG_SIZE; n++)
        if (sp_tag_match(s->reasoning_open, prompt + size - n, n, &len) == SP_TAG_YES)
            return len == n;
    return false;
}

/* ---- for people ---- */

/* Appends texts up to a NULL. */
static void add(char text[SP_CHAT_FORMAT_TEXT], const char *const *parts)
{
    size_t len = strlen(text);

    for (; *parts; parts++)
        for (const char *c = *parts; *c && len + 1 < SP_CHAT_FORMAT_TEXT; c++)
            text[len++] = *c == SP_TAG_ANY ? '*' : *c == '\n' ? ' ' : *c;
    text[len] = '\0';
}

const char *sp_chat_format_describe_reasoning(char text[SP_CHAT_FORMAT_TEXT],
                                              const struct sp_chat_format *s)
{
    const char *const harmony[] = {"<|channel|>analysis<|message|>...<|end|>", NULL};
    const char *const tags[] = {s->reasoning_open, "...", s->reasoning_close, NULL};
    const char *const none[] = {"none found in the template", NULL};

    *text = '\0';
    add(text, s->calls.style == SP_TOOL_CALL_HARMONY ? harmony : *s->reasoning_close ? tags : none);
    return text;
}

const char *sp_chat_format_describe_calls(char text[SP_CHAT_FORMAT_TEXT],
                                          const struct sp_chat_format *format)
{
    const struct sp_tool_call_format *s = &format->calls;
    const char *const before[] = {s->all_open, s->open, NULL};
    const char *const after[] = {s->close, s->all_close, NULL};
    const char *const styles[][8] = {
        [SP_TOOL_CALL_UNKNOWN] = {"none found in the template"},
        [SP_TOOL_CALL_HARMONY] =
            {"<|channel|>commentary to=functions.NAME<|message|>{...}<|call|>"},
        [SP_TOOL_CALL_OBJECT] = {"{\"", s->name_key, "\": NAME, \"", s->arguments_key,
                                 "\": {...}}"},
        [SP_TOOL_CALL_NAMED] = {"NAME", s->before_arguments, "{...}"},
        [SP_TOOL_CALL_BARE] = {"NAME", s->before_arguments, "{...}"},
        [SP_TOOL_CALL_PYTHON] = {"[NAME(KEY=VALUE, ...)]"},
        [SP_TOOL_CALL_TAGGED] = {"NAME", s->after_name, s->before_key, "KEY", s->before_text,
                                 "VALUE", s->after_value},
    };
    const char *const name_is_key[] = {"{NAME: {...}}", NULL};

    *text = '\0';
    add(text, before);
    add(text, s->style == SP_TOOL_CALL_OBJECT && !*s->name_key ? name_is_key : styles[s->style]);
    add(text, after);
    return text;
}
