/* Renders a conversation with a Modelfile's TEMPLATE as ollama does.
 *
 * A template that mentions .Messages receives all messages at once. An older one describes a
 * single turn: it is rendered turn by turn with .System, .Prompt and .Response, and the last turn
 * ends where its .Response would begin. */
#include "runtime/template/go/gotemplate_exec.h"

/* Joins the contents of all system messages with empty lines between them. */
static struct sp_value join_system(struct sp_heap *heap, const struct sp_list *messages)
{
    struct sp_builder b = {.heap = heap};
    bool any = false;

    for (size_t i = 0; i < messages->n; i++) {
        const struct sp_value *content = sp_dict_find_name(messages->at[i].dict, "Content");
        if (!sp_text_is(*sp_dict_find_name(messages->at[i].dict, "Role"), "system")) continue;
        if (any) sp_build(&b, "\n\n", 2);
        sp_build_value(&b, *content);
        any = true;
    }
    return sp_builder_value(&b);
}

/* Merges adjacent messages of one role; tool results stay separate. */
static struct sp_value collate(struct sp_heap *heap, const struct sp_list *messages)
{
    struct sp_value out = sp_value_list(heap, SP_SHAPE_PLAIN, messages->n), last_role = {0};
    struct sp_builder b = {.heap = heap};

    for (size_t i = 0; i < messages->n; i++) {
        struct sp_dict *message = messages->at[i].dict;
        const struct sp_value role = *sp_dict_find_name(message, "Role");
        const struct sp_value content = *sp_dict_find_name(message, "Content");
        struct sp_dict *last = out.list->n ? out.list->at[out.list->n - 1].dict : NULL;
        if (last == NULL || sp_text_is(role, "tool") || sp_text_order(role, last_role) != 0) {
            b = (struct sp_builder){.heap = heap};
            sp_build_value(&b, content);
            sp_list_push(heap, out.list, messages->at[i]);
            last_role = role;
            continue;
        }
        sp_build(&b, "\n\n", 2);
        sp_build_value(&b, content);
        sp_dict_set_name(heap, last, "Content", sp_builder_value(&b));
    }
    return out;
}

struct field {
    const char *name;
    struct sp_value value;
};

/* Renders the template with the fields that every rendering has, and `n` more. */
static enum sp_status run(struct sp_builder *out, const struct sp_gotemplate *t,
                          const struct sp_go_chat *chat, enum sp_gotemplate_part part,
                          const struct field *fields, size_t n)
{
    const struct field common[] = {
        {"Think", sp_value_bool(chat->think)},
        {"ThinkLevel", sp_value_name(chat->think_level ? chat->think_level : "")},
        {"IsThinkSet", sp_value_bool(chat->is_think_set)},
        {"Response", sp_value_name("")},
    };
    struct sp_value data = sp_value_dict(out->heap);

    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        sp_dict_set_name(out->heap, data.dict, common[i].name, common[i].value);
    for (size_t i = 0; i < n; i++)
        sp_dict_set_name(out->heap, data.dict, fields[i].name, fields[i].value);
    return sp_gotemplate_render(out, t, data, part, chat->now);
}

/* Renders a template that uses .System, .Prompt and .Response, one turn at a time. */
static enum sp_status run_turns(struct sp_builder *out, const struct sp_gotemplate *t,
                                const struct sp_list *messages, const struct sp_go_chat *chat)
{
    enum { SYSTEM, PROMPT, RESPONSE, N_FIELDS };
    const struct sp_value none = sp_value_name("");
    struct field turn[] = {{"System", none}, {"Prompt", none}, {"Response", none}};
    enum sp_status st;

    for (size_t i = 0; i < messages->n; i++) {
        const struct sp_value role = *sp_dict_find_name(messages->at[i].dict, "Role");
        const struct sp_value content = *sp_dict_find_name(messages->at[i].dict, "Content");
        bool system = sp_text_is(role, "system"), user = sp_text_is(role, "user");
        if ((system && turn[PROMPT].value.len + turn[RESPONSE].value.len > 0) ||
            (user && turn[RESPONSE].value.len > 0)) {
            if ((st = run(out, t, chat, SP_GOTEMPLATE_TURN, turn, N_FIELDS))) return st;
            for (size_t k = 0; k < N_FIELDS; k++)
                turn[k].value = none;
        }
        if (system) turn[SYSTEM].value = content;
        if (user) turn[PROMPT].value = content;
        if (sp_text_is(role, "assistant")) turn[RESPONSE].value = content;
    }
    return run(out, t, chat, SP_GOTEMPLATE_LAST_TURN, turn, N_FIELDS);
}

enum sp_status sp_go_chat(struct sp_builder *out, const struct sp_gotemplate *t,
                          const struct sp_go_chat *chat)
{
    struct sp_heap *heap = out->heap;
    struct sp_value list, system, messages;

    if (chat->prompt.len > 0 && chat->suffix.len > 0) {
        /* the text before and after a gap, for models that fill in the middle */
        const struct field fields[] = {{"Prompt", chat->prompt}, {"Suffix", chat->suffix}};
        return run(out, t, chat, SP_GOTEMPLATE_TURN, fields, 2);
    }
    list = sp_value_list(heap, SP_SHAPE_PLAIN, 0);
    for (size_t i = 0; i < sp_json_len(chat->messages); i++) {
        sp_list_push(heap, list.list, sp_go_message(heap, sp_json_at(chat->messages, i)));
        if (!heap->status) continue;
        sp_context(heap->err, "message %zu", i);
        return heap->status;
    }
    system = join_system(heap, list.list);
    messages = collate(heap, list.list);
    if (heap->status) return heap->status;
    if (sp_gotemplate_mentions(t, "messages")) {
        const struct field fields[] = {
            {"System", system}, {"Messages", messages}, {"Tools", sp_go_tools(heap, chat->tools)}};
        return run(out, t, chat, SP_GOTEMPLATE_TURN, fields, 3);
    }
    return run_turns(out, t, messages.list, chat);
}
