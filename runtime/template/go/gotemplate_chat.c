/* Renders a conversation with a Modelfile's TEMPLATE as ollama does.
 *
 * A template that mentions .Messages receives all messages at once. An older one describes a
 * single turn: it is rendered turn by turn with .System, .Prompt and .Response, and the last turn
 * ends where its .Response would begin. */
#include "runtime/template/go/gotemplate_exec.h"

/* Joins the contents of all system messages with empty lines between them. */
static enum sp_status join_system(struct sp_heap *heap, struct sp_value *out,
                                  const struct sp_list *messages)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = heap};
    bool any = false;

    for (size_t i = 0; i < messages->n && !st; i++) {
        const struct sp_value *content = sp_dict_find_name(messages->at[i].dict, "Content");
        if (!sp_text_is(*sp_dict_find_name(messages->at[i].dict, "Role"), "system")) continue;
        if (any) st = sp_build(&b, "\n\n", 2);
        if (!st) st = sp_build(&b, content->text, content->len);
        any = true;
    }
    *out = sp_builder_value(&b);
    return st;
}

/* Merges adjacent messages of one role; tool results stay separate. */
static enum sp_status collate(struct sp_heap *heap, struct sp_value *out,
                              const struct sp_list *messages)
{
    enum sp_status st = sp_value_list(heap, out, SP_SHAPE_PLAIN, messages->n);
    struct sp_builder b = {.heap = heap};
    struct sp_value last_role = {0};

    for (size_t i = 0; i < messages->n && !st; i++) {
        struct sp_dict *message = messages->at[i].dict;
        const struct sp_value role = *sp_dict_find_name(message, "Role");
        const struct sp_value content = *sp_dict_find_name(message, "Content");
        struct sp_dict *last = out->list->n ? out->list->at[out->list->n - 1].dict : NULL;
        if (last == NULL || sp_text_is(role, "tool") || sp_text_order(role, last_role) != 0) {
            b = (struct sp_builder){.heap = heap};
            st = sp_build(&b, content.text, content.len);
            if (!st) st = sp_list_push(heap, out->list, messages->at[i]);
            last_role = role;
            continue;
        }
        if ((st = sp_build(&b, "\n\n", 2)) || (st = sp_build(&b, content.text, content.len))) break;
        st = sp_dict_set_name(heap, last, "Content", sp_builder_value(&b));
    }
    return st;
}

struct turn {
    struct sp_value system, prompt, response;
};

struct field {
    const char *name;
    struct sp_value value;
};

/* Renders the template with the fields that every rendering has, and `n` more. */
static enum sp_status run(struct sp_builder *out, const struct sp_gotemplate *t,
                          const struct sp_go_chat *chat, enum sp_gotemplate_part part,
                          const struct field *fields, size_t n, struct sp_err *err)
{
    const struct field common[] = {
        {"Think", sp_value_bool(chat->think)},
        {"ThinkLevel", sp_value_name(chat->think_level ? chat->think_level : "")},
        {"IsThinkSet", sp_value_bool(chat->is_think_set)},
        {"Response", sp_value_name("")},
    };
    enum sp_status st;
    struct sp_value data;

    if ((st = sp_value_dict(out->heap, &data))) return st;
    for (size_t i = 0; i < sizeof common / sizeof *common && !st; i++)
        st = sp_dict_set_name(out->heap, data.dict, common[i].name, common[i].value);
    for (size_t i = 0; i < n && !st; i++)
        st = sp_dict_set_name(out->heap, data.dict, fields[i].name, fields[i].value);
    return st ? st : sp_gotemplate_render(out, t, data, part, chat->now, err);
}

static enum sp_status run_turn(struct sp_builder *out, const struct sp_gotemplate *t,
                               const struct turn *turn, const struct sp_go_chat *chat,
                               enum sp_gotemplate_part part, struct sp_err *err)
{
    const struct field fields[] = {
        {"System", turn->system}, {"Prompt", turn->prompt}, {"Response", turn->response}};

    return run(out, t, chat, part, fields, 3, err);
}

/* Renders a template that uses .System, .Prompt and .Response, one turn at a time. */
static enum sp_status run_turns(struct sp_builder *out, const struct sp_gotemplate *t,
                                const struct sp_list *messages, const struct sp_go_chat *chat,
                                struct sp_err *err)
{
    enum sp_status st;
    const struct turn empty = {sp_value_name(""), sp_value_name(""), sp_value_name("")};
    struct turn turn = empty;

    for (size_t i = 0; i < messages->n; i++) {
        const struct sp_value role = *sp_dict_find_name(messages->at[i].dict, "Role");
        const struct sp_value content = *sp_dict_find_name(messages->at[i].dict, "Content");
        bool system = sp_text_is(role, "system"), user = sp_text_is(role, "user");
        if ((system && turn.prompt.len + turn.response.len > 0) ||
            (user && turn.response.len > 0)) {
            if ((st = run_turn(out, t, &turn, chat, SP_GOTEMPLATE_TURN, err))) return st;
            turn = empty;
        }
        if (system) turn.system = content;
        if (user) turn.prompt = content;
        if (sp_text_is(role, "assistant")) turn.response = content;
    }
    return run_turn(out, t, &turn, chat, SP_GOTEMPLATE_LAST_TURN, err);
}

enum sp_status sp_go_chat(struct sp_builder *out, const struct sp_gotemplate *t,
                          const struct sp_go_chat *chat, struct sp_err *err)
{
    enum sp_status st;
    struct sp_heap *heap = out->heap;
    struct sp_value list, system, messages, message;

    heap->err = err;
    if (chat->prompt.len > 0 && chat->suffix.len > 0) {
        /* the text before and after a gap, for models that fill in the middle */
        const struct field fields[] = {{"Prompt", chat->prompt}, {"Suffix", chat->suffix}};
        return run(out, t, chat, SP_GOTEMPLATE_TURN, fields, 2, err);
    }
    if ((st = sp_value_list(heap, &list, SP_SHAPE_PLAIN, 0))) return st;
    for (size_t i = 0; i < sp_json_len(chat->messages); i++) {
        if ((st = sp_go_message(heap, &message, sp_json_at(chat->messages, i)))) {
            sp_context(err, "message %zu", i);
            return st;
        }
        if ((st = sp_list_push(heap, list.list, message))) return st;
    }
    if ((st = join_system(heap, &system, list.list))) return st;
    if ((st = collate(heap, &messages, list.list))) return st;
    if (sp_gotemplate_mentions(t, "messages")) {
        struct field fields[] = {{"System", system}, {"Messages", messages}, {"Tools", {0}}};
        if ((st = sp_go_tools(heap, &fields[2].value, chat->tools))) return st;
        return run(out, t, chat, SP_GOTEMPLATE_TURN, fields, 3, err);
    }
    return run_turns(out, t, messages.list, chat, err);
}
