#include "cli/chat/message.h"

#include <stdlib.h>

void sp_message_release(struct sp_message *message)
{
    sp_strbuf_release(&message->content);
    sp_strbuf_release(&message->reasoning);
    for (size_t i = 0; i < message->n_calls; i++) {
        free(message->calls[i].name);
        free(message->calls[i].arguments);
    }
    free(message->calls);
    free(message->parts);
    *message = (struct sp_message){0};
}

size_t sp_message_n_reasoning_tokens(const struct sp_message *message)
{
    size_t n = 0;

    for (size_t i = 0; i < message->n_parts; i++)
        n += message->parts[i].kind == SP_CHAT_REASONING ? message->parts[i].n_tokens : 0;
    return n;
}

/* Different for every call of every answer: multiplying by an odd number loses nothing. */
static void write_id(char id[SP_CALL_ID_SIZE], uint64_t key, size_t call)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t x = (key + call) * 0x9E3779B97F4A7C15;

    for (size_t i = 0; i + 1 < SP_CALL_ID_SIZE; i++, x /= sizeof digits - 1)
        id[i] = digits[x % (sizeof digits - 1)];
    id[SP_CALL_ID_SIZE - 1] = '\0';
}

static enum sp_status add_call(struct sp_message *message, const struct sp_chat_part *piece,
                               struct sp_err *err)
{
    struct sp_message_add_call call = {.size = piece->size, .cap = piece->size + 1};
    enum sp_status st =
        sp_grow(&message->calls, &message->cap_calls, message->n_calls + 1, sizeof call, err);

    if (st || (st = sp_copy_text(&call.name, piece->name, strlen(piece->name), err))) return st;
    if ((st = sp_copy_text(&call.arguments, piece->text, piece->size, err))) {
        free(call.name);
        return st;
    }
    write_id(call.id, message->key, message->n_calls);
    message->calls[message->n_calls++] = call;
    return SP_OK;
}

static enum sp_status add_arguments(struct sp_message *message, const struct sp_chat_part *piece,
                                    struct sp_err *err)
{
    struct sp_message_add_call *call = &message->calls[message->n_calls - 1];
    enum sp_status st = sp_grow(&call->arguments, &call->cap, call->size + piece->size + 1, 1, err);

    if (st) return st;
    memcpy(call->arguments + call->size, piece->text, piece->size);
    call->size += piece->size;
    call->arguments[call->size] = '\0';
    return SP_OK;
}

static enum sp_status add_part(struct sp_message *message, enum sp_chat_part_kind kind, size_t at,
                               size_t size, struct sp_err *err)
{
    struct sp_message_part *last = message->n_parts ? &message->parts[message->n_parts - 1] : NULL;
    enum sp_status st;

    if (last != NULL && last->kind == kind && kind != SP_CHAT_TOOL_CALL) {
        last->size += size;
        return SP_OK;
    }
    if ((st = sp_grow(&message->parts, &message->cap_parts, message->n_parts + 1, sizeof *last,
                      err))) {
        return st;
    }
    message->parts[message->n_parts++] = (struct sp_message_part){kind, at, size, 0};
    return SP_OK;
}

enum sp_status sp_message_add(struct sp_message *message, const struct sp_chat_part *piece,
                              struct sp_err *err)
{
    struct sp_strbuf *text =
        piece->kind == SP_CHAT_REASONING ? &message->reasoning : &message->content;
    enum sp_status st;

    switch (piece->kind) {
    case SP_CHAT_TOOL_CALL:
    case SP_CHAT_TOOL_CALL_START:
        st = add_call(message, piece, err);
        return st ? st : add_part(message, SP_CHAT_TOOL_CALL, message->n_calls - 1, 1, err);
    case SP_CHAT_TOOL_CALL_ARGUMENTS:
        return add_arguments(message, piece, err);
    default:
        st = sp_strbuf_append(text, piece->text, piece->size, err);
        return st ? st : add_part(message, piece->kind, text->len - piece->size, piece->size, err);
    }
}
