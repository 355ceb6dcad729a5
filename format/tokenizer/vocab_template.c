/* The post_processor of tokenizer.json: the ids that it puts around a text. */
#include "format/tokenizer/vocab_reading.h"

#include <string.h>

/* A file may have only one. */
static void begin_template(struct sp_vocab_reading *r)
{
    if (r->vocab->has_template) SP_VOCAB_REFUSED(r, "a second template is not supported");
    r->vocab->has_template = true;
}

static void add_id(struct sp_vocab_reading *r, bool is_after_text, uint64_t id)
{
    struct sp_vocab *vocab = r->vocab;
    uint32_t **ids = is_after_text ? &vocab->suffix : &vocab->prefix;
    size_t *n = is_after_text ? &vocab->n_suffix : &vocab->n_prefix, cap = *n;

    if (id >= vocab->n_ids || vocab->tokens[id].text == NULL)
        SP_VOCAB_INVALID(r, "id %llu names no token", (unsigned long long)id);
    if (!sp_grow(ids, &cap, *n + 1, sizeof **ids, r->err)) (*ids)[(*n)++] = (uint32_t)id;
}

static void read_special(struct sp_vocab_reading *r, bool is_after_text, const char *name)
{
    const struct sp_json *table = sp_json_get(r->v, "special_tokens");
    const struct sp_json *ids = sp_json_get(sp_json_get(table, name), "ids");

    if (sp_json_kind(ids) != SP_JSON_ARRAY || sp_json_len(ids) == 0)
        SP_VOCAB_INVALID(r, "special_tokens: \"%s\" has no list of ids", name);
    for (size_t i = 0; i < sp_json_len(ids) && !sp_vocab_failed(r); i++) {
        uint64_t id;
        if (sp_json_to_u64(sp_json_at(ids, i), &id))
            add_id(r, is_after_text, id);
        else
            SP_VOCAB_INVALID(r, "special_tokens: \"%s\": ids[%zu] is not a token ID", name, i);
    }
}

static void read_piece(struct sp_vocab_reading *r, bool *seen_text, const struct sp_json *piece)
{
    const struct sp_json *special = sp_json_get(piece, "SpecialToken");
    const struct sp_json *sequence = sp_json_get(piece, "Sequence");
    const char *name = NULL;

    (void)!sp_json_get_string(special ? special : sequence, "id", &name, r->err);
    if (name == NULL)
        SP_VOCAB_INVALID(r, "single: expected SpecialToken or Sequence");
    else if (special)
        read_special(r, *seen_text, name);
    else if (strcmp(name, "A") != 0 || *seen_text)
        SP_VOCAB_REFUSED(r, "single: only one Sequence, \"A\", is supported, found \"%s\"", name);
    else
        *seen_text = true;
}

void sp_vocab_read_template(struct sp_vocab_reading *r)
{
    const struct sp_json *single = sp_json_get(r->v, "single");
    bool seen_text = false;

    if (sp_json_kind(single) != SP_JSON_ARRAY) SP_VOCAB_INVALID(r, "single: expected a list");
    begin_template(r);
    for (size_t i = 0; i < sp_json_len(single) && !sp_vocab_failed(r); i++)
        read_piece(r, &seen_text, sp_json_at(single, i));
    if (!seen_text) SP_VOCAB_REFUSED(r, "single: a template without the text is not supported");
}

/* "cls" before the text and "sep" after it, each a pair of a token and its id. */
void sp_vocab_read_bert(struct sp_vocab_reading *r)
{
    uint64_t cls, sep;

    begin_template(r);
    if (sp_json_to_u64(sp_json_at(sp_json_get(r->v, "cls"), 1), &cls) &&
        sp_json_to_u64(sp_json_at(sp_json_get(r->v, "sep"), 1), &sep)) {
        add_id(r, false, cls);
        add_id(r, true, sep);
    } else {
        SP_VOCAB_INVALID(r, "cls and sep: expected a token and its id");
    }
}
