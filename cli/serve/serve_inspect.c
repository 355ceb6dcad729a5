#include "cli/serve/handlers.h"
#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/jobs/serve.h"
#include "cli/serve/openai/serve_openai.h"

#include <stdlib.h>

enum sp_status sp_serve_tokenize(struct sp_json_out *out, struct sp_exchange *x, struct sp_err *err)
{
    struct sp_serve_request *request = &x->asked;
    const struct sp_package *package = request->model->loaded->package;
    const struct sp_json *body = request->body;
    bool special = false, parse = true, pieces = false;
    size_t size = 0, n = 0;
    const char *text = sp_json_to_string(sp_json_get(body, "content"), &size);
    uint32_t *ids = NULL;
    unsigned flags;
    enum sp_status st;

    if (text == NULL) return sp_fail(err, SP_E_INPUT, "content: expected a string");
    if ((st = sp_json_get_bool(body, "add_special", &special, err))) return st;
    if ((st = sp_json_get_bool(body, "parse_special", &parse, err))) return st;
    if ((st = sp_json_get_bool(body, "with_pieces", &pieces, err))) return st;
    flags = (special ? SP_ENCODE_ADD_SPECIAL : 0) | (parse ? SP_ENCODE_PARSE_SPECIAL : 0);
    st = sp_tokenizer_encode(sp_package_tokenizer(package), text, size, flags, &ids, &n, err);
    if (!st) st = request->take_memory(request->memory, n * (pieces ? 40 : 8), err);
    if (st) {
        free(ids);
        return st;
    }
    sp_json_out_begin(out, "tokens", '[');
    for (size_t i = 0; i < n; i++) {
        struct sp_token_info token = {0};
        if (!pieces) {
            sp_json_out_u64(out, NULL, ids[i]);
            continue;
        }
        (void)sp_tokenizer_token(sp_package_tokenizer(package), ids[i], &token);
        sp_json_out_put(out, "{id:%u", ids[i]);
        sp_json_out_string(out, "piece", token.bytes ? token.bytes : "", token.len);
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
    free(ids);
    return SP_OK;
}

enum sp_status sp_serve_detokenize(struct sp_json_out *out, struct sp_exchange *x,
                                   struct sp_err *err)
{
    struct sp_serve_request *request = &x->asked;
    const struct sp_package *package = request->model->loaded->package;
    const struct sp_json *tokens = sp_json_get(request->body, "tokens");
    struct sp_token_info token;
    struct sp_ids ids = {0};
    char *text = NULL;
    size_t size = 0, n = 0;
    enum sp_status st;

    if (sp_json_kind(tokens) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "tokens: expected an array of token ids");
    if (sp_json_len(tokens) > 0 && (st = sp_ids_of_json(&ids, tokens, err))) {
        sp_context(err, "tokens");
        return st;
    }
    for (size_t i = 0; i < ids.n; i++)
        if (sp_tokenizer_token(sp_package_tokenizer(package), ids.at[i], &token)) n += token.len;
    if ((st = request->take_memory(request->memory, 2 * n, err))) goto done;
    st =
        sp_tokenizer_decode(sp_package_tokenizer(package), ids.at, ids.n, false, &text, &size, err);
    if (!st) sp_json_out_string(out, "content", text, size);
done:
    free(text);
    sp_ids_release(&ids);
    return st;
}

enum sp_status sp_serve_count_tokens(struct sp_json_out *out, struct sp_exchange *x,
                                     struct sp_err *err)
{
    size_t n = 0;
    enum sp_status st =
        sp_serve_read_fields(&x->asked, x->asked.body, sp_serve_anthropic_prompt_fields, err);

    if (!st) st = sp_serve_prompt_count(&n, x->serve, &x->asked, err);
    if (!st) sp_json_out_put(out, "input_tokens:%zu", n);
    return st;
}

enum sp_status sp_serve_apply_template(struct sp_json_out *out, struct sp_exchange *x,
                                       struct sp_err *err)
{
    struct sp_serve_request *request = &x->asked;
    struct sp_chat_prompt_info info = {.size = sizeof info};
    struct sp_serve_prompt prompt = {.n_ids = 0};
    const struct sp_settings *settings = request->model->loaded->settings;
    enum sp_status st = sp_settings_copy(&request->settings, settings, err);

    if (!st) st = sp_serve_read_fields(request, request->body, sp_serve_openai_chat_fields, err);
    if (!st) st = sp_serve_prompt_read(&prompt, x->serve, request, 0, err);
    if (!st) {
        sp_chat_prompt_describe(prompt.rendered, &info);
        st = request->take_memory(request->memory, 2 * info.text_size, err);
    }
    if (!st) sp_json_out_string(out, "prompt", info.text, info.text_size);
    sp_serve_prompt_release(&prompt);
    return st;
}
