/* format/config/config.h: the configs of testdata/config/expected.txt have the values that it
 * states. */
#include "format/config/config.h"
#include "format/family/config_parse.h"
#include "tests/support/config_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* The value of the expression NAME, or at->NAME, among several; `texts` are theirs. */
static double find(const char *name, const char *texts, const double *values)
{
    size_t len = strlen(name);

    for (const char *at = texts; at; at = strchr(at, ' '), values++) {
        if (*at == ' ') at++;
        if (strncmp(at, "at->", 4) == 0) at += 4;
        if (strncmp(at, name, len) == 0 && strchr(",", at[len])) return *values;
    }
    fail_msg("%s is not known to this test", name);
    return 0;
}

#define FIND(name, ...) find(name, #__VA_ARGS__, (const double[]){__VA_ARGS__})

static double layer_value(const struct sp_layer_config *at, const char *name)
{
    return FIND(name, at->mixers, at->norms, at->n_heads, at->n_kv_heads, at->head_dim, at->window,
                at->chunked, at->window_before, at->rope, at->score_scale, at->kv_source, at->rate,
                at->overlaps, at->hashes, at->ngrams, at->unindexed, at->causal, at->reads_pair,
                at->v_from_k, at->output_gate, at->head_gate, at->n_ffn, at->n_shared_ffn,
                at->n_experts, at->n_experts_used, at->limits[0]);
}

static double rope_value(const struct sp_rope *at, const char *name)
{
    if (strcmp(name, "short_factors[5]") == 0) return (double)at->short_factors[5];
    if (strcmp(name, "long_factors[0]") == 0) return (double)at->long_factors[0];
    return FIND(name, at->kind, at->theta, at->n_rot, at->n_rotated, at->factor,
                at->low_freq_factor, at->high_freq_factor, at->original_positions, at->beta_fast,
                at->beta_slow, at->truncate, at->amplitude);
}

static double config_value(const struct sp_config *at, const char *name)
{
    unsigned i = 0;
    int n = 0;

    if (sscanf(name, "layers[%u].%n", &i, &n) == 1 && n && i < at->n_layers)
        return layer_value(&at->layers[i], name + n);
    if (sscanf(name, "ropes[%u].%n", &i, &n) == 1 && n && i < at->n_ropes)
        return rope_value(&at->ropes[i], name + n);
    if (strcmp(name, "recurrent") == 0) return sp_config_is_recurrent(at);
    return FIND(
        name, at->activation, at->attention_cap, at->attention_out_scale, at->attention_scale,
        at->attention_sinks, at->bidirectional, at->conv_group, at->delta.kernel, at->delta.key_dim,
        at->delta.n_key_heads, at->delta.n_value_heads, at->delta.sigmoid_gate, at->delta.value_dim,
        at->draft.block_size, at->draft.borrows_tables, at->draft.dspark.confidence,
        at->draft.dspark.confidence_markov, at->draft.dspark.markov, at->draft.dspark.rank,
        at->draft.features_normed, at->draft.first_row, at->draft.kind, at->draft.mask_token,
        at->draft.n_head_rows, at->draft.n_taps, at->draft.n_target_layers, at->draft.normed_output,
        at->draft.normed_residual, at->draft.raw_embeddings, at->draft.rows_paired,
        at->draft.selector_rank, at->draft.selector_top_k, at->draft.taps[0], at->draft.taps[1],
        at->draft.taps[2], at->draft.taps[4], at->draft.taps_normed, at->draft.target_hidden,
        at->embedding_normed, at->embedding_scale, at->ffn_in_scale, at->ffn_out_scale,
        at->index.top_k, at->latent.kv_rank, at->latent.nope_dim, at->latent.q_rank,
        at->latent.rope_dim, at->latent.rows_paired, at->latent.scale, at->latent.value_dim,
        at->logit_cap, at->logit_scale, at->mamba.conv_bias, at->mamba.head_dim, at->mamba.kernel,
        at->mamba.key_scale, at->mamba.max_step, at->mamba.min_step, at->mamba.n_groups,
        at->mamba.n_heads, at->mamba.norm, at->mamba.proj_bias, at->mamba.query_scale,
        at->mamba.state_dim, at->mamba.step_scale, at->mamba.x_scale, at->mamba.z_scale,
        at->mamba_out_scale, at->max_positions, at->mlp_bias, at->n_conv_taps, at->n_hidden,
        at->n_inputs, at->n_layers, at->n_mtp_layers, at->n_per_layer, at->n_per_layer_vocab,
        at->n_positions_table, at->n_ropes, at->n_token_types, at->n_vocab, at->ngrams.separator,
        at->norm_bias, at->norm_centered, at->norm_eps, at->norm_shifted, at->norm_weightless,
        at->normed_input, at->norms, at->o_bias, at->other_latent.scale, at->plain_mlp, at->qk_norm,
        at->qkv_bias, at->qkv_limit, at->query_growth.beta, at->query_growth.from,
        at->residual_scale, at->routing.biased, at->routing.corrected, at->routing.groups_by_best,
        at->routing.law, at->routing.n_always, at->routing.n_groups, at->routing.n_groups_used,
        at->routing.norm, at->routing.norm_eps, at->routing.scale, at->routing.shared_half,
        at->shared_gate, at->short_conv.bias, at->short_conv.kernel, at->tied, at->tied_stated,
        at->v_norm);
}

static double expected_value(const char *word)
{
    char *end;
    double value = strtod(word, &end);

    return *end == '\0'
               ? value
               : FIND(word, SP_DRAFT_DFLASH, SP_DRAFT_DFLASH2, SP_DRAFT_DSPARK, SP_DRAFT_EAGLE3,
                      SP_DRAFT_PEAGLE, SP_GELU_ERF, SP_GELU_TANH, SP_MAMBA_GATED,
                      SP_MAMBA_GATED_NORM, SP_MAMBA_NORM_GATED, SP_MARKOV_GATED, SP_MARKOV_RNN,
                      SP_MARKOV_VANILLA, SP_MIXER_MAMBA, SP_NORM_PARALLEL, SP_NORM_POST,
                      SP_NORM_PRE, SP_NORM_SANDWICH, SP_NORM_TWIN, SP_QK_HEADS, SP_QK_OWN,
                      SP_QK_PLAIN, SP_QK_ROTATED, SP_QK_WHOLE, SP_RELU2, SP_ROPE_DEFAULT,
                      SP_ROPE_DYNAMIC, SP_ROPE_LINEAR, SP_ROPE_LLAMA3, SP_ROPE_LONGROPE,
                      SP_ROPE_NTK_ALPHA, SP_ROPE_PROPORTIONAL, SP_ROPE_YARN, SP_ROUTE_SIGMOID,
                      SP_ROUTE_SIGMOID_CHOSEN, SP_ROUTE_SOFTMAX, SP_ROUTE_SOFTMAX_CHOSEN, SP_SILU,
                      SP_SWIGLU_CLAMPED, SP_TAP_EMBEDDING);
}

/* ---- a config and what is stated of it ---- */

struct section {
    const char *head;
    struct sp_config c;
    char *warnings;
    enum sp_status st;
    struct sp_err err;
    bool is_refused; /* as stated */
};

/* False if the file of another repository is not there. */
static bool begin(struct section *s, char *head)
{
    size_t size = strlen(head);
    const char *text = head;

    *s = (struct section){.head = head};
    if (*head == '[') {
        head[size - 1] = '\0';
        text = golden_file(strncmp(head, "[../", 4) == 0
                               ? keep_format(SHARED "/%s/config.json", head + 4)
                               : keep_format(TESTDATA "/config/%s.json", head + 1),
                           &size);
        if (text == NULL) return false;
    }
    s->st = sp_config_parse(&s->c, text, size, &s->warnings, &s->err);
    return true;
}

static void end(struct section *s)
{
    if (s->head && s->st && !s->is_refused) fail_msg("%s: %s", s->head, s->err.text);
    sp_config_release(&s->c);
    free(s->warnings);
    *s = (struct section){.head = NULL};
}

static void check_refusal(struct section *s, const char *status, const char *sentence)
{
    s->is_refused = true;
    if ((int)s->st != atoi(status) || strcmp(s->err.text, sentence) != 0)
        fail_msg("%s: %d \"%s\", expected %s", s->head, (int)s->st, s->err.text, sentence);
}

/* The letters of "mixers", or of "kinds". */
static const char *describe_layers(const struct sp_config *c, bool kinds)
{
    static const char letters[] = {[0] = '-',
                                   [SP_MIXER_ATTENTION] = 'A',
                                   [SP_MIXER_DELTA_NET] = 'D',
                                   [SP_MIXER_SHORT_CONV] = 'C',
                                   [SP_MIXER_MAMBA] = 'M'};
    char text[256], *at = text;

    for (const struct sp_layer_config *l = c->layers; l < c->layers + c->n_layers; l++) {
        *at++ = letters[l->mixers];
        if (kinds && l->n_experts) *at++ = '+';
        if (kinds && l->shares_index) *at++ = '=';
    }
    *at = '\0';
    return keep_format("%s", text);
}

static void check_text(const struct section *s, const char *what, const char *expected)
{
    const char *found = *what == 'f'   ? s->c.family
                        : *what == 'w' ? (s->warnings ? s->warnings : "")
                                       : describe_layers(&s->c, *what == 'k');

    if (strcmp(found, expected) != 0)
        fail_msg("%s: %s \"%s\", expected \"%s\"", s->head, what, found, expected);
}

/* "member value", or "layers.member value value ..." */
static void check_member(const struct section *s, char *pair)
{
    char *rest, *name = strtok_r(pair, " ", &rest);
    bool all = strncmp(name, "layers.", 7) == 0;
    unsigned i = 0;

    for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL; i++) {
        assert_true(i < (all ? s->c.n_layers : 1));
        double found = all ? layer_value(&s->c.layers[i], name + 7) : config_value(&s->c, name);
        if (!config_is_near(found, expected_value(word)))
            fail_msg("%s: %s is %.12g, expected %s", s->head, name, found, word);
    }
    assert_int_equal(i, all ? s->c.n_layers : 1);
}

static void check_line(struct section *s, char *line)
{
    char *rest, *comment = strstr(line, "  # "), *value = strchr(line, ' ') + 1;
    static const char *const texts[] = {"family ", "warnings ", "mixers ", "kinds "};

    if (comment) *comment = '\0';
    if (strncmp(line, "refused ", 8) == 0) {
        check_refusal(s, value, strchr(value, ' ') + 1);
        return;
    }
    assert_int_equal(s->st, SP_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strncmp(line, texts[i], strlen(texts[i])) != 0) continue;
        check_text(s, line, value);
        return;
    }
    for (char *pair = strtok_r(line, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest))
        check_member(s, pair);
}

TEST(values)
{
    size_t size, n = 0;
    char *rest, *text = golden_file(TESTDATA "/config/expected.txt", &size);
    struct section s = {.head = NULL};
    bool is_there = false;

    assert_non_null(text);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (*line == '#') continue;
        if (*line == '[' || *line == '{') {
            end(&s);
            is_there = begin(&s, line);
            n++;
        } else if (is_there) {
            check_line(&s, line);
        }
    }
    end(&s);
    assert_true(n > 150);
}
