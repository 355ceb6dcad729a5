/* Metadata to generation_config.json: the tokens that end an answer, and sampling values. */
#include "format/tokenizer/gguf_tokens.h"
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
static void find_named_ends(uint64_t ends[MAX_ENDS], size_t *n, struct sp_gguf_writer *w)
{
    static const char *const names[] = {"<|im_end|>",      "<|eot_id|>",      "<|eom_id|>",
                                        "<end_of_turn>",   "<|end|>",         "<|endoftext|>",
                                        "<|end_of_text|>", "<|return|>",      "<|call|>",
                                        "<turn|>",         "<|tool_response>"};
    const struct sp_gguf_value *tokens = NULL, *types = NULL;
    const uint8_t *at;
    bool parted = w->model->family.gguf.end_separates;
    bool user = w->model->family.gguf.user_tokens_end;

    (void)!sp_gguf_get_array(w->model->file, "tokenizer.ggml.tokens", SP_GGUF_STRING, &tokens,
                             &w->err);
    (void)!sp_gguf_get_numbers(w->model->file, "tokenizer.ggml.token_type", true, &types, &w->err);
    if (w->err.status || tokens == NULL || types == NULL || types->n != tokens->n) return;
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
}

static void put_ends(struct sp_gguf_writer *w)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    uint64_t ends[MAX_ENDS], id;
    size_t n = 0;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        id = UINT64_MAX;
        (void)!sp_gguf_token_id(&id, w->model->file, keys[i], &w->err);
        if (id != UINT64_MAX) add_end(ends, &n, id);
    }
    find_named_ends(ends, &n, w);
    if (n == 0) return;
    sp_gguf_put_word(w, "eos_token_id", "[");
    for (size_t i = 0; i < n; i++)
        sp_json_out_print(&w->out, "%s%" PRIu64, i ? ", " : "", ends[i]);
    sp_json_out_raw(&w->out, "]");
}

/* Sampling values, which newer files copy from generation_config.json. */
static void put_sampling(struct sp_gguf_writer *w)
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

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double value = 0;
        if (sp_gguf_find(w->model->file, keys[i].key) == NULL) continue;
        if (!any) sp_gguf_put_bool(w, "do_sample", true);
        any = true;
        (void)!sp_gguf_get_float(w->model->file, keys[i].key, &value, &w->err);
        if (keys[i].integer)
            sp_json_out_print(&w->out, ",\n  \"%s\": %.0f", keys[i].published, value);
        else
            sp_gguf_put_float(w, keys[i].published, value);
    }
}

enum sp_status sp_gguf_generation_text(struct sp_text *text, const struct sp_gguf_model *model,
                                       struct sp_err *err)
{
    struct sp_gguf_writer w = {.model = model};

    sp_json_out_raw(&w.out, "{\n  \"_from_model_config\": true");
    sp_gguf_copy_id(&w, "tokenizer.ggml.bos_token_id", "bos_token_id");
    put_ends(&w);
    sp_gguf_copy_id(&w, "tokenizer.ggml.padding_token_id", "pad_token_id");
    put_sampling(&w);
    sp_json_out_raw(&w.out, "\n}\n");
    return sp_gguf_finish(text, &w, err);
}
