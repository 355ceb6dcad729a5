#include "tests/support/chat_transcript.h"
#include "tests/support/unit_test.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\", \"required\": [\"city\"], \"properties\": {\"city\": "
    "{\"type\": \"string\", \"description\": \"d\"},\"days\": {\"type\": \"integer\", "
    "\"description\": \"d\"},\"limit\": {\"type\": \"number\", \"description\": "
    "\"d\"},\"detailed\": {\"type\": \"boolean\", \"description\": \"d\"},\"where\": {\"type\": "
    "\"object\", \"description\": \"d\"},\"hours\": {\"type\": \"array\", \"description\": "
    "\"d\"},\"note\": {\"type\": [\"string\", \"null\"], \"description\": \"d\"}}}}}, {\"type\": "
    "\"function\", \"function\": {\"name\": \"now\", \"description\": \"d\", \"parameters\": "
    "{\"type\": \"object\", \"properties\": {}}}}]";

struct sp_json *transcript_tools;

int transcript_setup(void **state)
{
    (void)state;
    return sp_json_parse(&transcript_tools, tools_text, strlen(tools_text), SP_JSON_STRICT, NULL) !=
           SP_OK;
}

int transcript_teardown(void **state)
{
    (void)state;
    sp_json_free(transcript_tools);
    return 0;
}

void transcript_append(struct sp_strbuf *text, const char *more, size_t size)
{
    assert_ok(sp_strbuf_append(text, more, size, NULL));
}

void transcript_record(void *context, const struct sp_chat_part *part)
{
    struct transcript *t = context;

    assert_true(part->size > 0);
    if (part->kind == SP_CHAT_TOOL_CALL || t->last != (int)part->kind) {
        if (t->last >= 0) transcript_append(&t->text, ")", 1);
        transcript_append(&t->text,
                          part->kind == SP_CHAT_TOOL_CALL   ? "F("
                          : part->kind == SP_CHAT_REASONING ? "T("
                                                            : "C(",
                          2);
    }
    t->last = (int)part->kind;
    if (part->kind == SP_CHAT_TOOL_CALL) {
        transcript_append(&t->text, part->name, strlen(part->name));
        transcript_append(&t->text, " ", 1);
    }
    transcript_append(&t->text, part->text, part->size);
}

void transcript_feed(struct sp_chat_parser *parser, const struct answer *a, size_t from, size_t to)
{
    assert_ok(sp_chat_parser_feed(parser, a->text + from, to - from, false, NULL));
}

/* Feeds the text in two parts, cut at `cut`, or byte by byte if `cut` is 0. Returns the
 * transcript, owned by the caller. */
static char *read_cut(const struct answer *a, size_t cut)
{
    struct transcript t = {.last = -1};
    const struct sp_chat_parser_options reading = {.format = a->format,
                                                   .tools = a->no_tools ? NULL : transcript_tools,
                                                   .in_reasoning = a->in_reasoning,
                                                   .part = transcript_record,
                                                   .context = &t};
    struct sp_chat_parser *parser = NULL;

    assert_ok(sp_chat_parser_open(&parser, &reading, NULL));
    if (cut > 0) {
        transcript_feed(parser, a, 0, cut);
        transcript_feed(parser, a, cut, a->size);
    }
    for (size_t i = 0; cut == 0 && i < a->size; i++)
        transcript_feed(parser, a, i, i + 1);
    assert_ok(sp_chat_parser_finish(parser, NULL));
    sp_chat_parser_close(parser);
    if (t.last >= 0) transcript_append(&t.text, ")", 1);
    transcript_append(&t.text, "", 1);
    return t.text.at;
}

char *transcript_read(const struct answer *a)
{
    char *whole = read_cut(a, a->size), *cut;

    for (size_t i = 0; i < a->size; i++) {
        cut = read_cut(a, i);
        if (strcmp(cut, whole) != 0) printf("cut at %zu of: %.*s\n", i, (int)a->size, a->text);
        assert_string_equal(cut, whole);
        free(cut);
    }
    return whole;
}
