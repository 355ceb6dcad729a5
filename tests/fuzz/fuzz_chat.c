/* Fuzzes a template and an answer. The chat format learned from the template, or a known format,
 * parses the answer. The parts are the same for the whole text and for any cut, and without tools
 * only the tags of reasoning are removed. Input: one byte that selects the format (0: that of the
 * template), the template up to a NUL, the answer. */
#include "format/base/strbuf.h"
#include "runtime/chat/chat_grammar.h"
#include "runtime/chat/chat_parser.h"
#include "tests/fuzz/fuzz.h"

static const struct sp_chat_format known[] = {
    {"<think>", "</think>", {.style = SP_TOOL_CALL_UNKNOWN}},
    {"<think>",
     "</think>",
     {.style = SP_TOOL_CALL_OBJECT,
      .open = "<c>",
      .close = "</c>",
      .name_key = "name",
      .arguments_key = "arguments"}},
    {"", "", {.style = SP_TOOL_CALL_OBJECT, .name_key = "name", .arguments_key = "parameters"}},
    {"", "", {.style = SP_TOOL_CALL_OBJECT, .open = "<c>"}},
    {"",
     "",
     {.style = SP_TOOL_CALL_NAMED,
      .all_open = "<a>",
      .all_close = "</a>",
      .open = "<c>",
      .close = "</c>",
      .before_arguments = ":\x01<j>"}},
    {"", "", {.style = SP_TOOL_CALL_BARE, .open = "<c>", .close = "</c>", .quote = "<q>"}},
    {"",
     "",
     {.style = SP_TOOL_CALL_TAGGED,
      .open = "<c>",
      .close = "</c>",
      .after_name = ">",
      .before_key = "<k>",
      .before_text = "<v>",
      .before_value = "<w>",
      .after_value = "</v>",
      .value_lead = "\n",
      .value_tail = "\n"}},
    {"", "", {.style = SP_TOOL_CALL_PYTHON, .open = "<c>", .close = "</c>"}},
    {"", "", {.style = SP_TOOL_CALL_HARMONY}},
};
enum { N_KNOWN = sizeof known / sizeof *known };

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {"
    "\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"string\"}}}}}]";

struct transcript {
    struct sp_strbuf text;
    int last;
};

static void append(struct sp_strbuf *text, const char *more, size_t size)
{
    if (sp_strbuf_append(text, more, size, NULL)) abort();
}

static void note(void *context, const struct sp_chat_part *part)
{
    struct transcript *t = context;
    struct sp_json *arguments = NULL;

    if (part->size == 0) abort();
    if (part->kind == SP_CHAT_TOOL_CALL) {
        if (*part->name == '\0') abort();
        if (sp_json_parse(&arguments, part->text, part->size, SP_JSON_STRICT, NULL)) abort();
        if (sp_json_kind(arguments) != SP_JSON_OBJECT) abort();
        sp_json_free(arguments);
        append(&t->text, part->name, strlen(part->name));
    }
    if (t->last != (int)part->kind) append(&t->text, "|", 1);
    t->last = (int)part->kind;
    append(&t->text, part->text, part->size);
}

static struct sp_strbuf read_answer(const struct sp_chat_format *format,
                                    const struct sp_json *tools, const char *text, size_t size,
                                    size_t step)
{
    struct transcript t = {.last = -1};
    const struct sp_chat_parser_options reading = {
        .format = format, .tools = tools, .part = note, .context = &t};
    struct sp_chat_parser *parser = NULL;

    if (sp_chat_parser_open(&parser, &reading, NULL)) abort();
    for (size_t i = 0; i < size; i += step) {
        size_t n = size - i < step ? size - i : step;
        if (sp_chat_parser_feed(parser, text + i, n, false, NULL)) abort();
    }
    if (sp_chat_parser_finish(parser, NULL)) abort();
    sp_chat_parser_close(parser);
    return t.text;
}

static void check(const struct sp_chat_format *format, const struct sp_json *tools,
                  const char *text, size_t size)
{
    struct sp_strbuf whole = read_answer(format, tools, text, size, size ? size : 1);
    struct sp_strbuf bytes = read_answer(format, tools, text, size, 1);
    struct sp_strbuf threes = read_answer(format, tools, text, size, 3);

    if (whole.len != bytes.len || whole.len != threes.len) abort();
    if (whole.len && memcmp(whole.at, bytes.at, whole.len) != 0) abort();
    if (whole.len && memcmp(whole.at, threes.at, whole.len) != 0) abort();
    if (tools == NULL && !*format->reasoning_close && format->calls.style != SP_TOOL_CALL_HARMONY &&
        whole.len != (size ? size + 1 : 0))
        abort();
    sp_strbuf_release(&whole);
    sp_strbuf_release(&bytes);
    sp_strbuf_release(&threes);
}

/* Builds the grammar of a format. Building may fail. */
static void make_grammar(const struct sp_chat_format *format, const struct sp_json *tools)
{
    struct sp_chat_grammar_options options = {.format = format, .tools = tools};
    struct sp_grammar *g = NULL;

    if (*format->reasoning_close) options.thinking = SP_REASONING_OPTIONAL;
    if (tools && sp_chat_grammar(&g, &options, NULL) == SP_OK) sp_grammar_close(g);
}

static void check_learned(const char *template, size_t n_template, const struct sp_json *tools,
                          const char *text, size_t size)
{
    struct sp_chat_format format;
    struct sp_template *t = NULL;

    if (sp_template_compile(&t, template, n_template, SP_TEMPLATE_UNKNOWN, NULL)) return;
    if (sp_chat_format_learn(&format, t, NULL, NULL) == SP_OK) {
        char line[SP_CHAT_FORMAT_TEXT];
        if (strlen(sp_chat_format_describe_calls(line, &format)) >= sizeof line) abort();
        if (strlen(sp_chat_format_describe_reasoning(line, &format)) >= sizeof line) abort();
        (void)sp_chat_format_opens_reasoning(&format, text, size);
        check(&format, tools, text, size);
        make_grammar(&format, tools);
    }
    sp_template_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_json *tools = NULL;
    const char *text = (const char *)data + 1, *end;
    size_t n_template;

    if (size == 0 || size > 4096) return 0;
    size--;
    if (sp_json_parse(&tools, tools_text, strlen(tools_text), SP_JSON_STRICT, NULL)) abort();
    end = memchr(text, '\0', size);
    if (*data % (N_KNOWN + 1) > 0) {
        check(&known[*data % (N_KNOWN + 1) - 1], tools, text, size);
        check(&known[*data % (N_KNOWN + 1) - 1], NULL, text, size);
    } else if (end != NULL) {
        n_template = (size_t)(end - text);
        check_learned(text, n_template, tools, end + 1, size - n_template - 1);
    }
    sp_json_free(tools);
    return 0;
}
