/* Readers: the parser of an answer, and the answer that its parts make. */
#include "runtime/chat/chat_reader.h"
#include "format/base/mem.h"
#include "runtime/chat/chat.h"
#include "runtime/chat/chat_parser.h"
#include "format/base/strbuf.h"
#include "runtime/spectool.h"

#include <stdlib.h>
#include <string.h>

/* ---- the answer that a reader has put together so far ---- */

/* The parts of an answer. Zero all members but call_id_seed before use. */
struct chat_answer_store {
    struct sp_strbuf content, reasoning; /* owned; a NUL follows each that is not empty */
    struct sp_chat_call *calls;          /* [n_calls]; owned, with the names and arguments */
    size_t n_calls, cap_calls;
    size_t cap_arguments; /* of the last call */
    struct sp_chat_segment *segments;
    size_t n_segments, cap_segments;
    uint64_t call_id_seed;
};

/* Ids of the calls of all answers differ: multiplication by an odd number is a bijection. */
static void write_id(char id[SP_CHAT_CALL_ID_SIZE], uint64_t seed, size_t call)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t x = (seed + call) * 0x9E3779B97F4A7C15;

    for (size_t i = 0; i + 1 < SP_CHAT_CALL_ID_SIZE; i++, x /= sizeof digits - 1)
        id[i] = digits[x % (sizeof digits - 1)];
    id[SP_CHAT_CALL_ID_SIZE - 1] = '\0';
}

static enum sp_status add_call(struct chat_answer_store *store, const struct sp_chat_part *part,
                               struct sp_err *err)
{
    struct sp_chat_call call = {.size = part->size};
    enum sp_status st =
        sp_grow(&store->calls, &store->cap_calls, store->n_calls + 1, sizeof call, err);

    if (st || (st = sp_copy_text(&call.name, part->name, strlen(part->name), err))) return st;
    if ((st = sp_copy_text(&call.arguments, part->text, part->size, err))) {
        free(call.name);
        return st;
    }
    write_id(call.id, store->call_id_seed, store->n_calls);
    store->cap_arguments = part->size + 1;
    store->calls[store->n_calls++] = call;
    return SP_OK;
}

static enum sp_status add_arguments(struct chat_answer_store *store,
                                    const struct sp_chat_part *part, struct sp_err *err)
{
    struct sp_chat_call *call = &store->calls[store->n_calls - 1];
    enum sp_status st =
        sp_grow(&call->arguments, &store->cap_arguments, call->size + part->size + 1, 1, err);

    if (st) return st;
    memcpy(call->arguments + call->size, part->text, part->size);
    call->size += part->size;
    call->arguments[call->size] = '\0';
    return SP_OK;
}

static enum sp_status add_segment(struct chat_answer_store *store, enum sp_chat_part_kind kind,
                                  size_t at, size_t size, struct sp_err *err)
{
    struct sp_chat_segment *last =
        store->n_segments ? &store->segments[store->n_segments - 1] : NULL;
    enum sp_status st;

    if (last != NULL && last->kind == kind && kind != SP_CHAT_TOOL_CALL) {
        last->size += size;
        return SP_OK;
    }
    if ((st = sp_grow(&store->segments, &store->cap_segments, store->n_segments + 1, sizeof *last,
                      err)))
        return st;
    store->segments[store->n_segments++] = (struct sp_chat_segment){kind, at, size, 0};
    return SP_OK;
}

static enum sp_status add_text(struct chat_answer_store *store, struct sp_strbuf *text,
                               const struct sp_chat_part *part, struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(text, part->text, part->size, err);

    if (st || (st = sp_strbuf_append(text, "", 1, err))) return st;
    text->len--;
    return add_segment(store, part->kind, text->len - part->size, part->size, err);
}

/* Appends a part. SP_CHAT_TOOL_CALL_ARGUMENTS belong to the last call. SP_E_NOMEM. */
static enum sp_status chat_answer_add(struct chat_answer_store *store,
                                      const struct sp_chat_part *part, struct sp_err *err)
{
    enum sp_status st;

    switch (part->kind) {
    case SP_CHAT_TOOL_CALL:
    case SP_CHAT_TOOL_CALL_START:
        st = add_call(store, part, err);
        return st ? st : add_segment(store, SP_CHAT_TOOL_CALL, store->n_calls - 1, 1, err);
    case SP_CHAT_TOOL_CALL_ARGUMENTS:
        return add_arguments(store, part, err);
    case SP_CHAT_REASONING:
        return add_text(store, &store->reasoning, part, err);
    case SP_CHAT_CONTENT:
        break;
    }
    return add_text(store, &store->content, part, err);
}

static struct sp_chat_span span_of(const struct sp_strbuf *text)
{
    return (struct sp_chat_span){text->len ? text->at : "", text->len};
}

struct sp_chat_reader {
    const struct sp_chat_prompt *prompt; /* borrowed; NULL: all is content */
    struct sp_chat_reader_options options;
    struct sp_chat_parser *parser; /* owned; NULL: all is content */
    struct chat_answer_store store;
    bool in_call;    /* a call was started that is not complete */
    bool is_stopped; /* the callback asked to stop */
    size_t n_tokens, n_placed;
    struct sp_err failure; /* error inside the parser's callback */
};

/* The tokens that were counted since the last part belong to the segment of this one. */
static void place_tokens(struct sp_chat_reader *reader)
{
    struct chat_answer_store *store = &reader->store;

    store->segments[store->n_segments - 1].n_tokens += reader->n_tokens - reader->n_placed;
    reader->n_placed = reader->n_tokens;
}

/* A call whose start was emitted is in the answer, as the model wrote it, before it is complete and
 * if the end of the answer cuts it. Only those who stream calls see its parts; others get the whole
 * call, if there is one. */
static void take_part(void *context, const struct sp_chat_part *part)
{
    struct sp_chat_reader *reader = context;

    const bool streams = reader->options.stream_calls;
    const bool known = part->kind == SP_CHAT_TOOL_CALL && reader->in_call;
    const bool begins = part->kind == SP_CHAT_TOOL_CALL_START;

    if (known) reader->in_call = false;
    if (begins) reader->in_call = true;
    if (reader->failure.status || reader->is_stopped || (known && streams)) return;
    if (!known && chat_answer_add(&reader->store, part, &reader->failure)) return;
    place_tokens(reader);
    if (reader->options.part == NULL) return;
    if (!streams && (begins || part->kind == SP_CHAT_TOOL_CALL_ARGUMENTS)) return;
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
    parsing.constrained = p->constrained_calls;
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
    struct chat_answer_store *store;

    if (reader == NULL) return;
    store = &reader->store;
    sp_chat_parser_close(reader->parser);
    sp_strbuf_release(&store->content);
    sp_strbuf_release(&store->reasoning);
    for (size_t i = 0; i < store->n_calls; i++) {
        free(store->calls[i].name);
        free(store->calls[i].arguments);
    }
    free(store->calls);
    free(store->segments);
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
    const struct chat_answer_store *store = &reader->store;
    struct sp_chat_answer all = {
        .size = sizeof all,
        .content = span_of(&store->content),
        .reasoning = span_of(&store->reasoning),
        .calls = store->calls,
        .n_calls = store->n_calls,
        .segments = store->segments,
        .n_segments = store->n_segments,
    };

    for (size_t i = 0; i < store->n_segments; i++) {
        if (store->segments[i].kind != SP_CHAT_REASONING) continue;
        all.n_reasoning_tokens += store->segments[i].n_tokens;
    }
    sp_copy_out(answer, &all);
}
