/* format/family/family.h: drafts in checkpoints of their own, listed tensor by tensor. */
#include "format/family/family.h"
#include "tests/support/tensor_match.h"
#include "tests/support/unit_test.h"

#define DFLASH(more)                                                                               \
    "{\"architectures\": [\"DFlashDraftModel\"], \"block_size\": 4, \"mask_token_id\": 7, "        \
    "\"num_target_layers\": 6, \"target_layer_ids\": [1, 3]" more ", " SIZES "}"
#define DFLASH_BODY(p)                                                                             \
    BODY(p)                                                                                        \
    ", " p "fc.weight 4 8, " p "hidden_norm.weight 4, " p "layers.0.self_attn.q_norm.weight 2, " p \
    "layers.0.self_attn.k_norm.weight 2"

#define DFLASH2                                                                                    \
    "{\"architectures\": [\"DFlash2DraftModel\"], \"block_size\": 4, \"mask_token_id\": 7, "       \
    "\"target_layer_ids\": [1, 3], \"conv_group_size\": 2, \"selector_top_k\": 4, " SIZES "}"

TEST(dflash)
{
    static const char *const lists[] = {DFLASH_BODY(""), DFLASH_BODY("model.")};
    struct match *m;

    for (int i = 0; i < 2; i++) {
        m = match_accepted(DFLASH(""), lists[i]);
        assert_int_equal(m->specs.n_specs, 14);
        assert_true(m->config.draft.borrows_tables);
        assert_int_equal(sp_specs_find(&m->specs, "fc.weight")->role, SP_ROLE_FEATURE);
    }
    /* The draft has two tables of its own, or one for both where its config ties them. */
    m = match_accepted(DFLASH(""), DFLASH_BODY("") ", embed_tokens.weight 8 4, lm_head.weight 8 4");
    assert_int_equal(m->specs.n_specs, 16);
    assert_false(m->config.draft.borrows_tables || m->config.tied);
    m = match_accepted(DFLASH(", \"tie_word_embeddings\": true"),
                       DFLASH_BODY("") ", embed_tokens.weight 8 4");
    assert_int_equal(m->specs.n_specs, 15);
    assert_true(m->config.tied && !m->config.draft.borrows_tables);
}

#define SPECULATORS_DFLASH                                                                         \
    "{\"architectures\": [\"DFlashDraftModel\"], \"speculators_model_type\": \"dflash\", "         \
    "\"block_size\": 4, \"mask_token_id\": 7, \"aux_hidden_state_layer_ids\": [1, 3], "            \
    "\"draft_vocab_size\": 5, \"transformer_layer_config\": {" SIZES "}}"

/* A vocabulary of its own, without and with an embedding of its own. */
TEST(dflash_of_speculators)
{
    struct match *m =
        match_accepted(SPECULATORS_DFLASH, DFLASH_BODY("") ", lm_head.weight 5 4, d2t 5, t2d 8");
    assert_int_equal(m->specs.n_specs, 16);
    assert_int_equal(m->n_skipped, 1);
    assert_true(m->config.draft.borrows_tables && m->config.draft.owns_head);
    assert_true(m->config.draft.maps_tokens && !m->config.tied);
    assert_int_equal(sp_specs_find(&m->specs, "lm_head.weight")->shape[0], 5);
    assert_int_equal(sp_specs_find(&m->specs, "d2t")->role, SP_ROLE_INDEX);
    m = match_accepted(SPECULATORS_DFLASH,
                       DFLASH_BODY("") ", embed_tokens.weight 8 4, lm_head.weight 5 4, d2t 5");
    assert_int_equal(m->specs.n_specs, 17);
    assert_false(m->config.draft.borrows_tables);

    match_assert_refused(SPECULATORS_DFLASH, DFLASH_BODY("") ", lm_head.weight 5 4", SP_E_INPUT,
                         "dflash draft vocab 5 != target vocab 8 and no d2t");
    match_assert_refused(SPECULATORS_DFLASH, DFLASH_BODY("") ", d2t 5", SP_E_INPUT,
                         "missing tensor \"lm_head.weight\", which goes with d2t");
    match_assert_refused(SPECULATORS_DFLASH, DFLASH_BODY("") ", lm_head.weight 8 4, d2t 5",
                         SP_E_INPUT, "tensor \"lm_head.weight\" has shape [8, 4], expected [5, 4]");
    match_assert_refused(SPECULATORS_DFLASH,
                         DFLASH_BODY("") ", lm_head.weight 5 4, d2t 5, verifier 4", SP_E_INPUT,
                         "unexpected tensor \"verifier\"");
}

TEST(dflash_refusals)
{
    match_assert_refused(DFLASH(""), BODY(""), SP_E_INPUT, "missing tensor \"fc.weight\"");
    match_assert_refused(DFLASH(""), BODY("") ", fc.weight 4 12", SP_E_INPUT,
                         "dflash fc input 12 != 2 ids * target hidden 4");
    match_assert_refused(DFLASH(""), BODY("") ", fc.weight 4 9", SP_E_INPUT,
                         "dflash fc input 9 != 2 ids * target hidden 4");
    match_assert_refused(DFLASH(""), BODY("") ", fc.weight 8", SP_E_INPUT,
                         "tensor \"fc.weight\" is not a matrix");
    match_assert_refused(DFLASH(""), DFLASH_BODY("") ", embed_tokens.weight 8 4", SP_E_UNSUPPORTED,
                         "dflash: embed_tokens.weight without lm_head.weight is not supported");
    match_assert_refused(DFLASH(""), DFLASH_BODY("") ", markov_head.markov_w1.weight 8 2",
                         SP_E_INPUT,
                         "tensor \"markov_head.markov_w1.weight\" belongs to a DSpark draft, but "
                         "architecture is \"DFlashDraftModel\"");
    match_assert_refused(DFLASH(""), DFLASH_BODY("") ", mask_embedding 4", SP_E_INPUT,
                         "unexpected tensor \"mask_embedding\"");
}

#define DSPARK(more)                                                                               \
    "{\"architectures\": [\"Qwen3DSparkModel\"], \"block_size\": 1, \"mask_token_id\": 7, "        \
    "\"num_target_layers\": 6, \"target_layer_ids\": [-1, 3], " more SIZES "}"
#define DSPARK_BODY(p) DFLASH_BODY(p) ", " p "embed_tokens.weight 8 4, " p "lm_head.weight 8 4"
#define MARKOV(p) ", " p "markov_head.markov_w1.weight 8 3, " p "markov_head.markov_w2.weight 8 3"

static void assert_shape_of(const struct sp_specs *specs, const char *name, enum sp_role role,
                            uint64_t rows, uint64_t cols)
{
    const struct sp_tensor_spec *spec = sp_specs_find(specs, name);

    assert_non_null(spec);
    assert_int_equal(spec->role, role);
    assert_int_equal(spec->shape[0], rows);
    if (cols) assert_int_equal(spec->shape[1], cols);
}

/* Exactly the heads that the config states. */
TEST(dspark)
{
    static const struct {
        const char *config, *tensors;
        size_t n_specs;
    } cases[] = {
        {DSPARK("\"markov_rank\": 0, "), DSPARK_BODY(""), 16},
        {DSPARK(""), DSPARK_BODY("model."), 16},
        {DSPARK("\"markov_rank\": 3, "), DSPARK_BODY("") MARKOV(""), 18},
        {DSPARK("\"markov_rank\": 3, \"markov_head_type\": \"gated\", "),
         DSPARK_BODY("model.") MARKOV("model.") ", model.markov_head.gate_proj.weight 3 7, "
                                                "model.markov_head.gate_proj.bias 3",
         20},
        {DSPARK("\"markov_rank\": 3, \"markov_head_type\": \"rnn\", "
                "\"enable_confidence_head\": true, \"confidence_head_with_markov\": true, "),
         DSPARK_BODY("") MARKOV("") ", markov_head.joint_proj.weight 9 10, "
                                    "markov_head.joint_proj.bias 9, "
                                    "confidence_head.proj.weight 1 7, confidence_head.proj.bias 1",
         22},
        {DSPARK("\"enable_confidence_head\": true, "),
         DSPARK_BODY("") ", confidence_head.proj.weight 1 4, confidence_head.proj.bias 1", 18},
    };
    struct match *m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        m = match_accepted(cases[i].config, cases[i].tensors);
        assert_int_equal(m->specs.n_specs, cases[i].n_specs);
        assert_false(m->config.draft.borrows_tables || m->config.tied);
        if (i == 4) {
            assert_shape_of(&m->specs, "markov_head.markov_w1.weight", SP_ROLE_CODEBOOK, 8, 3);
            assert_shape_of(&m->specs, "markov_head.markov_w2.weight", SP_ROLE_HEAD, 8, 3);
            assert_shape_of(&m->specs, "markov_head.joint_proj.weight", SP_ROLE_GATE, 9, 10);
            assert_shape_of(&m->specs, "confidence_head.proj.weight", SP_ROLE_GATE, 1, 7);
            assert_shape_of(&m->specs, "confidence_head.proj.bias", SP_ROLE_BIAS, 1, 0);
        }
    }
}

#define SPECULATORS_DSPARK                                                                         \
    "{\"architectures\": [\"DSparkDraftModel\"], \"speculators_model_type\": \"dspark\", "         \
    "\"block_size\": 4, \"mask_token_id\": 7, \"aux_hidden_state_layer_ids\": [1, 3], "            \
    "\"draft_vocab_size\": 5, \"sample_from_anchor\": true, \"markov_rank\": 3, "                  \
    "\"transformer_layer_config\": {" SIZES "}}"

/* The Markov head reads the target's vocabulary and writes the draft's. */
TEST(dspark_of_speculators)
{
    struct match *m = match_accepted(
        SPECULATORS_DSPARK,
        DFLASH_BODY("") ", lm_head.weight 5 4, d2t 5, t2d 8, markov_head.markov_w1.weight 8 3, "
                        "markov_head.markov_w2.weight 5 3, confidence_head.proj.weight 1 7, "
                        "confidence_head.proj.bias 1");

    assert_int_equal(m->specs.n_specs, 20);
    assert_true(m->config.draft.borrows_tables && m->config.draft.maps_tokens);
    match_assert_refused(
        SPECULATORS_DSPARK,
        DFLASH_BODY("") ", lm_head.weight 5 4, d2t 5" MARKOV(
            "") ", confidence_head.proj.weight 1 7, confidence_head.proj.bias 1",
        SP_E_INPUT, "tensor \"markov_head.markov_w2.weight\" has shape [8, 3], expected [5, 3]");
}

TEST(dspark_refusals)
{
    match_assert_refused(DSPARK("\"markov_rank\": 3, "), DSPARK_BODY(""), SP_E_INPUT,
                         "missing tensor \"markov_head.markov_w1.weight\" [8, 3]; missing tensor "
                         "\"markov_head.markov_w2.weight\" [8, 3]");
    match_assert_refused(
        DSPARK("\"markov_rank\": 2, "), DSPARK_BODY("") MARKOV(""), SP_E_INPUT,
        "tensor \"markov_head.markov_w1.weight\" has shape [8, 3], expected [8, 2]; "
        "tensor \"markov_head.markov_w2.weight\" has shape [8, 3], expected [8, 2]");
    match_assert_refused(DSPARK(""), DSPARK_BODY("") ", markov_head.markov_w1.weight 8 3",
                         SP_E_INPUT, "unexpected tensor \"markov_head.markov_w1.weight\"");
    match_assert_refused(
        DSPARK("\"markov_rank\": 3, \"enable_confidence_head\": true, "),
        DSPARK_BODY("") MARKOV("") ", confidence_head.proj.weight 1 4, confidence_head.proj.bias 1",
        SP_E_INPUT, "tensor \"confidence_head.proj.weight\" has shape [1, 4], expected [1, 7]");
}

#define EAGLE3(more)                                                                               \
    "{\"architectures\": [\"LlamaForCausalLMEagle3\"], \"model_type\": \"llama\", "                \
    "\"draft_vocab_size\": 5, \"eagle_aux_hidden_state_layer_ids\": [1, 2]" more ", " SIZES "}"
/* hidden size 4, vocabulary 8, layer `l` */
#define EAGLE3_LAYER(l)                                                                            \
    l "input_layernorm.weight 4, " l "hidden_norm.weight 4, " l                                    \
      "post_attention_layernorm.weight 4, " l "self_attn.q_proj.weight 4 8, " l                    \
      "self_attn.k_proj.weight 2 8, " l "self_attn.v_proj.weight 2 8, " l                          \
      "self_attn.o_proj.weight 4 4, " l "mlp.gate_proj.weight 6 4, " l                             \
      "mlp.up_proj.weight 6 4, " l "mlp.down_proj.weight 4 6"
#define EAGLE3_REST "fc.weight 4 8, norm.weight 4, lm_head.weight 5 4"

TEST(eagle3)
{
    /* A layer with its older name, a draft vocabulary, and separate norms of the taps. */
    struct match *m = match_accepted(
        EAGLE3(", \"fc_norm\": true"),
        EAGLE3_LAYER("midlayer.") ", " EAGLE3_REST ", d2t 5, t2d 8, fc_norm.0.weight 4, "
                                  "fc_norm.1.weight 4");
    assert_int_equal(m->specs.n_specs, 15);
    assert_int_equal(m->n_skipped, 1);
    assert_true(m->config.draft.borrows_tables && m->config.draft.maps_tokens);
    match_assert_spans(m, "layers.0.self_attn.q_proj.weight",
                       "midlayer.self_attn.q_proj.weight 0:1:4x8");
    match_assert_spans(m, "fc_norm.weight", "fc_norm.0.weight 0:1:1x4, fc_norm.1.weight 0:1:1x4");
    assert_int_equal(sp_specs_find(&m->specs, "d2t")->role, SP_ROLE_INDEX);

    m = match_accepted(EAGLE3(""), EAGLE3_LAYER("layers.0.") ", " EAGLE3_REST
                                                             ", d2t 5, embed_tokens.weight 8 4");
    assert_int_equal(m->specs.n_specs, 15);
    assert_false(m->config.draft.borrows_tables);

    match_assert_refused(EAGLE3(""), EAGLE3_LAYER("layers.0.") ", " EAGLE3_REST, SP_E_INPUT,
                         "eagle3 draft vocab 5 != target vocab 8 and no d2t");
    match_assert_refused(EAGLE3(", \"draft_vocab_size\": 8"),
                         EAGLE3_LAYER("layers.0.") ", fc.weight 4 8, norm.weight 4, "
                                                   "embed_tokens.weight 8 4",
                         SP_E_INPUT, "missing tensor \"lm_head.weight\" [8, 4]");
    match_assert_refused(EAGLE3(""),
                         EAGLE3_LAYER("layers.0.") ", norm.weight 4, lm_head.weight 5 4, d2t 5",
                         SP_E_INPUT, "missing tensor \"fc.weight\"");
    match_assert_refused(EAGLE3(""),
                         EAGLE3_LAYER("layers.0.") ", d2t 5, fc.weight 4 12, norm.weight 4, "
                                                   "lm_head.weight 5 4",
                         SP_E_INPUT, "eagle3 fc input 12 != 2 ids * target hidden 4");
    match_assert_refused(EAGLE3(""), EAGLE3_LAYER("layers.0.") ", " EAGLE3_REST ", d2t 6",
                         SP_E_INPUT, "tensor \"d2t\" has shape [6], expected [5]");
    match_assert_refused(DFLASH2, DFLASH_BODY("") ", d2t 5", SP_E_INPUT,
                         "tensor \"d2t\" belongs to an EAGLE-3, P-EAGLE, DFlash or DSpark "
                         "draft, but architecture is \"DFlash2DraftModel\"");
}

#define PEAGLE                                                                                     \
    "{\"architectures\": [\"PEagleDraftModel\"], \"speculators_model_type\": \"peagle\", "         \
    "\"draft_vocab_size\": 5, \"mask_token_id\": 7, \"speculators_config\": "                      \
    "{\"proposal_methods\": [{\"speculative_tokens\": 3}]}, "                                      \
    "\"eagle_aux_hidden_state_layer_ids\": [1, 2], "                                               \
    "\"transformer_layer_config\": {\"model_type\": \"llama\", \"vocab_size\": 8, "                \
    "\"hidden_size\": 4, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "                 \
    "\"head_dim\": 2, \"intermediate_size\": 6, \"num_hidden_layers\": 2}}"
#define PLAIN_LAYER(l)                                                                             \
    l "input_layernorm.weight 4, " l "post_attention_layernorm.weight 4, " l                       \
      "self_attn.q_proj.weight 4 4, " l "self_attn.k_proj.weight 2 4, " l                          \
      "self_attn.v_proj.weight 2 4, " l "self_attn.o_proj.weight 4 4, " l                          \
      "mlp.gate_proj.weight 6 4, " l "mlp.up_proj.weight 6 4, " l "mlp.down_proj.weight 4 6"
#define PEAGLE_BODY                                                                                \
    EAGLE3_LAYER("layers.0.") ", " PLAIN_LAYER("layers.1.") ", " EAGLE3_REST ", d2t 5"

TEST(peagle)
{
    struct match *m =
        match_accepted(PEAGLE, PEAGLE_BODY ", t2d 8, mask_hidden 1 1 8, embed_tokens.weight 8 4");
    assert_int_equal(m->specs.n_specs, 10 + 9 + 6);
    assert_int_equal(m->n_skipped, 1);
    assert_false(m->config.draft.borrows_tables);
    assert_int_equal(sp_specs_find(&m->specs, "mask_hidden")->role, SP_ROLE_SMALL);
    match_assert_spans(m, "mask_hidden", "mask_hidden 0:1:1x8");

    match_assert_refused(PEAGLE, PEAGLE_BODY, SP_E_INPUT,
                         "missing tensor \"mask_hidden\" [1, 1, 8]");
    match_assert_refused(PEAGLE, PEAGLE_BODY ", mask_hidden 1 1 12", SP_E_INPUT,
                         "tensor \"mask_hidden\" has shape [1, 1, 12], expected [1, 1, 8]");
    match_assert_refused(EAGLE3(""),
                         EAGLE3_LAYER("layers.0.") ", " EAGLE3_REST ", d2t 5, mask_hidden 1 8",
                         SP_E_INPUT,
                         "tensor \"mask_hidden\" belongs to a P-EAGLE draft, but architecture is "
                         "\"LlamaForCausalLMEagle3\"");
}
