#include "runtime/chat/chat_normalize.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

/* A message that is to be rendered. */
struct turn {
    const char *role;              /* borrowed */
    const struct sp_json *message; /* borrowed; NULL: there is nothing but the content */
    bool is_text;                  /* the content is a text, or there is none */
    bool edited;                   /* the content is not that of the message */
    struct sp_strbuf content;      /* of a text; owned */
};

struct turns {
    struct turn *at; /* [n], owned */
    size_t n, cap;
    struct sp_strbuf system; /* of system messages that were taken out; owned */
    unsigned refused, changed;
    const struct sp_tool_call_format *calls; /* how the template takes them */
    bool ends_with_user;
    bool has_others; /* a turn that is not the system's */
};

/* Says that a change is made, if the template needs it. */
static bool needs(struct turns *list, enum sp_chat_change change)
{
    if (!(list->refused & (unsigned)change)) return false;
    list->changed |= (unsigned)change;
    return true;
}

static enum sp_status append_paragraph(struct sp_strbuf *to, const struct sp_strbuf *text,
                                       struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(to, "\n\n", to->len && text->len ? 2 : 0, err);

    return st || text->len == 0 ? st : sp_strbuf_append(to, text->at, text->len, err);
}

/* Inserts a turn before the one at `i`. message NULL: of an empty text. */
static enum sp_status insert(struct turns *list, size_t i, const char *role,
                             const struct sp_json *message, struct sp_err *err)
{
    const struct sp_json *content = sp_json_get(message, "content");
    struct turn turn = {.role = role, .message = message, .edited = message == NULL};
    size_t size = 0;
    const char *text = sp_json_to_string(content, &size);
    enum sp_status st;

    if ((st = sp_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, err))) return st;
    turn.is_text = text || content == NULL;
    if (size && (st = sp_strbuf_append(&turn.content, text, size, err))) return st;
    memmove(list->at + i + 1, list->at + i, (list->n - i) * sizeof *list->at);
    list->at[i] = turn;
    list->n++;
    list->has_others = list->has_others || strcmp(role, "system") != 0;
    return SP_OK;
}

static bool has_role(const struct turn *turn, const char *role)
{
    return strcmp(turn->role, role) == 0;
}

/* Takes the last turn out if it is a system message that must not stay there. */
static enum sp_status move_system(struct turns *list, struct sp_err *err)
{
    struct turn *last = &list->at[list->n - 1];
    enum sp_status st;

    if (!has_role(last, "system") || !last->is_text) return SP_OK;
    if (!needs(list, SP_CHAT_NO_SYSTEM) &&
        !(!list->ends_with_user && needs(list, SP_CHAT_SYSTEM_LAST)) &&
        !(list->has_others ? needs(list, SP_CHAT_SYSTEM_FIRST)
                           : list->n > 1 && needs(list, SP_CHAT_ONE_SYSTEM)))
        return SP_OK;
    if ((st = append_paragraph(&list->system, &last->content, err))) return st;
    sp_strbuf_release(&last->content);
    list->n--;
    return SP_OK;
}

/* True if the last two turns are the assistant's and must be one. What follows calls or reasoning
 * stays apart. */
static bool are_one_answer(struct turns *list, const struct turn *before, const struct turn *last)
{
    if (!has_role(last, "assistant") || sp_json_get(before->message, "tool_calls") ||
        sp_json_get(before->message, "reasoning_content"))
        return false;
    if (!sp_json_get(last->message, "tool_calls")) return needs(list, SP_CHAT_ANSWERS_APART);
    if (!(list->refused & SP_CHAT_TEXT_LOST)) return false;
    list->changed |= list->refused & SP_CHAT_TEXT_APART ? SP_CHAT_TEXT_LOST : SP_CHAT_ANSWERS_APART;
    return true;
}

/* Merges the last two turns if they have the same role and must not be two. */
static enum sp_status merge(struct turns *list, struct sp_err *err)
{
    struct turn *last = &list->at[list->n - 1], *before = last - 1;
    enum sp_status st;

    if (list->n < 2 || !last->is_text || !before->is_text || !has_role(last, before->role))
        return SP_OK;
    if (has_role(last, "user") ? !needs(list, SP_CHAT_USERS_APART)
                               : !are_one_answer(list, before, last))
        return SP_OK;
    if ((st = append_paragraph(&before->content, &last->content, err))) return st;
    sp_strbuf_release(&last->content);
    before->message = last->message;
    before->edited = true;
    list->n--;
    return SP_OK;
}

/* Puts the text of the last turn into a turn before it, if it must not stand beside calls. Where
 * that cannot be, the template leaves the text out. */
static enum sp_status split(struct turns *list, struct sp_err *err)
{
    struct turn *last = &list->at[list->n - 1];
    enum sp_status st;

    if (!last->is_text || last->content.len == 0 || !sp_json_get(last->message, "tool_calls") ||
        !(list->refused & SP_CHAT_TEXT_APART) || needs(list, SP_CHAT_TEXT_LOST))
        return SP_OK;
    list->changed |= SP_CHAT_TEXT_APART;
    if ((st = insert(list, list->n - 1, "assistant", NULL, err))) return st;
    last = &list->at[list->n - 1];
    last[-1].content = last->content;
    last->content = (struct sp_strbuf){0};
    last->edited = true;
    return SP_OK;
}

/* Puts an answer before the last turn if that is the user's and nothing but calls and their results
 * are between it and the user's turn before, which must not be. */
static enum sp_status separate(struct turns *list, struct sp_err *err)
{
    size_t i = list->n - 1;
    enum sp_status st;

    if (!has_role(&list->at[i], "user")) return SP_OK;
    while (i > 0 && (has_role(&list->at[i - 1], "tool") ||
                     sp_json_get(list->at[i - 1].message, "tool_calls")))
        i--;
    if (i == list->n - 1 || i == 0 || !has_role(&list->at[i - 1], "user") ||
        !needs(list, SP_CHAT_ANSWER_TOOLS))
        return SP_OK;
    if ((st = insert(list, list->n - 1, "assistant", NULL, err))) return st;
    return sp_strbuf_append(&list->at[list->n - 2].content, "OK.", 3, err);
}

/* Puts the system messages that were taken out into the first one, or before the first user
 * message. */
static enum sp_status place_system(struct turns *list, struct sp_err *err)
{
    bool system = !(list->changed & (SP_CHAT_NO_SYSTEM | SP_CHAT_SYSTEM_LAST));
    const char *role = system ? "system" : "user";
    struct sp_strbuf text = {0};
    size_t i = 0;
    enum sp_status st = SP_OK;

    if (list->system.len == 0) return SP_OK;
    while (i < list->n && !(has_role(&list->at[i], role) && list->at[i].is_text))
        i++;
    if (i == list->n || (system && i > 0)) st = insert(list, i = 0, role, NULL, err);
    if (!st) st = append_paragraph(&text, system ? &list->at[i].content : &list->system, err);
    if (!st) st = append_paragraph(&text, system ? &list->system : &list->at[i].content, err);
    if (st) {
        sp_strbuf_release(&text);
        return st;
    }
    sp_strbuf_release(&list->at[i].content);
    list->at[i].content = text;
    list->at[i].edited = true;
    return SP_OK;
}

static enum sp_status read_turns(struct turns *list, const struct sp_json *messages,
                                 struct sp_err *err)
{
    size_t n_messages = sp_json_len(messages);
    const char *last =
        sp_json_get_text(n_messages ? sp_json_at(messages, n_messages - 1) : NULL, "role");
    enum sp_status st;

    list->ends_with_user = last && strcmp(last, "user") == 0;
    for (size_t i = 0; i < n_messages; i++) {
        const struct sp_json *message = sp_json_at(messages, i);
        const char *role = sp_json_get_text(message, "role");
        size_t n = list->n;
        if ((st = insert(list, n, role ? role : "", message, err))) return st;
        if ((st = move_system(list, err))) return st;
        if (list->n > n &&
            ((st = separate(list, err)) || (st = merge(list, err)) || (st = split(list, err))))
            return st;
    }
    return place_system(list, err);
}

/* ---- calls ---- */

enum { SHORT_ID = 9 };

static bool is_short_id(const char *id)
{
    size_t n = 0;

    while ((id[n] >= '0' && id[n] <= '9') || (id[n] >= 'A' && id[n] <= 'Z') ||
           (id[n] >= 'a' && id[n] <= 'z'))
        n++;
    return n == SHORT_ID && id[n] == '\0';
}

/* Writes an id; one that must be shorter becomes nine letters and digits, which equal ids have in
 * common: their FNV-1a hash. */
static void write_id(struct sp_json_out *out, const char *key, const struct sp_json *id,
                     struct turns *list)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const char *text = sp_json_to_string(id, NULL);
    char shorter[SHORT_ID];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (text == NULL || is_short_id(text) || !needs(list, SP_CHAT_SHORT_IDS)) {
        sp_json_out_value(out, key, id);
        return;
    }
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < SHORT_ID; i++, hash /= 36)
        shorter[i] = digits[hash % 36];
    sp_json_out_string(out, key, shorter, SHORT_ID);
}

static void write_arguments(struct sp_json_out *out, const struct sp_json *arguments,
                            struct turns *list)
{
    size_t size = 0;
    const char *text = sp_json_to_string(arguments, &size);

    if (arguments == NULL || (text && size == 0)) {
        list->changed |= SP_CHAT_FILL_ARGUMENTS;
        sp_json_out_written(out, "arguments", list->calls->text_arguments ? "\"{}\"" : "{}",
                            list->calls->text_arguments ? 4 : 2);
    } else if (!list->calls->text_arguments && sp_json_kind(arguments) != SP_JSON_OBJECT &&
               needs(list, SP_CHAT_WHOLE_ARGUMENTS)) {
        sp_json_out_begin(out, "arguments", '{');
        sp_json_out_value(out, "arguments", arguments);
        sp_json_out_end(out, '}');
    } else {
        sp_json_out_value(out, "arguments", arguments);
    }
}

static void write_function(struct sp_json_out *out, const struct sp_json *function,
                           struct turns *list)
{
    sp_json_out_begin(out, "function", '{');
    for (struct sp_json_iter it = {0}; sp_json_next(function, &it);)
        if (strcmp(it.key, "arguments") != 0) sp_json_out_value(out, it.key, it.value);
    write_arguments(out, sp_json_get(function, "arguments"), list);
    sp_json_out_end(out, '}');
}

static void write_call(struct sp_json_out *out, const struct sp_json *call, struct turns *list)
{
    if (sp_json_kind(call) != SP_JSON_OBJECT) {
        sp_json_out_value(out, NULL, call);
        return;
    }
    sp_json_out_begin(out, NULL, '{');
    for (struct sp_json_iter it = {0}; sp_json_next(call, &it);)
        if (strcmp(it.key, "id") == 0)
            write_id(out, it.key, it.value, list);
        else if (strcmp(it.key, "function") == 0 && sp_json_kind(it.value) == SP_JSON_OBJECT)
            write_function(out, it.value, list);
        else
            sp_json_out_value(out, it.key, it.value);
    sp_json_out_end(out, '}');
}

static void write_message(struct sp_json_out *out, const struct turn *turn, struct turns *list)
{
    struct sp_json_iter it = {0};

    sp_json_out_begin(out, NULL, '{');
    if (turn->message == NULL) sp_json_out_text(out, "role", turn->role);
    if (turn->edited && turn->content.len == 0)
        sp_json_out_text(out, "content", list->calls->null_content ? NULL : "");
    else if (turn->edited)
        sp_json_out_string(out, "content", turn->content.at, turn->content.len);
    while (sp_json_next(turn->message, &it)) {
        const struct sp_json *sent = strcmp(it.key, "tool_calls") == 0 ? it.value : NULL;
        if (turn->edited && strcmp(it.key, "content") == 0) continue;
        if (strcmp(it.key, "tool_call_id") == 0) {
            write_id(out, it.key, it.value, list);
        } else if (sp_json_kind(sent) == SP_JSON_ARRAY) {
            sp_json_out_begin(out, it.key, '[');
            for (size_t i = 0; i < sp_json_len(sent); i++)
                write_call(out, sp_json_at(sent, i), list);
            sp_json_out_end(out, ']');
        } else {
            sp_json_out_value(out, it.key, it.value);
        }
    }
    sp_json_out_end(out, '}');
}

/* True if the arguments of a call are missing or empty. */
static bool lacks_arguments(const struct sp_json *messages)
{
    for (size_t i = 0; i < sp_json_len(messages); i++) {
        const struct sp_json *calls = sp_json_get(sp_json_at(messages, i), "tool_calls");
        for (size_t k = 0; k < sp_json_len(calls) && sp_json_kind(calls) == SP_JSON_ARRAY; k++) {
            const struct sp_json *function = sp_json_get(sp_json_at(calls, k), "function");
            const struct sp_json *arguments = sp_json_get(function, "arguments");
            const char *text = sp_json_to_string(arguments, NULL);
            if (function && (arguments == NULL || (text && *text == '\0'))) return true;
        }
    }
    return false;
}

/* Replaces *messages if something must be changed. */
static enum sp_status normalize_messages(struct sp_json **messages, struct turns *list,
                                         struct sp_err *err)
{
    struct sp_json_out out = {0};
    struct sp_json *changed = NULL;
    enum sp_status st;

    if (sp_json_kind(*messages) != SP_JSON_ARRAY ||
        (list->refused == 0 && !lacks_arguments(*messages)))
        return SP_OK;
    if ((st = read_turns(list, *messages, err))) return st;
    sp_json_out_begin(&out, NULL, '[');
    for (size_t i = 0; i < list->n; i++)
        write_message(&out, &list->at[i], list);
    sp_json_out_end(&out, ']');
    if (list->changed == 0) {
        sp_strbuf_release(&out.text);
        return SP_OK;
    }
    if ((st = sp_json_out_parse(&changed, &out, SP_OK, err))) return st;
    sp_json_free(*messages);
    *messages = changed;
    return SP_OK;
}

/* ---- tools ---- */

static bool is_full(const struct sp_json *function)
{
    return sp_json_get(function, "description") &&
           sp_json_get(sp_json_get(function, "parameters"), "properties");
}

static void write_full_tool(struct sp_json_out *out, const struct sp_json *tool)
{
    const struct sp_json *function = sp_json_get(tool, "function");
    const struct sp_json *parameters = sp_json_get(function, "parameters");

    sp_json_out_begin(out, NULL, '{');
    for (struct sp_json_iter it = {0}; sp_json_next(tool, &it);)
        if (strcmp(it.key, "function") != 0) sp_json_out_value(out, it.key, it.value);
    sp_json_out_begin(out, "function", '{');
    for (struct sp_json_iter it = {0}; sp_json_next(function, &it);)
        if (strcmp(it.key, "parameters") != 0 && it.value) sp_json_out_value(out, it.key, it.value);
    if (!sp_json_get(function, "description")) sp_json_out_text(out, "description", "");
    /* the parameters, with the `properties` that templates take for granted */
    sp_json_out_begin(out, "parameters", '{');
    if (!sp_json_get(parameters, "type")) sp_json_out_text(out, "type", "object");
    for (struct sp_json_iter it = {0}; sp_json_next(parameters, &it);)
        if (it.value) sp_json_out_value(out, it.key, it.value);
    if (!sp_json_get(parameters, "properties")) sp_json_out_put(out, "properties:{}");
    sp_json_out_put(out, "}}}");
}

/* Replaces *tools if something must be filled in. */
static enum sp_status normalize_tools(struct sp_json **tools, struct turns *list,
                                      struct sp_err *err)
{
    struct sp_json_out out = {0};
    struct sp_json *changed = NULL;
    bool full = true;
    enum sp_status st;

    for (size_t i = 0; i < sp_json_len(*tools); i++)
        full = full && is_full(sp_json_get(sp_json_at(*tools, i), "function"));
    if (full || !needs(list, SP_CHAT_FULL_TOOLS)) return SP_OK;
    sp_json_out_begin(&out, NULL, '[');
    for (size_t i = 0; i < sp_json_len(*tools); i++) {
        const struct sp_json *tool = sp_json_at(*tools, i), *f = sp_json_get(tool, "function");
        if (sp_json_kind(f) != SP_JSON_OBJECT || is_full(f))
            sp_json_out_value(&out, NULL, tool);
        else
            write_full_tool(&out, tool);
    }
    sp_json_out_end(&out, ']');
    if ((st = sp_json_out_parse(&changed, &out, SP_OK, err))) return st;
    sp_json_free(*tools);
    *tools = changed;
    return SP_OK;
}

/* ---- the whole ---- */

enum sp_status sp_chat_normalize(unsigned *changed, struct sp_template_request *request,
                                 unsigned refused, const struct sp_tool_call_format *calls,
                                 struct sp_err *err)
{
    struct turns list = {.refused = refused, .calls = calls};
    enum sp_status st = normalize_messages(&request->messages, &list, err);

    if (!st) st = normalize_tools(&request->tools, &list, err);
    request->input.messages = request->messages;
    request->input.tools = request->tools;
    if (!st) *changed = list.changed;
    while (list.n > 0)
        sp_strbuf_release(&list.at[--list.n].content);
    free(list.at);
    sp_strbuf_release(&list.system);
    return st;
}

const char *sp_chat_describe_changes(char text[SP_CHAT_CHANGES_TEXT], unsigned changed)
{
    static const struct {
        enum sp_chat_change change;
        const char *words;
    } rows[] = {
        {SP_CHAT_NO_SYSTEM, "system put before user"},
        {SP_CHAT_SYSTEM_LAST, "system put before user"},
        {SP_CHAT_ONE_SYSTEM, "system merged"},
        {SP_CHAT_SYSTEM_FIRST, "system moved to the start"},
        {SP_CHAT_USERS_APART, "user merged"},
        {SP_CHAT_ANSWERS_APART, "assistant merged"},
        {SP_CHAT_TEXT_APART, "text and calls separated"},
        {SP_CHAT_TEXT_LOST, "text beside calls left out"},
        {SP_CHAT_ANSWER_TOOLS, "assistant inserted"},
        {SP_CHAT_SHORT_IDS, "ids shortened"},
        {SP_CHAT_WHOLE_ARGUMENTS, "arguments made objects"},
        {SP_CHAT_FULL_TOOLS, "tools filled in"},
        {SP_CHAT_FILL_ARGUMENTS, "arguments filled in"},
    };
    size_t len = 0;

    *text = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(changed & (unsigned)rows[i].change)) continue;
        len += (size_t)snprintf(text + len, SP_CHAT_CHANGES_TEXT - len, "%s%s", len ? ", " : "",
                                rows[i].words);
        assert(len < SP_CHAT_CHANGES_TEXT);
    }
    return text;
}
