#include "cli/chat/prompt.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package, const char *text,
                             size_t size, bool first, struct sp_err *err)
{
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (first ? SP_ENCODE_ADD_SPECIAL : 0);

    return sp_package_encode(package, text, size, flags, &ids->at, &ids->n, err);
}

/* Bytes of one token's text. */
static bool decoded_size(size_t *size, const struct sp_package *package, uint32_t id,
                         bool skip_special)
{
    char *text = NULL;

    if (sp_package_decode(package, &id, 1, skip_special, &text, size, NULL)) return false;
    free(text);
    return true;
}

bool sp_prompt_special(uint32_t *id, size_t *size, const struct sp_package *package,
                       const char *text)
{
    struct sp_ids ids = {0};
    size_t shown = 0;
    bool special;

    if (sp_prompt_raw(&ids, package, text, strlen(text), false, NULL)) return false;
    special = ids.n > 0 && decoded_size(&shown, package, ids.at[0], true) && shown == 0 &&
              decoded_size(size, package, ids.at[0], false) && *size > 0;
    if (special) *id = ids.at[0];
    sp_ids_release(&ids);
    return special;
}

/* What a template writes behind the word `answer` in a conversation; NULL: no such thing. */
static char *behind_answer(const struct sp_template *t, const char *conversation,
                           const char *answer)
{
    struct sp_json *messages = NULL;
    struct sp_template_input in = {.now = {2000, 1, 1, 0, 0, 0}};
    char *text = NULL, *tail;
    size_t size;

    if (sp_json_parse(&messages, conversation, strlen(conversation), SP_JSON_STRICT, NULL)) {
        return NULL;
    }
    in.messages = messages;
    if (sp_template_render(&text, &size, t, &in, NULL)) text = NULL;
    sp_json_free(messages);
    tail = text ? strstr(text, answer) : NULL;
    if (tail != NULL) {
        tail += strlen(answer);
        tail += strspn(tail, " \r\n");
        memmove(text, tail, strlen(tail) + 1);
        return text;
    }
    free(text);
    return NULL;
}

/* Some templates write another token behind the last answer than behind earlier ones: the last one
 * counts. Go's leave the last answer open. */
bool sp_prompt_end_of_turn(uint32_t *id, const struct sp_package *package,
                           const struct sp_template *t)
{
#define TURNS                                                                                      \
    "[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"Answer\"}"
    static const char last[] = TURNS "]",
                      earlier[] = TURNS ",{\"role\":\"user\",\"content\":\"2\"}]";
#undef TURNS
    bool go = sp_template_language(t) == SP_TEMPLATE_GO, found;
    char *tail = behind_answer(t, go ? earlier : last, "Answer");
    size_t size;

    if (tail == NULL) return false;
    found = sp_prompt_special(id, &size, package, tail);
    free(tail);
    return found;
}
