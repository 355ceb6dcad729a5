/* Metadata to generation_config.json: the tokens that end an answer, and sampling values. */
#include "convert/gguf/gguf_config.h"
#include "convert/gguf/gguf_tokens.h"
#include "convert/gguf/gguf_writer.h"

#include <inttypes.h>

enum { MAX_ENDS = 16 };

static void add_end(uint64_t ends[MAX_ENDS], size_t *n, uint64_t id)
{
    for (size_t i = 0; i < *n; i++)
        if (ends[i] == id) return;
    if (*n < MAX_ENDS) ends[(*n)++] = id;
}

/* The control tokens that end an answer in the models of the table, whether the file says so or
 * not: few files state more than one. "<|end|>" also separates the parts of gpt-oss's answers. */
static enum sp_status find_named_ends(uint64_t ends[MAX_ENDS], size_t *n,
                                      const struct sp_gguf_writer *w)
{
    static const char *const names[] = {"<|im_end|>",      "<|eot_id|>",      "<|eom_id|>",
                                        "<end_of_turn>",   "<|end|>",         "<|endoftext|>",
                                        "<|end_of_text|>", "<|return|>",      "<|call|>",
                                        "<turn|>",         "<|tool_response>"};
    const struct sp_gguf_value *tokens, *types;
    const uint8_t *at;
    bool parted = w->model->family.gguf.end_separates;
    bool user = w->model->family.gguf.user_tokens_end;
    enum sp_status st;

    st =
        sp_gguf_get_array(w->model->file, "tokenizer.ggml.tokens", SP_GGUF_STRING, &tokens, w->err);
    if (!st)
        st = sp_gguf_get_numbers(w->model->file, "tokenizer.ggml.token_type", true, &types, w->err);
    if (st || tokens == NULL || types == NULL || types->n != tokens->n) return st;
    at = tokens->at;
    for (uint64_t id = 0; id < tokens->n; id++) {
        size_t len;
        const char *text = sp_gguf_next_string(&at, &len);
        int64_t type = sp_gguf_integer_at(types, id);
        if (type != SP_GGUF_TOKEN_CONTROL && !(user && type == SP_GGUF_TOKEN_USER)) continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strlen(names[k]) != len || memcmp(names[k], text, len) != 0) continue;
            if (!(parted && strcmp(names[k], "<|end|>") == 0)) add_end(ends, n, id);
        }
    }
    return SP_OK;
}

static enum sp_status put_ends(struct sp_gguf_writer *w)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    uint64_t ends[MAX_ENDS], id;
    size_t n = 0;
    enum sp_status st;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        id = UINT64_MAX;
        if ((st = sp_gguf_token_id(&id, w->model->file, keys[i], w->err))) return st;
        if (id != UINT64_MAX) add_end(ends, &n, id);
    }
    if ((st = find_named_ends(ends, &n, w)) || n == 0) return st;
    st = sp_json_put(&w->text, w->err, ",\n  \"eos_token_id\": [");
    for (size_t i = 0; i < n && !st; i++)
        st = sp_json_put(&w->text, w->err, "%s%" PRIu64, i ? ", " : "", ends[i]);
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* Sampling values, which newer files copy from generation_config.json. */
static enum sp_status put_sampling(struct sp_gguf_writer *w)
{
    static const struct {
        const char *key, *published;
        bool integer;
    } keys[] = {
        {"general.sampling.temp", "temperature", false},
        {"general.sampling.top_p", "top_p", false},
        {"general.sampling.min_p", "min_p", false},
        {"general.sampling.penalty_repeat", "repetition_penalty", false},
        {"general.sampling.top_k", "top_k", true},
    };
    bool any = false;
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !st; i++) {
        double value = 0;
        if (sp_gguf_find(w->model->file, keys[i].key) == NULL) continue;
        if (!any) st = sp_gguf_put_bool(w, "do_sample", true);
        any = true;
        if (!st) st = sp_gguf_get_float(w->model->file, keys[i].key, &value, w->err);
        if (!st && keys[i].integer)
            st = sp_json_put(&w->text, w->err, ",\n  \"%s\": %.0f", keys[i].published, value);
        else if (!st)
            st = sp_gguf_put_float(w, keys[i].published, value);
    }
    return st;
}

static enum sp_status write_generation(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_json_put(&w->text, w->err, "{\n  \"_from_model_config\": true");

    if (!st) st = sp_gguf_copy_id(w, "tokenizer.ggml.bos_token_id", "bos_token_id");
    if (!st) st = put_ends(w);
    if (!st) st = sp_gguf_copy_id(w, "tokenizer.ggml.padding_token_id", "pad_token_id");
    if (!st) st = put_sampling(w);
    return st ? st : sp_json_put(&w->text, w->err, "\n}\n");
}

enum sp_status sp_gguf_generation_text(char **text, size_t *size, const struct sp_gguf_model *model,
                                       struct sp_err *err)
{
    struct sp_gguf_writer w = {.model = model, .err = err};

    return sp_gguf_finish(text, size, &w, write_generation(&w));
}
