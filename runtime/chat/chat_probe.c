#include "runtime/chat/chat_probe.h"
#include "format/json/json_write.h"

#define QUESTION "Quesqz"

const char *const sp_probe_keys[] = {"kqa", "kqb", "kqc"};
const char *const sp_probe_values[] = {"vqx", "vqy", "73519"};

static const char arguments[] = "{\"kqa\": \"vqx\", \"kqb\": \"vqy\", \"kqc\": 73519}";
static const char text_arguments[] =
    "\"{\\\"kqa\\\": \\\"vqx\\\", \\\"kqb\\\": \\\"vqy\\\", \\\"kqc\\\": 73519}\"";

#define TEXT_PROPERTY(name) "\"" name "\": {\"type\": \"string\", \"description\": \"d\"}"
#define FUNCTION(name)                                                                             \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"description\": \"d\","      \
    " \"parameters\": {\"type\": \"object\", \"required\": [\"kqa\"], \"properties\": "            \
    "{" TEXT_PROPERTY("kqa") ", " TEXT_PROPERTY(                                                   \
        "kqb") ", "                                                                                \
               "\"kqc\": {\"type\": \"integer\", \"description\": \"d\"}}}}}"
static const char functions[] = "[" FUNCTION(SP_PROBE_NAME) ", " FUNCTION(SP_PROBE_SECOND_NAME) "]";

enum sp_status sp_probe_tools(struct sp_json **out, struct sp_err *err)
{
    return sp_json_parse(out, functions, strlen(functions), SP_JSON_STRICT, err);
}

static void write_call(struct sp_json_out *out, const struct sp_probe *probe, unsigned i)
{
    static const char *const names[] = {SP_PROBE_NAME, SP_PROBE_SECOND_NAME};
    static const char *const ids[] = SP_PROBE_IDS;
    const char *text = probe->text_arguments ? text_arguments : arguments;

    sp_json_out_put(out, "{id:%s, type:'function', function:{name:%s", ids[i], names[i]);
    sp_json_out_written(out, "arguments", text, strlen(text));
    sp_json_out_put(out, "}}");
}

static void write_answer(struct sp_json_out *out, const struct sp_probe *probe)
{
    switch (probe->answer) {
    case SP_PROBE_NONE:
        break;
    case SP_PROBE_PLAIN:
        sp_json_out_put(out, "{role:'assistant', content:'" SP_PROBE_CONTENT "'}");
        break;
    case SP_PROBE_REASONING_ALONE:
        sp_json_out_put(out, "{role:'assistant', content:'" SP_PROBE_CONTENT
                             "', reasoning_content:'" SP_PROBE_REASONING
                             "', thinking:'" SP_PROBE_REASONING "'}");
        break;
    case SP_PROBE_REASONING_PARTS:
        sp_json_out_put(out, "{role:'assistant', content:[{type:'thinking', "
                             "thinking:'" SP_PROBE_REASONING
                             "'}, {type:'text', text:'" SP_PROBE_CONTENT "'}]}");
        break;
    case SP_PROBE_CALLS:
        sp_json_out_put(out, "{role:'assistant', content:%s, tool_calls:[",
                        probe->null_content ? NULL : "");
        for (unsigned i = 0; i < probe->n_calls; i++)
            write_call(out, probe, i);
        sp_json_out_put(out, "]}");
        break;
    }
}

enum sp_status sp_probe_render_messages(char **text, size_t *size, const struct sp_template *t,
                                        struct sp_json_out *messages, const char *tools,
                                        struct sp_template_input *in, struct sp_err *err)
{
    struct sp_json *parsed = NULL, *declared = NULL;
    struct sp_err own = {0};
    enum sp_status st;

    *text = NULL;
    if ((st = sp_json_out_parse(&parsed, messages, SP_OK, err))) return st;
    if (tools && (st = sp_json_parse(&declared, tools, strlen(tools), SP_JSON_STRICT, err)))
        goto done;
    in->messages = parsed;
    in->tools = declared;
    if (sp_template_render(text, size, t, in, &own) == SP_OK) goto done;
    *text = NULL;
    if (in->exhausted && *in->exhausted)
        st = sp_fail(err, SP_E_CHECK, "%s", own.text);
    else if (own.status == SP_E_NOMEM || own.status == SP_E_BUG)
        st = sp_fail_as(err, &own);
done:
    sp_json_free(parsed);
    sp_json_free(declared);
    return st;
}

/* Reduces the text to what follows the last question. */
static bool cut_question(char *text)
{
    char *at = text, *last = NULL;

    while ((at = strstr(at, QUESTION)) != NULL)
        last = at += strlen(QUESTION);
    if (last == NULL) return false;
    memmove(text, last, strlen(last) + 1);
    return true;
}

enum sp_status sp_probe_render(char **text, const struct sp_template *t,
                               const struct sp_probe *probe, bool whole, struct sp_err *err)
{
    struct sp_json_out messages = {0};
    bool exhausted = false;
    struct sp_template_input in = {
        .generation_prompt = probe->answer == SP_PROBE_NONE,
        .think = probe->think,
        .is_think_set = probe->is_think_set,
        .now = {2025, 1, 1, 0, 0, 0},
        .exhausted = &exhausted,
    };
    enum sp_status st;
    size_t len;

    sp_json_out_put(&messages, "[{role:'user', content:'" QUESTION "'}");
    write_answer(&messages, probe);
    sp_json_out_put(&messages, "]");
    st = sp_probe_render_messages(text, &len, t, &messages, probe->tools ? functions : NULL, &in,
                                  err);
    if (*text && (strlen(*text) != len || (!whole && !cut_question(*text)))) {
        free(*text);
        *text = NULL;
    }
    return st;
}

size_t sp_probe_same(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t n = 0, at;

    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    if (n == n_a || n == n_b) return n;
    for (at = n; at > 0 && a[at - 1] != '>' && a[at - 1] != ']'; at--)
        if (a[at - 1] == '<' || a[at - 1] == '[') return at - 1;
    return n;
}

static size_t id_at(const char *text, size_t size)
{
    static const char *const ids[] = SP_PROBE_IDS;
    size_t n = 0;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        size_t len = strlen(ids[i]);
        if (len <= size && memcmp(text, ids[i], len) == 0) return len;
    }
    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

bool sp_probe_tag(char tag[SP_TAG_SIZE], const char *text, size_t size)
{
    size_t at = sp_whitespace_run(text, size), n = 0;

    size = sp_trim_whitespace(text, size);
    while (at < size) {
        size_t id = id_at(text + at, size - at);
        if (n + 1 == SP_TAG_SIZE) return false;
        tag[n++] = id ? SP_TAG_ANY : text[at];
        at += id ? id : 1;
    }
    tag[n] = '\0';
    return true;
}
