#include "cli/base/embed_inputs.h"

#include "cli/base/input_text.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

const char *const sp_embed_poolings[] = {"last", "mean", "cls", NULL};
const char *const sp_embed_server_poolings[] = {"last", "mean", "cls", "rank", NULL};

enum sp_pooling sp_embed_pooling_of(const char *word)
{
    static const enum sp_pooling values[] = {SP_POOLING_LAST, SP_POOLING_MEAN, SP_POOLING_CLS,
                                             SP_POOLING_RANK};

    for (size_t i = 0; word && sp_embed_server_poolings[i]; i++)
        if (strcmp(word, sp_embed_server_poolings[i]) == 0) return values[i];
    return SP_POOLING_OF_FILE;
}

static size_t most_tokens(const struct sp_embed_inputs *inputs)
{
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;

    sp_package_describe(inputs->package, &info);
    return info.max_embedding_tokens;
}

enum sp_status sp_embed_inputs_add_ids(struct sp_embed_inputs *inputs, uint32_t *ids, size_t n,
                                       struct sp_err *err)
{
    size_t most = most_tokens(inputs);
    enum sp_status st = SP_OK;

    if (n > most && inputs->truncate) n = most;
    if (n == 0) st = sp_fail(err, SP_E_USAGE, "text %zu has no tokens", inputs->n);
    inputs->too_long = n > most;
    if (inputs->too_long) {
        st = sp_fail(err, SP_E_USAGE, "text %zu has %zu tokens, but the model reads at most %zu",
                     inputs->n, n, most);
    }
    if (!st) st = sp_grow(&inputs->texts, &inputs->cap, inputs->n + 1, sizeof *inputs->texts, err);
    if (st) {
        free(ids);
        return st;
    }
    inputs->texts[inputs->n++] = (struct sp_embedding_text){ids, n};
    inputs->n_tokens += n;
    return SP_OK;
}

enum sp_status sp_embed_inputs_add(struct sp_embed_inputs *inputs, const char *text, size_t size,
                                   struct sp_err *err)
{
    uint32_t *ids = NULL;
    size_t n;
    enum sp_status st =
        sp_package_encode_for_embedding(inputs->package, inputs->prompt, text, size,
                                        inputs->truncate ? most_tokens(inputs) : 0, &ids, &n, err);

    return st ? st : sp_embed_inputs_add_ids(inputs, ids, n, err);
}

enum sp_status sp_embed_inputs_add_json(struct sp_embed_inputs *inputs, const struct sp_json *value,
                                        struct sp_err *err)
{
    struct sp_ids ids = {0};
    const char *text;
    size_t size;
    enum sp_status st;

    if ((text = sp_json_to_string(value, &size)) != NULL)
        return sp_embed_inputs_add(inputs, text, size, err);
    if (sp_json_kind(value) != SP_JSON_ARRAY) {
        return sp_fail(err, SP_E_INPUT, "text %zu is neither a string nor an array of token IDs",
                       inputs->n);
    }
    if ((st = sp_ids_of_json(&ids, value, err))) return st;
    return sp_embed_inputs_add_ids(inputs, ids.at, ids.n, err);
}

void sp_embed_inputs_release(struct sp_embed_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++)
        free((void *)(uintptr_t)inputs->texts[i].ids);
    free(inputs->texts);
    inputs->texts = NULL;
    inputs->n = inputs->cap = inputs->n_tokens = 0;
}
