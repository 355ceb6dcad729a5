#include "format/json/json_write.h"
#include "runtime/chat/chat_probe.h"
#include "runtime/chat/chat_normalize.h"

#include <stdlib.h>
#include <string.h>

/* A conversation of known words. Its roles are letters: system, user, assistant, the assistant's
 * call, both (a text and a call), tool. */
struct probe {
    enum sp_chat_change change; /* what is learned if the template does not take it */
    const char *roles;
    const char *arguments, *id; /* of the call */
    const char *tools;          /* NULL: none */
};

#define OBJECT_ARGUMENTS "{\"kqa\": \"vqx\"}"
#define CUT_ARGUMENTS "\"{\\\"kqa\\\": \\\"vqx\""
#define SHORT_ID "call12345"
#define TOOL(rest) "[{\"type\": \"function\", \"function\": {\"name\": \"fnzq\"" rest "}}]"
#define FULL_TOOL                                                                                  \
    TOOL(", \"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": "       \
         "{\"kqa\": {\"type\": \"string\", \"description\": \"d\"}}}")

static const struct probe plain = {0, "uau", NULL, NULL, NULL};
static const struct probe plain_probes[] = {
    {SP_CHAT_NO_SYSTEM, "su", NULL, NULL, NULL},
    {SP_CHAT_SYSTEM_LAST, "sua", NULL, NULL, NULL},
    {SP_CHAT_ONE_SYSTEM, "ssu", NULL, NULL, NULL},
    {SP_CHAT_SYSTEM_FIRST, "susasu", NULL, NULL, NULL},
    {SP_CHAT_USERS_APART, "uu", NULL, NULL, NULL},
    {SP_CHAT_ANSWERS_APART, "uaau", NULL, NULL, NULL},
};
static const struct probe calls = {0, "uct", OBJECT_ARGUMENTS, SHORT_ID, FULL_TOOL};
static const struct probe call_probes[] = {
    {SP_CHAT_ANSWER_TOOLS, "uctucu", OBJECT_ARGUMENTS, SHORT_ID, FULL_TOOL},
    {SP_CHAT_TEXT_LOST, "uacta", OBJECT_ARGUMENTS, SHORT_ID, FULL_TOOL},
    {SP_CHAT_TEXT_APART, "ubt", OBJECT_ARGUMENTS, SHORT_ID, FULL_TOOL},
    {SP_CHAT_SHORT_IDS, "uct", OBJECT_ARGUMENTS, "call_abcdefghijklmnop", FULL_TOOL},
    {SP_CHAT_WHOLE_ARGUMENTS, "uct", CUT_ARGUMENTS, SHORT_ID, FULL_TOOL},
};
static const struct probe full_tool = {0, "u", NULL, NULL, FULL_TOOL};
static const struct probe bare_tool = {SP_CHAT_FULL_TOOLS, "u", NULL, NULL, TOOL("")};

enum { WORD_SIZE = 16 };

static void write_word(char word[WORD_SIZE], size_t i)
{
    snprintf(word, WORD_SIZE, "Wqz%zuk", i);
}

static void write_call(struct sp_json_out *out, const struct probe *probe, bool text_arguments)
{
    const char *arguments = probe->arguments;

    sp_json_out_put(out, "tool_calls:[{id:%s, type:'function', function:{name:'fnzq'", probe->id);
    if (text_arguments && *arguments == '{')
        sp_json_out_text(out, "arguments", arguments);
    else
        sp_json_out_written(out, "arguments", arguments, strlen(arguments));
    sp_json_out_put(out, "}}]");
}

static void write_probe(struct sp_json_out *out, const struct probe *probe,
                        const struct sp_chat_format *format)
{
    static const struct {
        char letter;
        const char *role;
    } roles[] = {{'s', "system"},    {'u', "user"},      {'a', "assistant"},
                 {'c', "assistant"}, {'b', "assistant"}, {'t', "tool"}};
    char word[WORD_SIZE];

    sp_json_out_begin(out, NULL, '[');
    for (size_t i = 0; probe->roles[i]; i++) {
        size_t k = 0;
        while (roles[k].letter != probe->roles[i])
            k++;
        write_word(word, i);
        sp_json_out_put(out, "{role:%s", roles[k].role);
        if (roles[k].letter != 'c')
            sp_json_out_text(out, "content", word);
        else
            sp_json_out_text(out, "content", format->calls.null_content ? NULL : "");
        if (strchr("cb", roles[k].letter)) write_call(out, probe, format->calls.text_arguments);
        if (roles[k].letter == 't') sp_json_out_text(out, "tool_call_id", probe->id);
        if (roles[k].letter == 't') sp_json_out_text(out, "name", "fnzq");
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
}

/* True if all words of a probe are in the text. */
static bool has_words(const char *text, const struct probe *probe)
{
    char word[WORD_SIZE];

    for (size_t i = 0; probe->roles[i]; i++) {
        write_word(word, i);
        if (probe->roles[i] != 'c' && strstr(text, word) == NULL) return false;
    }
    if (probe->arguments && strstr(text, "vqx") == NULL) return false;
    return probe->tools == NULL || probe->arguments || strstr(text, "fnzq");
}

static enum sp_status takes(bool *taken, const struct sp_template *t, const struct probe *probe,
                            const struct sp_chat_format *format, struct sp_err *err)
{
    struct sp_json_out out = {0};
    bool exhausted = false;
    struct sp_template_input in = {
        .generation_prompt = true, .now = {2025, 1, 1, 0, 0, 0}, .exhausted = &exhausted};
    char *text;
    size_t size;
    enum sp_status st;

    write_probe(&out, probe, format);
    st = sp_probe_render_messages(&text, &size, t, &out, probe->tools, &in, err);
    *taken = text && has_words(text, probe);
    free(text);
    return st;
}

/* Learns from probes, if the template takes the one that they vary. */
static enum sp_status learn(unsigned *refused, const struct sp_template *t,
                            const struct sp_chat_format *format, const struct probe *usual,
                            const struct probe *probes, size_t n, struct sp_err *err)
{
    bool taken = false;
    enum sp_status st = takes(&taken, t, usual, format, err);

    for (size_t i = 0; i < n && taken && !st; i++) {
        bool one = false;
        st = takes(&one, t, &probes[i], format, err);
        if (!st && !one) *refused |= (unsigned)probes[i].change;
    }
    return st;
}

#define N(array) (sizeof(array) / sizeof *(array))

enum sp_status sp_chat_learn_refusals(unsigned *refused, const struct sp_template *t,
                                      const struct sp_chat_format *format, struct sp_err *err)
{
    unsigned all = 0;
    enum sp_status st;

    if ((st = learn(&all, t, format, &plain, plain_probes, N(plain_probes), err))) return st;
    if ((st = learn(&all, t, format, &calls, call_probes, N(call_probes), err))) return st;
    if ((st = learn(&all, t, format, &full_tool, &bare_tool, 1, err))) return st;
    *refused = all;
    return SP_OK;
}
