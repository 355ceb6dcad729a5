/* The classification head of a checkpoint and its way to read two texts.
 *
 * Source: modeling_bert, modeling_roberta, modeling_modernbert and GenericForSequenceClassification
 * of transformers 5.23; the post-processors of tokenizers 0.22; CrossEncoder of
 * sentence-transformers 6.2. */

#include "convert/source/pooling_files.h"
#include "format/config/config_text.h"
#include "format/config/pooling.h"
#include "format/json/json.h"

#include <string.h>

/* The layers of the head, by family; the last row is that of all decoders. */
static const struct head {
    const char *family;
    enum sp_pooling_mode mode;
    unsigned n_dense;
    bool tanh; /* of the first of two layers */
} heads[] = {
    {"bert", SP_POOL_CLS, 2, true},        {"roberta", SP_POOL_CLS, 2, true},
    {"xlm-roberta", SP_POOL_CLS, 2, true}, {"modernbert", SP_POOL_CLS, 2, false},
    {NULL, SP_POOL_LAST, 1, false},
};

/* transformers assumes two labels where the config names none. */
static enum sp_status check_labels(const struct sp_config *config, const struct sp_json *root,
                                   struct sp_err *err)
{
    const struct sp_json *labels = sp_json_get(root, "id2label");
    int64_t n = labels ? (int64_t)sp_json_len(labels) : 2;
    enum sp_status st = sp_json_get_i64(root, "num_labels", 1, INT32_MAX, &n, err);

    if (st || n == 1) return st;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s has %d labels (id2label): only rerankers, which have one, are supported",
                   config->architecture, (int)n);
}

/* ModernBERT: a layer with gelu and a norm, after the first token or the mean of all. */
static enum sp_status read_modernbert(struct sp_pooling_config *p, const struct sp_json *root,
                                      struct sp_err *err)
{
    const char *pooling = "cls", *activation = "gelu";
    bool norm_bias = false;
    enum sp_status st;

    if ((st = sp_json_get_string(root, "classifier_pooling", &pooling, err))) return st;
    if ((st = sp_json_get_string(root, "classifier_activation", &activation, err))) return st;
    if ((st = sp_json_get_bool(root, "classifier_bias", &p->dense[0].bias, err))) return st;
    if ((st = sp_json_get_bool(root, "norm_bias", &norm_bias, err))) return st;
    p->mode = strcmp(pooling, "mean") == 0 ? SP_POOL_MEAN : SP_POOL_CLS;
    p->dense[0].gelu = p->dense[0].norm = true;
    if (p->mode == SP_POOL_CLS && strcmp(pooling, "cls") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "classifier_pooling \"%.40s\" is not supported, expected cls or mean",
                       pooling);
    }
    if (strcmp(activation, "gelu") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "classifier_activation \"%.40s\" is not supported",
                       activation);
    }
    return norm_bias ? sp_fail(err, SP_E_UNSUPPORTED, "norm_bias true is not supported") : SP_OK;
}

static enum sp_status read_layers(struct sp_pooling_config *p, const struct sp_config *config,
                                  const struct sp_json *root, struct sp_err *err)
{
    const struct head *head = heads;

    while (head->family && strcmp(head->family, config->family) != 0)
        head++;
    if (head->family == NULL && config->bidirectional) {
        return sp_fail(err, SP_E_UNSUPPORTED, "the head of %s is not supported",
                       config->architecture);
    }
    p->mode = head->mode;
    p->n_dense = head->n_dense;
    for (unsigned i = 0; i < p->n_dense; i++) {
        bool last = i + 1 == p->n_dense;
        p->dense[i] = (struct sp_dense_config){.n_in = config->n_hidden,
                                               .n_out = last ? 1 : config->n_hidden,
                                               .bias = p->n_dense == 2 && (last || head->tanh),
                                               .tanh = !last && head->tanh};
    }
    return head->family && !head->tanh ? read_modernbert(p, root, err) : SP_OK;
}

/* ---- two texts ---- */

static enum sp_status add_ids(struct sp_pair_config *pair, size_t part, const struct sp_json *ids,
                              struct sp_err *err)
{
    for (size_t i = 0; i < sp_json_len(ids); i++) {
        uint64_t id;
        if (pair->n_ids[part] == SP_MAX_PAIR_IDS || !sp_json_to_u64(sp_json_at(ids, i), &id) ||
            id >= SP_CAP_VOCAB) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "more than %d special tokens beside a text, or one without an ID",
                           SP_MAX_PAIR_IDS);
        }
        pair->ids[part][pair->n_ids[part]++] = (uint32_t)id;
    }
    return SP_OK;
}

/* TemplateProcessing: a list of special tokens and of the sequences A and B, each with a type. Up
 * to B the type is 0, and from B on it is the same. */
static enum sp_status read_template(struct sp_pair_config *pair, const struct sp_json *processor,
                                    struct sp_err *err)
{
    const struct sp_json *list = sp_json_get(processor, "pair");
    size_t part = 0;
    enum sp_status st;

    for (size_t i = 0; i < sp_json_len(list); i++) {
        const struct sp_json *piece = sp_json_at(list, i);
        const struct sp_json *special = sp_json_get(piece, "SpecialToken");
        const struct sp_json *text = sp_json_get(piece, "Sequence");
        const char *id = sp_json_get_text(special ? special : text, "id");
        int64_t type = 0;
        if (id == NULL || (text && (part == 2 || *id != "AB"[part]))) break;
        if ((st = sp_json_get_i64(special ? special : text, "type_id", 0, 1, &type, err)))
            return st;
        if (text) part++;
        if (type == 1 && (part < 2)) break;
        if (part == 2 && text) pair->second_type = type == 1;
        if (part == 2 && (type == 1) != pair->second_type) break;
        if (special == NULL) continue;
        special = sp_json_get(sp_json_get(processor, "special_tokens"), id);
        if ((st = add_ids(pair, part, sp_json_get(special, "ids"), err))) return st;
        if (i + 1 == sp_json_len(list) && part == 2) return SP_OK;
    }
    if (part == 2 && sp_json_get(sp_json_at(list, sp_json_len(list) - 1), "Sequence")) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "post_processor: this form of pairs is not supported");
}

/* BertProcessing and RobertaProcessing: "cls" A "sep" B "sep", with two "sep" in the middle of the
 * latter, each a pair of a token and its id. */
static enum sp_status read_bert(struct sp_pair_config *pair, const struct sp_json *processor,
                                bool roberta, struct sp_err *err)
{
    static const char *const keys[] = {"cls", "sep", "sep", "sep"};
    static const size_t parts[] = {0, 1, 2, 1};

    for (size_t i = 0; i < (roberta ? 4 : 3); i++) {
        uint64_t id;
        if (!sp_json_to_u64(sp_json_at(sp_json_get(processor, keys[i]), 1), &id) ||
            id >= SP_CAP_VOCAB)
            return sp_fail(err, SP_E_INPUT, "post_processor: %s has no ID", keys[i]);
        pair->ids[parts[i]][pair->n_ids[parts[i]]++] = (uint32_t)id;
    }
    pair->second_type = !roberta;
    return SP_OK;
}

/* *out = the processor that adds tokens; NULL: none does. */
static enum sp_status find_processor(const struct sp_json **out, const struct sp_json *processor,
                                     struct sp_err *err)
{
    const char *type = sp_json_get_text(processor, "type");
    const struct sp_json *list = sp_json_get(processor, "processors");
    enum sp_status st = SP_OK;

    if (processor == NULL) return SP_OK;
    if (type && strcmp(type, "ByteLevel") == 0) return SP_OK;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        if (*out)
            return sp_fail(err, SP_E_UNSUPPORTED, "post_processor: two processors add tokens");
        *out = processor;
        return SP_OK;
    }
    for (size_t i = 0; i < sp_json_len(list) && !st; i++) {
        const char *inner = sp_json_get_text(sp_json_at(list, i), "type");
        if (inner && strcmp(inner, "Sequence") == 0)
            return sp_fail(err, SP_E_UNSUPPORTED, "post_processor: a Sequence inside of another");
        st = find_processor(out, sp_json_at(list, i), err);
    }
    return st;
}

/* True if the tokenizer gives the model the types of tokens, as BERT's does. */
static enum sp_status passes_types(bool *out, const char *folder, struct sp_err *err)
{
    struct sp_json *root = NULL;
    enum sp_status st = sp_json_read_in(&root, folder, "tokenizer_config.json", err);
    const struct sp_json *inputs = sp_json_get(root, "model_input_names");
    const char *class = sp_json_get_text(root, "tokenizer_class");

    *out = inputs == NULL && class && strncmp(class, "Bert", 4) == 0;
    for (size_t i = 0; i < sp_json_len(inputs); i++) {
        const char *name = sp_json_to_string(sp_json_at(inputs, i), NULL);
        if (name && strcmp(name, "token_type_ids") == 0) *out = true;
    }
    sp_json_free(root);
    return st;
}

/* `root`: tokenizer.json. */
static enum sp_status read_pair(struct sp_pair_config *pair, const struct sp_json *root,
                                struct sp_err *err)
{
    const struct sp_json *processor = NULL;
    const char *type;
    enum sp_status st = find_processor(&processor, sp_json_get(root, "post_processor"), err);

    if (st || processor == NULL) return st;
    type = sp_json_get_text(processor, "type");
    if (type == NULL) return sp_fail(err, SP_E_INPUT, "post_processor has no type");
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(pair, processor, err);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_bert(pair, processor, *type == 'R', err);
    return sp_fail(err, SP_E_UNSUPPORTED, "post_processor \"%.40s\" is not supported", type);
}

/* Of the tokenizer.json of a folder or, if that is NULL, of this text. */
static enum sp_status read_pairs(struct sp_pair_config *pair, const char *folder,
                                 const struct sp_text *tokenizer, struct sp_err *err)
{
    struct sp_json *root = NULL;
    bool typed = folder == NULL;
    enum sp_status st =
        folder ? sp_json_read_in(&root, folder, "tokenizer.json", err)
               : sp_json_parse(&root, tokenizer->at, tokenizer->size, SP_JSON_LENIENT, err);

    if (st) return st;
    st = root == NULL
             ? sp_fail(err, SP_E_UNSUPPORTED, "a reranker without tokenizer.json is not supported")
             : read_pair(pair, root, err);
    if (!st && folder) st = passes_types(&typed, folder, err);
    if (!typed) pair->second_type = false;
    if (st && folder) sp_context(err, "%s/tokenizer.json", folder);
    sp_json_free(root);
    return st;
}

/* The activation of the score: that of CrossEncoder's files, or of its keys in config.json, of
 * which the older one is a member of its own. */
static enum sp_status read_activation(struct sp_pooling_config *p, const struct sp_json *config,
                                      const char *folder, struct sp_err *err)
{
    static const char key[] = "activation_fn", old_key[] = "sbert_ce_default_activation_function";
    const struct sp_json *own = sp_json_get(config, "sentence_transformers");
    struct sp_json *root = NULL;
    enum sp_status st = sp_json_read_in(&root, folder, "config_sentence_transformers.json", err);

    if (!st && root && sp_json_get_text(root, "default_prompt_name")) {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "%s/config_sentence_transformers.json: a prompt before a pair of texts is not "
                     "supported",
                     folder);
    }
    if (!st && sp_json_get(root, key)) {
        st = sp_pooling_files_activation(&p->score, root, key, err);
    } else if (!st) {
        st = sp_json_get(own, key) ? sp_pooling_files_activation(&p->score, own, key, err)
                                   : sp_pooling_files_activation(&p->score, config, old_key, err);
    }
    sp_json_free(root);
    return st;
}

enum sp_status sp_classifier_head_read(struct sp_text *record, struct sp_pooling_config *out,
                                       const char *folder, const struct sp_text *tokenizer,
                                       const struct sp_config *config, const struct sp_text *json,
                                       struct sp_err *err)
{
    struct sp_pooling_config p = {.classifies = true, .max_tokens = config->max_positions};
    struct sp_json *root = NULL;
    enum sp_status st = sp_json_parse_settings(&root, json, err);

    if (st) return st;
    p.score.sigmoid = true; /* as CrossEncoder assumes where a file names no activation */
    if (folder && (st = read_activation(&p, root, folder, err))) goto done;
    if ((st = read_pairs(&p.pair, folder, tokenizer, err))) goto done;
    if (folder &&
        (st = sp_pooling_files_max_tokens(&p.max_tokens, folder, config->max_positions, err)))
        goto done;
    if ((st = check_labels(config, root, err))) goto done;
    if ((st = read_layers(&p, config, root, err))) goto done;
    if (config->n_token_types < 2) p.pair.second_type = false;
    if ((st = sp_pooling_print(record, &p, NULL, NULL, err))) goto done;
    *out = p;
done:
    sp_json_free(root);
    return st;
}
