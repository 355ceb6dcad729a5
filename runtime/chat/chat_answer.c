#include "runtime/chat/chat_answer.h"

#include <stdlib.h>
#include <string.h>

void sp_chat_answer_release(struct sp_chat_answer_store *store)
{
    sp_strbuf_release(&store->content);
    sp_strbuf_release(&store->reasoning);
    for (size_t i = 0; i < store->n_calls; i++) {
        free(store->calls[i].name);
        free(store->calls[i].arguments);
    }
    free(store->calls);
    free(store->segments);
    *store = (struct sp_chat_answer_store){0};
}

/* Ids of the calls of all answers differ: multiplication by an odd number is a bijection. */
static void write_id(char id[SP_CHAT_CALL_ID_SIZE], uint64_t seed, size_t call)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t x = (seed + call) * 0x9E3779B97F4A7C15;

    for (size_t i = 0; i + 1 < SP_CHAT_CALL_ID_SIZE; i++, x /= sizeof digits - 1)
        id[i] = digits[x % (sizeof digits - 1)];
    id[SP_CHAT_CALL_ID_SIZE - 1] = '\0';
}

static enum sp_status add_call(struct sp_chat_answer_store *store, const struct sp_chat_part *part,
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

static enum sp_status add_arguments(struct sp_chat_answer_store *store,
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

static enum sp_status add_segment(struct sp_chat_answer_store *store, enum sp_chat_part_kind kind,
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

static enum sp_status add_text(struct sp_chat_answer_store *store, struct sp_strbuf *text,
                               const struct sp_chat_part *part, struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(text, part->text, part->size, err);

    if (st || (st = sp_strbuf_append(text, "", 1, err))) return st;
    text->len--;
    return add_segment(store, part->kind, text->len - part->size, part->size, err);
}

enum sp_status sp_chat_answer_add(struct sp_chat_answer_store *store,
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

void sp_chat_answer_view(struct sp_chat_answer *out, const struct sp_chat_answer_store *store)
{
    *out = (struct sp_chat_answer){
        .size = sizeof *out,
        .content = span_of(&store->content),
        .reasoning = span_of(&store->reasoning),
        .calls = store->calls,
        .n_calls = store->n_calls,
        .segments = store->segments,
        .n_segments = store->n_segments,
    };
    for (size_t i = 0; i < store->n_segments; i++) {
        if (store->segments[i].kind != SP_CHAT_REASONING) continue;
        out->n_reasoning_tokens += store->segments[i].n_tokens;
    }
}
