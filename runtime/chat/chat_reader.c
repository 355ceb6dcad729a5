/* Readers: the parser of an answer, and the answer that its parts make. */
#include "runtime/chat/chat_reader.h"
#include "format/base/mem.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_answer.h"
#include "runtime/chat/chat_parser.h"

#include <stdlib.h>
#include <string.h>

struct sp_chat_reader {
    const struct sp_chat_prompt *prompt; /* borrowed; NULL: all is content */
    struct sp_chat_reader_options options;
    struct sp_chat_parser *parser; /* owned; NULL: all is content */
    struct sp_chat_answer_store store;
    bool in_call;    /* a call was started that is not complete */
    bool is_stopped; /* the callback asked to stop */
    size_t n_tokens, n_placed;
    struct sp_err failure; /* error inside the parser's callback */
};

/* The tokens that were counted since the last part belong to the segment of this one. */
static void place_tokens(struct sp_chat_reader *reader)
{
    struct sp_chat_answer_store *store = &reader->store;

    store->segments[store->n_segments - 1].n_tokens += reader->n_tokens - reader->n_placed;
    reader->n_placed = reader->n_tokens;
}

/* A call whose start was emitted is in the answer already when it is complete. */
static void take_part(void *context, const struct sp_chat_part *part)
{
    struct sp_chat_reader *reader = context;

    if (part->kind == SP_CHAT_TOOL_CALL && reader->in_call) {
        reader->in_call = false;
        return;
    }
    if (part->kind == SP_CHAT_TOOL_CALL_START) reader->in_call = true;
    if (reader->failure.status || reader->is_stopped) return;
    if (sp_chat_answer_add(&reader->store, part, &reader->failure)) return;
    place_tokens(reader);
    if (reader->options.part == NULL) return;
    reader->is_stopped = reader->options.part(reader->options.context, part) != 0;
}

static enum sp_status open_parser(struct sp_chat_reader *reader, struct sp_err *err)
{
    const struct sp_chat_prompt *p = reader->prompt;
    struct sp_chat_parser_options parsing = {.part = take_part, .context = reader};

    if (p == NULL || p->content_only) return SP_OK;
    parsing.format = &p->chat->format;
    parsing.tools = p->tools;
    parsing.in_reasoning = p->in_reasoning;
    parsing.constrained = reader->options.stream_calls && p->constrained_calls;
    parsing.tagged_only = p->tagged_calls_only;
    return sp_chat_parser_open(&reader->parser, &parsing, err);
}

enum sp_status sp_chat_reader_open(struct sp_chat_reader **out, const struct sp_chat_prompt *prompt,
                                   const struct sp_chat_reader_options *options, struct sp_err *err)
{
    struct sp_chat_reader_options o = {0};
    struct sp_chat_reader *reader = NULL;
    enum sp_status st;

    if (options && (st = sp_copy_in(&o, sizeof o, options, "sp_chat_reader_options", err)))
        return st;
    if ((st = sp_new(&reader, 1, sizeof *reader, err))) return st;
    reader->prompt = prompt;
    reader->options = o;
    reader->store.call_id_seed = o.call_id_seed;
    if ((st = open_parser(reader, err))) goto done;
    *out = reader;
    reader = NULL;
done:
    sp_chat_reader_close(reader);
    return st;
}

void sp_chat_reader_close(struct sp_chat_reader *reader)
{
    if (reader == NULL) return;
    sp_chat_parser_close(reader->parser);
    sp_chat_answer_release(&reader->store);
    free(reader);
}

/* The status of the reader after its parser returned `st`. */
static enum sp_status outcome(const struct sp_chat_reader *reader, enum sp_status st,
                              struct sp_err *err)
{
    if (st) return st;
    if (reader->failure.status)
        return sp_fail(err, reader->failure.status, "%s", reader->failure.text);
    return reader->is_stopped ? sp_fail(err, SP_E_CANCELLED, "interrupted") : SP_OK;
}

static enum sp_status feed(struct sp_chat_reader *reader, const char *text, size_t size,
                           bool special, struct sp_err *err)
{
    const struct sp_chat_part content = {SP_CHAT_CONTENT, text, size, NULL};
    enum sp_status st = SP_OK;

    if (reader->parser)
        st = sp_chat_parser_feed(reader->parser, text, size, special, err);
    else if (size > 0)
        take_part(reader, &content);
    return outcome(reader, st, err);
}

enum sp_status sp_chat_reader_text(struct sp_chat_reader *reader, const char *text, size_t size,
                                   struct sp_err *err)
{
    return feed(reader, text, size, false, err);
}

enum sp_status sp_chat_reader_special(struct sp_chat_reader *reader, uint32_t id,
                                      struct sp_err *err)
{
    const struct sp_chat_specials *specials = reader->parser ? reader->prompt->specials : NULL;

    for (size_t i = 0; specials && i < specials->n; i++) {
        const char *text = specials->at[i].text;
        if (specials->at[i].id == id) return feed(reader, text, strlen(text), true, err);
    }
    return SP_OK;
}

void sp_chat_reader_count_token(struct sp_chat_reader *reader)
{
    reader->n_tokens++;
}

enum sp_status sp_chat_reader_finish(struct sp_chat_reader *reader, struct sp_err *err)
{
    enum sp_status st = reader->parser ? sp_chat_parser_finish(reader->parser, err) : SP_OK;

    return outcome(reader, st, err);
}

void sp_chat_reader_answer(const struct sp_chat_reader *reader, struct sp_chat_answer *answer)
{
    struct sp_chat_answer all;

    sp_chat_answer_view(&all, &reader->store);
    sp_copy_out(answer, &all);
}
