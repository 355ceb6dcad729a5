/* Collects the tokens of an answer with their log-probabilities. */
#include "cli/serve/jobs/serve.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

/* Recognizes a byte token such as <0xE2>, by which some tokenizers spell unknown characters. */
static bool is_byte(unsigned char *byte, const struct sp_token_info *info)
{
    char text[3] = {0}, *end;

    if (info->len != 6 || memcmp(info->bytes, "<0x", 3) != 0 || info->bytes[5] != '>') return false;
    memcpy(text, info->bytes + 3, 2);
    *byte = (unsigned char)strtoul(text, &end, 16);
    return end == text + 2;
}

/* Decodes the token twice in a row and returns the second text, since the first token of a text
 * may drop its leading space. */
static enum sp_status decode_second(char **bytes, size_t *size, const struct sp_package *package,
                                    uint32_t id)
{
    const uint32_t twice[] = {id, id};
    char *one = NULL, *two = NULL;
    size_t n_one, n_two;
    enum sp_status st;

    if ((st = sp_tokenizer_decode(sp_package_tokenizer(package), twice, 1, false, &one, &n_one,
                                  NULL)) ||
        (st = sp_tokenizer_decode(sp_package_tokenizer(package), twice, 2, false, &two, &n_two,
                                  NULL))) {
        free(one);
        return st;
    }
    if (n_one > n_two) n_one = n_two;
    st = sp_copy_text(bytes, two + n_one, n_two - n_one, NULL);
    *size = n_two - n_one;
    free(one);
    free(two);
    return st;
}

enum sp_status sp_serve_logprob_bytes(char **bytes, size_t *size, const struct sp_package *package,
                                      uint32_t id)
{
    struct sp_token_info info;
    unsigned char byte;

    *size = 0;
    if (!sp_tokenizer_token(sp_package_tokenizer(package), id, &info))
        return sp_copy_text(bytes, "", 0, NULL);
    if (!info.added && is_byte(&byte, &info)) {
        *size = 1;
        return sp_copy_text(bytes, (const char *)&byte, 1, NULL);
    }
    if (!info.added && sp_utf8_valid(info.bytes, info.len) == info.len)
        return decode_second(bytes, size, package, id);
    *size = info.len;
    return sp_copy_text(bytes, info.bytes, info.len, NULL);
}

void sp_serve_logprob_release(struct sp_serve_logprob *token)
{
    free(token->bytes);
    free(token->top);
    *token = (struct sp_serve_logprob){0};
}

enum sp_status sp_serve_logprob_read(struct sp_serve_logprob *out, const struct sp_package *package,
                                     const struct sp_token *token)
{
    enum sp_status st;

    *out = (struct sp_serve_logprob){.chosen = {token->id, token->logprob}};
    if ((st = sp_serve_logprob_bytes(&out->bytes, &out->size, package, token->id)) ||
        (st = sp_new(&out->top, token->n_top, sizeof *out->top, NULL))) {
        sp_serve_logprob_release(out);
        return st;
    }
    out->n_top = token->n_top;
    if (token->n_top) memcpy(out->top, token->top, token->n_top * sizeof *out->top);
    return SP_OK;
}

/* ---- output ---- */

/* Writes the members of a token into an object that the caller has opened. */
static void write_choice(struct sp_json_out *out, const char *bytes, size_t size, float logprob)
{
    sp_json_out_string(out, "token", bytes, size);
    sp_json_out_double(out, "logprob", (double)logprob);
    sp_json_out_begin(out, "bytes", '[');
    for (size_t i = 0; i < size; i++)
        sp_json_out_u64(out, NULL, (unsigned char)bytes[i]);
    sp_json_out_end(out, ']');
}

static void write_alternative(struct sp_json_out *out, const struct sp_package *package,
                              const struct sp_logprob *choice)
{
    char *bytes = NULL;
    size_t size;

    if (sp_serve_logprob_bytes(&bytes, &size, package, choice->id)) return;
    sp_json_out_begin(out, NULL, '{');
    write_choice(out, bytes, size, choice->logprob);
    sp_json_out_end(out, '}');
    free(bytes);
}

void sp_serve_logprobs_write(struct sp_serve_response *r, const char *key,
                             const struct sp_serve_logprob *tokens, size_t n)
{
    const struct sp_package *package = r->request->model->loaded->package;
    struct sp_json_out *out = &r->out;

    sp_json_out_begin(out, key, '[');
    for (size_t i = 0; i < n; i++) {
        const struct sp_serve_logprob *t = &tokens[i];
        sp_json_out_begin(out, NULL, '{');
        write_choice(out, t->bytes, t->size, t->chosen.logprob);
        sp_json_out_begin(out, "top_logprobs", '[');
        for (size_t k = 0; k < t->n_top; k++)
            write_alternative(out, package, &t->top[k]);
        sp_json_out_put(out, "]}");
    }
    sp_json_out_end(out, ']');
}
