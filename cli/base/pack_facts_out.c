#include "cli/base/pack_facts.h"
#include "cli/base/out.h"
#include "format/pack_contents.h"
#include "format/config/pooling.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static const char *template_language(const struct sp_pack_facts *facts)
{
    static const char *const names[] = {
        [SP_TEMPLATE_UNKNOWN] = NULL, [SP_TEMPLATE_JINJA] = "Jinja", [SP_TEMPLATE_GO] = "Go"};

    return names[facts->template_language];
}

static double bits_per_weight(const struct sp_part_facts *p)
{
    return p->n_weights ? 8 * (double)p->size / (double)p->n_weights : 0;
}

/* Adds a row of the table of two columns, name and value. */
SP_PRINTF(3, 4)
static void add_row(struct sp_table *t, const char *what, const char *format, ...)
{
    char text[640]; /* the longest is the list of a draft's layers or types */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sp_table_add(t, "%s", what);
    sp_table_add(t, "%s", text);
}

static void add_draft_rows(struct sp_table *t, const struct sp_config *config)
{
    const struct sp_draft_config *d = &config->draft;
    char taps[512] = "";
    size_t len = 0;

    add_row(t, "kind", "%s%s", sp_draft_kind_name(config->draft.kind),
            d->kind == SP_DRAFT_MTP ? ", the target's built-in prediction head" : "");
    for (unsigned i = 0; i < d->n_taps && len < sizeof taps - 16; i++) {
        len += (size_t)snprintf(taps + len, sizeof taps - len, "%s%d", i ? ", " : "",
                                sp_tap_number(d->taps[i]));
    }
    if (d->block_size) {
        add_row(t, "block", d->first_row ? "%u tokens, including the current one" : "%u tokens",
                d->block_size);
    }
    if (d->n_head_rows) add_row(t, "draft vocabulary", "%u tokens", d->n_head_rows);
    if (d->n_taps) add_row(t, "reads layers", "%s", taps);
    if (d->kind != SP_DRAFT_DSPARK) return;
    add_row(t, "markov head", "%s, rank %u", sp_markov_name(&d->dspark), d->dspark.rank);
    add_row(t, "confidence",
            d->dspark.confidence ? "by a confidence head" : "the draft token's probability");
}

static void add_type_rows(struct sp_table *t, const struct sp_part_facts *p)
{
    char size[SP_AMOUNT_TEXT];
    bool first = true;

    for (uint32_t d = SP_F32; d < SP_N_PACKED_DTYPES; d++) {
        if (p->n_of_type[d] == 0) continue;
        add_row(t, first ? "types" : "", "%-4s  %" PRIu64 " tensor%s, %s",
                sp_dtype_info((enum sp_dtype)d)->name, p->n_of_type[d],
                p->n_of_type[d] == 1 ? "" : "s", sp_out_size(size, p->size_of_type[d]));
        first = false;
    }
}

static void add_head_rows(struct sp_table *t, const struct sp_config *c)
{
    const struct sp_layer_config *layer = &c->layers[sp_config_first_layer(c, SP_MIXER_ATTENTION)];
    const struct sp_latent_config *latent = &c->latent;

    if (latent->kv_rank) {
        add_row(t, "heads", "%u of %u, values of %u, all from a latent of %u", layer->n_heads,
                latent->nope_dim + latent->rope_dim, latent->value_dim, latent->kv_rank);
        return;
    }
    add_row(t, "heads", "%u, %u for keys and values, of %u", layer->n_heads, layer->n_kv_heads,
            layer->head_dim);
}

/* Adds how an embedding model makes embeddings. */
static void add_pooling_rows(struct sp_table *t, const struct sp_config *c)
{
    const struct sp_pooling_config *p = &c->pooling;
    char dense[32] = "";

    if (p->mode == SP_POOL_NONE) return;
    if (p->classifies) {
        add_row(t, "reranker", "score by a classification head, %s pooling%s",
                sp_pooling_name(p->mode), p->score.sigmoid ? ", 0 to 1" : "");
        if (p->max_tokens) add_row(t, "longest pair", "%u tokens", p->max_tokens);
        return;
    }
    if (p->mode == SP_POOL_RANK) {
        add_row(t, "reranker", "score by the logit of token %u%s", (unsigned)p->score.true_token,
                p->score.sigmoid ? ", 0 to 1" : "");
        return;
    }
    if (p->n_dense)
        snprintf(dense, sizeof dense, ", %u dense layer%s", p->n_dense, p->n_dense == 1 ? "" : "s");
    add_row(t, "embeddings", "%s pooling%s%s, %u numbers", sp_pooling_name(p->mode), dense,
            p->normalize ? ", normalized" : "", sp_pooling_width(p, c->n_hidden));
    if (p->max_tokens) add_row(t, "longest text", "%u tokens", p->max_tokens);
}

static void add_part_rows(struct sp_table *t, const struct sp_part_facts *p, enum sp_part part)
{
    const struct sp_config *c = &p->config;
    unsigned expert = 0;
    char text[SP_AMOUNT_TEXT];

    if (part == SP_PART_DRAFT) add_draft_rows(t, c);
    add_row(t, "architecture", "%s", c->architecture);
    add_row(t, "parameters", "%s", sp_out_count(text, p->n_weights));
    add_row(t, "layers", "%u", c->n_layers);
    add_row(t, "hidden size", "%u", c->n_hidden);
    if (sp_config_first_layer(c, SP_MIXER_ATTENTION) < c->n_layers) add_head_rows(t, c);
    while (expert < c->n_layers && c->layers[expert].n_experts == 0)
        expert++;
    if (expert < c->n_layers) {
        add_row(t, "experts", "%u, %u used", c->layers[expert].n_experts,
                c->layers[expert].n_experts_used);
    }
    add_row(t, "vocabulary", "%u", c->n_vocab);
    add_row(t, "context", "%u", c->max_positions);
    add_pooling_rows(t, c);
    add_type_rows(t, p);
    add_row(t, "size", "%s, %.2f bits per weight", sp_out_size(text, p->size), bits_per_weight(p));
}

/* What a type adds to the divergence if the caches of all measured layers have it. */
static double cache_divergence(const struct sp_cache_divergences *caches, enum sp_layer_cache type)
{
    double sum = 0;

    for (size_t i = 0; i < caches->n; i++)
        sum += sp_cache_divergence_of(&caches->layers[i], type);
    return sum;
}

/* What the types of caches cost, which --kv-type auto chooses by. */
static void add_cache_rows(struct sp_table *t, const struct sp_cache_divergences *caches)
{
    for (int i = SP_LAYER_Q8; caches->n && i < SP_N_LAYER_CACHES; i++) {
        add_row(t, i == SP_LAYER_Q8 ? "caches" : "", "%s: KL divergence %.4f",
                sp_layer_cache_names[i], cache_divergence(caches, (enum sp_layer_cache)i));
    }
    if (caches->has_choice)
        add_row(t, "", "auto: KL divergence %.4f +- %.4f", caches->nats, caches->error);
}

/* What was done to the weights before they were rounded. */
static void add_changed_rows(struct sp_table *t, const struct sp_pack_facts *facts)
{
    if (facts->n_smoothed) add_row(t, "smoothed", "%zu norms, by a calibration", facts->n_smoothed);
    for (size_t i = 0; i < facts->n_merged; i++) {
        const struct sp_merge_record *m = &facts->merged[i];
        char words[SP_MERGE_WORDS];
        sp_merge_words(words, m);
        add_row(t, "adapter", "%s, of %s, digest %016" PRIx64, words,
                sp_adapter_format_name(m->format), m->digest);
    }
}

/* Adds rows for the records after FROM and DRAFT: of texts the first line that is not blank, cut
 * between characters. */
static void add_record_rows(struct sp_table *t, const struct sp_modelfile *records)
{
    for (size_t i = 0; i < records->n_records; i++) {
        const struct sp_modelfile_record *record = records->records + i;
        const char *name = record->name ? record->name : "";
        const char *first = record->value + strspn(record->value, " \t\r\n");
        int line = (int)strcspn(first, "\r\n"), shown = line > 60 ? 60 : line;
        char what[128];
        snprintf(what, sizeof what, "%s%s%s", sp_modelfile_command_name(record->command),
                 *name ? " " : "", name);
        while (shown > 0 && (first[shown] & 0xC0) == 0x80)
            shown--;
        add_row(t, what, "%.*s%s", shown, first, first[shown] ? " ..." : "");
    }
}

/* The budget that the target's types were chosen for. */
static void add_types_row(struct sp_table *t, const struct sp_json *receipt)
{
    double bits = 0, kl = 0, uniform_kl = 0;
    uint64_t bytes = 0;
    char size[SP_AMOUNT_TEXT], predicted[80] = "";
    const char *uniform = sp_json_get_text(receipt, "uniform");

    if (sp_json_to_double(sp_json_get(receipt, "predicted_kl"), &kl))
        snprintf(predicted, sizeof predicted, ", predicted KL divergence %.4g nats per token", kl);
    if (sp_json_to_double(sp_json_get(receipt, "bits"), &bits)) {
        add_row(t, sp_receipt_types, "chosen for %g bits per weight%s", bits, predicted);
    } else {
        (void)sp_json_to_u64(sp_json_get(receipt, "size"), &bytes);
        add_row(t, sp_receipt_types, "chosen for a file of at most %s%s", sp_out_size(size, bytes),
                predicted);
    }
    if (uniform && sp_json_to_double(sp_json_get(receipt, "measured_kl"), &kl) &&
        sp_json_to_double(sp_json_get(receipt, "uniform_kl"), &uniform_kl)) {
        add_row(t, "", "measured KL divergence %.4g, with %s for all %.4g", kl, uniform,
                uniform_kl);
    }
}

static const char *type_of(const struct sp_json *object)
{
    const char *type = sp_json_get_text(object, "type");

    return type ? type : "";
}

/* Why the draft has its type, and what the other types would gain. */
static void add_draft_type_rows(struct sp_table *t, const struct sp_json *receipt)
{
    const struct sp_json *results = sp_json_get(receipt, "results");
    const char *chosen = type_of(receipt), *before = "";
    char others[512] = "";
    size_t len = 0;

    for (size_t i = 0; i < sp_json_len(results) && len < sizeof others; i++) {
        const struct sp_json *result = sp_json_at(results, i);
        double speed_up = 0, tokens = 0;
        uint64_t draft_len = 0;
        (void)sp_json_to_double(sp_json_get(result, "speed_up"), &speed_up);
        if (strcmp(type_of(result), chosen) == 0) {
            (void)sp_json_to_double(sp_json_get(result, "tokens_per_round"), &tokens);
            (void)sp_json_to_u64(sp_json_get(result, "draft_length"), &draft_len);
            add_row(t, sp_receipt_draft_type,
                    "chosen %s by the bytes read: %.3f tokens per round at draft depth %" PRIu64
                    ", speed-up %.2f",
                    chosen, tokens, draft_len, speed_up);
        } else {
            len += (size_t)snprintf(others + len, sizeof others - len, "%s %s %.2f", before,
                                    type_of(result), speed_up);
            before = ",";
        }
    }
    if (*others) add_row(t, "", "speed-up of the others:%s", others);
}

static void add_receipt_rows(struct sp_table *t, const struct sp_json *receipts)
{
    for (size_t i = 0; i < sp_json_len(receipts); i++) {
        const struct sp_json *receipt = sp_json_at(receipts, i);
        if (strcmp(sp_json_get_text(receipt, "kind"), sp_receipt_types) == 0)
            add_types_row(t, receipt);
        else
            add_draft_type_rows(t, receipt);
    }
}

/* Prints the rows under a heading, if there are any, and empties the table for the next one. */
static void print_rows(const char *heading, struct sp_table *t)
{
    struct sp_err *err = t->err;
    enum sp_status st;

    if (t->st == SP_OK && t->n > 0) printf("\n%s\n", heading);
    st = sp_table_print(stdout, t, 2);
    sp_table_release(t);
    *t = (struct sp_table){.align = "ll", .st = st, .err = err};
}

static void print_fact(const char *name, const char *text)
{
    printf("  %s: ", name);
    sp_out_text(stdout, text, strlen(text));
    putchar('\n');
}

enum sp_status sp_pack_facts_print(const struct sp_pack_facts *facts, const char *name,
                                   const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_table rows = {.align = "ll", .err = err};
    char size[SP_AMOUNT_TEXT];

    printf("%s: %s", name, sp_out_size(size, sp_pack_size(pack)));
    if (sp_pack_is_outline(pack))
        puts(" when it is packed");
    else
        printf(", identity %016" PRIx64 "\n", sp_pack_identity(pack));
    for (enum sp_part part = SP_PART_TARGET; part <= SP_PART_DRAFT; part++) {
        if (!facts->parts[part].present) continue;
        add_part_rows(&rows, &facts->parts[part], part);
        if (part == SP_PART_TARGET) add_changed_rows(&rows, facts);
        if (part == SP_PART_TARGET) add_cache_rows(&rows, &facts->caches);
        print_rows(part == SP_PART_TARGET ? "Target" : "Draft", &rows);
    }
    add_record_rows(&rows, &facts->records);
    print_rows("Settings", &rows);
    add_receipt_rows(&rows, facts->receipts);
    print_rows("Receipts", &rows);
    if (template_language(facts) != NULL) {
        bool from_modelfile =
            sp_modelfile_find(&facts->records, SP_MODELFILE_TEMPLATE, NULL) != NULL;
        printf("\nTemplate\n  %s, of the %s, %s\n", template_language(facts),
               from_modelfile ? "Modelfile" : "checkpoint",
               sp_out_size(size, facts->template_size));
        print_fact("reasoning", facts->reasoning);
        print_fact("tool calls", facts->tool_calls);
    } else if (facts->template_error.status) {
        printf("\nTemplate\n  not usable: %s\n", facts->template_error.text);
    }
    return rows.st;
}

static void part_to_json(struct sp_json_out *out, const struct sp_part_facts *p, enum sp_part part)
{
    const struct sp_config *c = &p->config;

    sp_json_out_begin(out, sp_part_name(part), '{');
    sp_json_out_put(out, "architecture:%s, family:%s", c->architecture, c->family);
    if (part == SP_PART_DRAFT) {
        sp_json_out_text(out, "kind", sp_draft_kind_name(c->draft.kind));
        sp_json_out_u64(out, "block_size", c->draft.block_size);
    }
    sp_json_out_put(out,
                    "parameters:%zu, layers:%u, hidden_size:%u, vocabulary:%u, context:%u, "
                    "n_tensors:%zu, size:%zu, bits_per_weight:%g, types:{",
                    (size_t)p->n_weights, c->n_layers, c->n_hidden, c->n_vocab, c->max_positions,
                    (size_t)p->n_tensors, (size_t)p->size, bits_per_weight(p));
    for (uint32_t d = SP_F32; d < SP_N_PACKED_DTYPES; d++) {
        if (p->n_of_type[d] == 0) continue;
        sp_json_out_begin(out, sp_dtype_info((enum sp_dtype)d)->name, '{');
        sp_json_out_put(out, "n_tensors:%zu, size:%zu}", (size_t)p->n_of_type[d],
                        (size_t)p->size_of_type[d]);
    }
    sp_json_out_put(out, "}}");
}

static void pooling_to_json(struct sp_json_out *out, const struct sp_config *c)
{
    const struct sp_pooling_config *p = &c->pooling;

    if (p->mode == SP_POOL_NONE) return;
    sp_json_out_put(out,
                    "embeddings:{pooling:%s, dense_layers:%u, normalized:%d, dimensions:%u, "
                    "max_tokens:%u}",
                    p->classifies ? "score" : sp_pooling_name(p->mode), p->n_dense, p->normalize,
                    sp_pooling_width(p, c->n_hidden), p->max_tokens);
}

static void merged_to_json(struct sp_json_out *out, const struct sp_pack_facts *facts)
{
    if (facts->n_merged == 0) return;
    sp_json_out_begin(out, "adapters", '[');
    for (size_t i = 0; i < facts->n_merged; i++) {
        const struct sp_merge_record *m = &facts->merged[i];
        char digest[17];
        snprintf(digest, sizeof digest, "%016" PRIx64, m->digest);
        sp_json_out_put(out,
                        "{format:%s, digest:%s, products:%zu, min_rank:%zu, max_rank:%zu, "
                        "min_scale:%g, max_scale:%g, magnitudes:%d, tensors:%zu}",
                        sp_adapter_format_name(m->format), digest, (size_t)m->n_products,
                        (size_t)m->rank[0], (size_t)m->rank[1], m->scale[0], m->scale[1],
                        m->has_magnitudes, (size_t)m->n_wholes);
    }
    sp_json_out_end(out, ']');
}

void sp_pack_facts_to_json(struct sp_json_out *out, const struct sp_pack_facts *facts)
{
    for (enum sp_part part = SP_PART_TARGET; part <= SP_PART_DRAFT; part++)
        if (facts->parts[part].present) part_to_json(out, &facts->parts[part], part);
    pooling_to_json(out, &facts->parts[SP_PART_TARGET].config);
    merged_to_json(out, facts);
    if (facts->n_smoothed) sp_json_out_u64(out, "smoothed_norms", facts->n_smoothed);
    if (facts->caches.n) sp_json_out_begin(out, "caches", '{');
    for (int i = SP_LAYER_Q8; facts->caches.n && i < SP_N_LAYER_CACHES; i++)
        sp_json_out_double(out, sp_layer_cache_names[i],
                           cache_divergence(&facts->caches, (enum sp_layer_cache)i));
    if (facts->caches.has_choice) sp_json_out_double(out, "auto", facts->caches.nats);
    if (facts->caches.n) sp_json_out_end(out, '}');
    sp_json_out_begin(out, "records", '[');
    for (size_t i = 0; i < facts->records.n_records; i++) {
        const struct sp_modelfile_record *r = facts->records.records + i;
        sp_json_out_put(out, "{command:%s", sp_modelfile_command_name(r->command));
        if (r->name) sp_json_out_text(out, "name", r->name);
        sp_json_out_string(out, "value", r->value, r->value_size);
        sp_json_out_end(out, '}');
    }
    sp_json_out_put(out, "], template_language:%s, template_size:%zu, thoughts:%s, tool_calls:%s",
                    template_language(facts), (size_t)facts->template_size,
                    facts->has_reasoning ? facts->reasoning : NULL,
                    facts->has_tool_calls ? facts->tool_calls : NULL);
    if (facts->receipts) sp_json_out_value(out, "receipts", facts->receipts);
}
