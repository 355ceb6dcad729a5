/* What a file says of embeddings: the record of pooling, the most tokens of a text, its prompts. */
#include "runtime/session/session.h"

#include "format/base/strbuf.h"
#include "format/config/pooling.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_package_open_pooling(struct sp_package *p, struct sp_err *err)
{
    struct sp_pooling_config *config = &p->target->config.pooling;
    struct sp_text text = {0};
    enum sp_status st;

    st = sp_pack_read_section(p->pack, SP_PART_TARGET, SP_SECTION_POOLING, &text, err);
    if (text.at) st = sp_pooling_read(config, &p->pooling, &text, p->target->config.n_hidden, err);
    free(text.at);
    return st;
}

enum sp_pooling sp_package_pooling(const struct sp_package *package)
{
    static const enum sp_pooling of_mode[] = {
        [SP_POOL_NONE] = SP_POOLING_OF_FILE, [SP_POOL_LAST] = SP_POOLING_LAST,
        [SP_POOL_MEAN] = SP_POOLING_MEAN,    [SP_POOL_CLS] = SP_POOLING_CLS,
        [SP_POOL_RANK] = SP_POOLING_RANK,
    };

    if (package->target->config.pooling.classifies) return SP_POOLING_RANK;
    return of_mode[package->target->config.pooling.mode];
}

size_t sp_package_max_embedding_tokens(const struct sp_package *package)
{
    const struct sp_config *c = &package->target->config;

    return c->pooling.max_tokens && c->pooling.max_tokens < c->max_positions ? c->pooling.max_tokens
                                                                             : c->max_positions;
}

/* *text = the prompt of this name; "" if there is none by default. */
static enum sp_status find_prompt(const struct sp_package *package, const char *name,
                                  const char **text, size_t *size, struct sp_err *err)
{
    const struct sp_json *prompts = sp_json_get(package->pooling, "prompts");

    *text = "";
    *size = 0;
    if (name == NULL) name = sp_json_get_text(package->pooling, "default_prompt");
    if (name == NULL || name[0] == '\0') return SP_OK;
    *text = sp_json_to_string(sp_json_get(prompts, name), size);
    if (*text) return SP_OK;
    return sp_fail(err, SP_E_USAGE, "the file has no prompt \"%.80s\"", name);
}

enum sp_status sp_package_encode_for_embedding(const struct sp_package *package, const char *prompt,
                                               const char *text, size_t size, size_t max_tokens,
                                               uint32_t **ids, size_t *n, struct sp_err *err)
{
    struct sp_strbuf whole = {0};
    const char *lead;
    size_t n_lead, n_tail;
    enum sp_status st;

    if ((st = find_prompt(package, prompt, &lead, &n_lead, err))) goto done;
    if ((st = sp_strbuf_append(&whole, lead, n_lead, err))) goto done;
    if ((st = sp_strbuf_append(&whole, text, size, err))) goto done;
    if ((st = sp_tokenizer_encode(package->tokenizer, whole.at, whole.len,
                                  SP_ENCODE_ADD_SPECIAL | SP_ENCODE_PARSE_SPECIAL, ids, n, err)))
        goto done;
    n_tail = sp_tokenizer_n_tail(package->tokenizer);
    if (max_tokens && *n > max_tokens && max_tokens >= n_tail) {
        memmove(*ids + max_tokens - n_tail, *ids + *n - n_tail, n_tail * sizeof **ids);
        *n = max_tokens;
    }
done:
    sp_strbuf_release(&whole);
    return st;
}
