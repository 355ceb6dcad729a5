/* Reranking: a language model reads a query and a document, and its score is how probable the token
 * for "relevant" is after them. The prompt is that of the file's chat template if it knows the
 * roles query and document, as cross-encoders of sentence-transformers have them, or that of
 * Qwen3-Reranker.
 *
 * A classifier reads both texts with the special tokens of its tokenizer between them.
 *
 * Source of the prompt of Qwen3-Reranker: the model card of Qwen3-Reranker. */
#include "runtime/session/session.h"

#include "format/base/mem.h"
#include "runtime/template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char qwen3_template[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: "
    "{{ messages[0].content if messages[0].role == 'system' else '' }}\n"
    "<Query>: {{ messages[-2].content }}\n<Document>: {{ messages[-1].content }}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>{{ '\\n\\n' }}";
static const char default_instruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";

struct ids {
    uint32_t *at; /* owned */
    size_t n;
};

struct ranking {
    struct sp_package *package;
    const struct sp_rerank_request *request;
    const char *instruction;      /* NULL: none */
    struct sp_template *template; /* with roles query and document; owned */
    size_t max_tokens;
    struct sp_embedding_text *texts; /* [n_documents], with their ids; owned */
    size_t *n_first;                 /* [n_documents] tokens before the document of a pair; owned */
    struct sp_err *err;
};

/* ---- the prompt ---- */

/* True if the template compares a role with this word. */
static bool has_role(const struct sp_template *t, const char *role)
{
    char quoted[2][32];
    size_t size;
    const char *text = sp_template_text(t, &size);

    snprintf(quoted[0], sizeof quoted[0], "\"%s\"", role);
    snprintf(quoted[1], sizeof quoted[1], "'%s'", role);
    return strstr(text, quoted[0]) || strstr(text, quoted[1]);
}

static enum sp_status encode(struct ids *out, const struct ranking *r, const char *text,
                             size_t size)
{
    return sp_tokenizer_encode(r->package->tokenizer, text, size, SP_ENCODE_PARSE_SPECIAL, &out->at,
                               &out->n, r->err);
}

/* Without a template the prompt is Qwen3-Reranker's, whose tags must be tokens. */
static enum sp_status open_qwen3(struct ranking *r)
{
    static const char tag[] = "<|im_start|>";
    const struct sp_template_texts texts = {
        .jinja = {(char *)(uintptr_t)qwen3_template, sizeof qwen3_template - 1}};
    const struct sp_tokenizer *tok = r->package->tokenizer;

    if (tok == NULL || sp_tokenizer_find(tok, tag, strlen(tag)) == SP_TOKEN_NONE) {
        return sp_fail(r->err, SP_E_UNSUPPORTED,
                       "no prompt for a reranker: the file has neither a chat template with the "
                       "roles query and document, nor the tokens of Qwen3-Reranker's prompt");
    }
    if (r->instruction == NULL) r->instruction = default_instruction;
    return sp_template_open(&r->template, &texts, r->err);
}

static enum sp_status open_prompt(struct ranking *r)
{
    enum sp_status st = sp_package_template(r->package, &r->template, r->err);

    if (st) return st;
    r->instruction = r->request->instruction;
    if (r->instruction == NULL) {
        const char *name = sp_json_get_text(r->package->pooling, "default_prompt");
        const struct sp_json *prompts = sp_json_get(r->package->pooling, "prompts");
        r->instruction = name ? sp_json_get_text(prompts, name) : NULL;
    }
    if (r->template && has_role(r->template, "query") && has_role(r->template, "document"))
        return SP_OK;
    sp_template_close(r->template);
    r->template = NULL;
    return open_qwen3(r);
}

static enum sp_status render(struct ids *out, const struct ranking *r,
                             const struct sp_rerank_document *document)
{
    struct sp_chat_message turns[] = {{.role = "system", .content = r->instruction},
                                      {.role = "query", .content = r->request->query},
                                      {.role = "document", .content = document->text}};
    bool instructed = r->instruction && r->instruction[0];
    struct sp_chat_request chat = {
        .size = sizeof chat, .turns = turns + !instructed, .n_turns = instructed ? 3 : 2};
    char *text = NULL;
    size_t size;
    enum sp_status st = sp_template_apply(&text, &size, r->template, &chat, r->err);

    if (!st) st = encode(out, r, text, size);
    free(text);
    return st;
}

/* Writes the query and the document as a pair of texts. *n_first: the tokens before the document. A
 * document that is too long is shortened if the request says so. */
static enum sp_status write_pair(struct ids *out, size_t *n_first, const struct ranking *r,
                                 const struct sp_rerank_document *document)
{
    const struct sp_pair_config *pair = &r->package->target->config.pooling.pair;
    struct ids texts[2] = {{NULL, 0}, {NULL, 0}};
    size_t n_around = 0, most = r->request->max_document_tokens;
    enum sp_status st;

    if ((st = encode(&texts[0], r, r->request->query, strlen(r->request->query)))) goto done;
    if ((st = encode(&texts[1], r, document->text, document->size))) goto done;
    for (size_t i = 0; i < 3; i++)
        n_around += pair->n_ids[i];
    n_around += texts[0].n;
    if (most && texts[1].n > most) texts[1].n = most;
    if (r->request->truncate && n_around < r->max_tokens && texts[1].n > r->max_tokens - n_around)
        texts[1].n = r->max_tokens - n_around;
    if ((st = sp_new(&out->at, n_around + texts[1].n, sizeof *out->at, r->err))) goto done;
    for (size_t i = 0; i < 3; i++) {
        memcpy(out->at + out->n, pair->ids[i], pair->n_ids[i] * sizeof *out->at);
        out->n += pair->n_ids[i];
        if (i == 1) *n_first = out->n;
        if (i == 2 || texts[i].n == 0) continue;
        memcpy(out->at + out->n, texts[i].at, texts[i].n * sizeof *out->at);
        out->n += texts[i].n;
    }
done:
    free(texts[0].at);
    free(texts[1].at);
    return st;
}

/* Cuts a document to `most` tokens less `excess`; *text, owned by the caller, is then its text,
 * without the bytes of a character that was cut through. */
static enum sp_status cut_document(struct sp_rerank_document *document, char **text, size_t most,
                                   size_t excess, const struct ranking *r)
{
    static const char replacement[] = "\xef\xbf\xbd";
    struct ids ids = {0};
    char *cut = NULL;
    size_t n;
    enum sp_status st;

    if ((st = encode(&ids, r, document->text, document->size))) return st;
    n = ids.n < most ? ids.n : most;
    n = n > excess ? n - excess : 0;
    if (n < ids.n && !(st = sp_tokenizer_decode(r->package->tokenizer, ids.at, n, false, &cut,
                                                &document->size, r->err))) {
        while (document->size >= 3 && memcmp(cut + document->size - 3, replacement, 3) == 0)
            document->size -= 3;
        cut[document->size] = '\0';
        free(*text);
        document->text = *text = cut;
    }
    free(ids.at);
    return st;
}

/* Renders the template, with a shorter document as long as the prompt is too long, if the request
 * says so. */
static enum sp_status write_prompt(struct ids *out, const struct ranking *r,
                                   struct sp_rerank_document document)
{
    size_t most = r->request->max_document_tokens;
    char *text = NULL;
    enum sp_status st = most ? cut_document(&document, &text, most, 0, r) : SP_OK;

    if (!st) st = render(out, r, &document);
    while (!st && r->request->truncate && out->n > r->max_tokens) {
        size_t size = document.size;
        st = cut_document(&document, &text, SIZE_MAX, out->n - r->max_tokens, r);
        if (st || document.size >= size) break;
        free(out->at);
        *out = (struct ids){0};
        st = render(out, r, &document);
    }
    free(text);
    return st;
}

static enum sp_status encode_documents(struct ranking *r, size_t *n_tokens)
{
    size_t n = r->request->n_documents;
    enum sp_status st = sp_new(&r->texts, n ? n : 1, sizeof *r->texts, r->err);

    if (!st) st = sp_new(&r->n_first, n ? n : 1, sizeof *r->n_first, r->err);
    *n_tokens = 0;
    for (size_t i = 0; i < n && !st; i++) {
        const struct sp_rerank_document *document = &r->request->documents[i];
        struct ids ids = {0};
        size_t n_first = 0;
        if (strlen(document->text) != document->size) {
            st = sp_fail(r->err, SP_E_INPUT, "document %zu has a NUL character", i);
            break;
        }
        st = r->package->target->config.pooling.classifies ? write_pair(&ids, &n_first, r, document)
                                                           : write_prompt(&ids, r, *document);
        r->texts[i] = (struct sp_embedding_text){ids.at, ids.n};
        r->n_first[i] = n_first;
        *n_tokens += ids.n;
        if (!st && ids.n > r->max_tokens) {
            st = sp_fail(r->err, SP_E_USAGE,
                         "document %zu has %zu tokens with its query, but the model reads at most "
                         "%zu",
                         i, ids.n, r->max_tokens);
        }
    }
    return st;
}

enum sp_status sp_package_rerank(struct sp_package *package,
                                 const struct sp_rerank_request *request, float **scores,
                                 size_t *n_tokens, struct sp_err *err)
{
    struct sp_rerank_request q = {0};
    struct ranking r = {.package = package, .request = &q, .err = err};
    struct sp_embedding_request scoring = {.size = sizeof scoring, .pooling = SP_POOLING_RANK};
    size_t width;
    enum sp_status st;

    if ((st = sp_copy_in(&q, sizeof q, request, "sp_rerank_request", err))) return st;
    if (sp_package_pooling(package) != SP_POOLING_RANK && !q.any_model) {
        return sp_fail_about(err, SP_E_UNSUPPORTED, SP_TOPIC_RANKING,
                             "not a reranker: its checkpoint had no modules.json with LogitScore "
                             "and no classification head");
    }
    r.max_tokens = sp_package_max_embedding_tokens(package);
    if (package->target->config.pooling.classifies) {
        if (q.instruction && *q.instruction) {
            st = sp_fail(err, SP_E_UNSUPPORTED,
                         "instruction: a reranker with a classification head reads none");
            goto done;
        }
    } else if ((st = open_prompt(&r))) {
        goto done;
    }
    if ((st = encode_documents(&r, n_tokens))) goto done;
    scoring.texts = r.texts;
    scoring.n_first = r.n_first;
    scoring.n_texts = q.n_documents;
    scoring.context = q.context;
    scoring.progress = q.progress;
    st = sp_package_embed(package, &scoring, scores, &width, err);
done:
    for (size_t i = 0; r.texts && i < q.n_documents; i++)
        free((void *)(uintptr_t)r.texts[i].ids);
    free(r.texts);
    free(r.n_first);
    sp_template_close(r.template);
    return st;
}
