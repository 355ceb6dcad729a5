/* Learns the tags of reasoning from the text that a template writes around it; otherwise from the
 * prompt's end, or from what the template removes from earlier answers. */
#include "runtime/chat/chat_probe.h"

#include <stdlib.h>
#include <string.h>

/* The renderings with and without reasoning. */
struct around {
    char *thinking, *plain, *asked; /* renderings; plain and asked may be NULL */
};

/* The beginning of the tag, <tag> or [tag], that ends the text, ignoring whitespace after it. */
static size_t last_tag(const char *text, size_t size)
{
    size_t end = sp_trim_whitespace(text, size), at = end;
    char open = end == 0 ? '\0' : text[end - 1] == '>' ? '<' : text[end - 1] == ']' ? '[' : '\0';

    if (open == '\0') return size;
    while (at > 0 && text[at - 1] != open)
        at--;
    return at > 0 ? at - 1 : size;
}

/* The length of the tag that begins the text: <tag>, [tag], or all of it. */
static size_t first_tag(const char *text, size_t size)
{
    char close = *text == '<' ? '>' : *text == '[' ? ']' : '\0';
    const char *end = close ? memchr(text, close, size) : NULL;

    return end ? (size_t)(end - text) + 1 : size;
}

/* Learns the opening tag: everything that the answer without reasoning lacks. If that answer has
 * empty reasoning itself, or a tag around its content, the last tag. */
static bool learn_open(struct sp_chat_format *out, const struct around *a, size_t reasoning)
{
    size_t same = 0, n_plain = a->plain ? strlen(a->plain) : 0, from;

    if (a->plain) same = sp_probe_same(a->thinking, reasoning, a->plain, n_plain);
    if (a->plain && strncmp(a->plain + same, SP_PROBE_CONTENT, strlen(SP_PROBE_CONTENT)) == 0) {
        if (same < reasoning)
            return sp_probe_tag(out->reasoning_open, a->thinking + same, reasoning - same);
        if (a->asked == NULL || strlen(a->asked) < same) return false;
        return memcmp(a->asked, a->thinking, same) == 0 &&
               sp_probe_tag(out->reasoning_open, a->asked + same, strlen(a->asked) - same);
    }
    from = last_tag(a->thinking, reasoning);
    return sp_probe_tag(out->reasoning_open, a->thinking + from, reasoning - from);
}

static bool learn_from(struct sp_chat_format *out, const struct around *a)
{
    const char *reasoning = strstr(a->thinking, SP_PROBE_REASONING), *after, *content;
    size_t n_whitespace, len;

    if (reasoning == NULL) return false;
    after = reasoning + strlen(SP_PROBE_REASONING);
    content = strstr(after, SP_PROBE_CONTENT);
    if (content == NULL || !learn_open(out, a, (size_t)(reasoning - a->thinking))) return false;
    n_whitespace = sp_whitespace_run(after, (size_t)(content - after));
    len = (size_t)(content - after) - n_whitespace;
    return len > 0 &&
           sp_probe_tag(out->reasoning_close, after + n_whitespace,
                        first_tag(after + n_whitespace, len)) &&
           *out->reasoning_open != '\0';
}

static void forget(struct sp_chat_format *out)
{
    *out->reasoning_open = *out->reasoning_close = '\0';
}

static enum sp_status try_one(struct sp_chat_format *out, const struct sp_template *t,
                              enum sp_probe_answer answer, bool think, struct sp_err *err)
{
    struct sp_probe probe = {.answer = answer, .think = think, .is_think_set = think};
    struct around around = {NULL, NULL, NULL};
    enum sp_status st;
    size_t end;

    if ((st = sp_probe_render(&around.thinking, t, &probe, false, err)) || !around.thinking)
        return st;
    probe.answer = SP_PROBE_PLAIN;
    if ((st = sp_probe_render(&around.plain, t, &probe, false, err))) goto done;
    probe.answer = SP_PROBE_NONE;
    if ((st = sp_probe_render(&around.asked, t, &probe, false, err))) goto done;
    if (!learn_from(out, &around)) forget(out);
    /* a template may print content parts that it does not know as they are */
    end = strlen(out->reasoning_open);
    if (answer == SP_PROBE_REASONING_PARTS && end > 0 &&
        strchr(">]", out->reasoning_open[end - 1]) == NULL)
        forget(out);
done:
    free(around.thinking);
    free(around.plain);
    free(around.asked);
    return st;
}

/* With reasoning switched off, the prompt may end with empty reasoning. */
static enum sp_status learn_from_empty(struct sp_chat_format *out, const struct sp_template *t,
                                       struct sp_err *err)
{
    struct sp_probe probe = {.answer = SP_PROBE_NONE, .is_think_set = true};
    char *without = NULL, *with = NULL;
    enum sp_status st;
    size_t same, size, close;

    if ((st = sp_probe_render(&without, t, &probe, false, err))) goto done;
    probe.think = true;
    if ((st = sp_probe_render(&with, t, &probe, false, err))) goto done;
    if (without == NULL || with == NULL) goto done;
    same = strlen(with);
    size = sp_trim_whitespace(without, strlen(without));
    if (size <= same || strncmp(with, without, same) != 0) goto done;
    close = last_tag(without, size);
    if (close <= same || !sp_probe_tag(out->reasoning_open, without + same, close - same) ||
        !sp_probe_tag(out->reasoning_close, without + close, size - close) ||
        *out->reasoning_open == '\0')
        forget(out);
done:
    free(without);
    free(with);
    return st;
}

enum sp_status sp_chat_learn_reasoning(struct sp_chat_format *out, const struct sp_template *t,
                                       struct sp_err *err)
{
    static const struct {
        enum sp_probe_answer answer;
        bool think;
    } tries[] = {{SP_PROBE_REASONING_ALONE, true},
                 {SP_PROBE_REASONING_ALONE, false},
                 {SP_PROBE_REASONING_PARTS, false}};
    enum sp_status st;
    const char *text;
    size_t size;

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        st = try_one(out, t, tries[i].answer, tries[i].think, err);
        if (st || *out->reasoning_close) return st;
    }
    if ((st = learn_from_empty(out, t, err)) || *out->reasoning_close) return st;
    text = sp_template_text(t, &size);
    if (strstr(text, "</think>") != NULL) { /* the template removes reasoning or asks for it */
        strcpy(out->reasoning_open, "<think>");
        strcpy(out->reasoning_close, "</think>");
    }
    return SP_OK;
}
