/* format/config/config.h: drafts, and values that follow from tensors. Expected numbers are read by
 * hand from a config.json or computed by hand from a published formula. */
#include "format/config/config.h"
#include "format/family/config_settle.h"
#include "tests/support/config_checks.h"
#include "tests/support/unit_test.h"

/* Tensors determine whether norms include the 1, as mlx stores them, and that a prediction head has
 * one more attention layer. */
TEST(qwen3_5_values_from_tensors)
{
    struct sp_tables found = {.embedding = true, .head = true, .conv_taps = 3};
    struct sp_config *c = config_read_testdata("qwen3_5_text", NULL);

    assert_ok(sp_config_settle(c, &found, why));
    assert_true(c->norm_shifted && !c->delta.converted);
    found.conv_taps = 1;
    assert_ok(sp_config_settle(c, &found, why));
    assert_true(!c->norm_shifted && c->delta.converted);

    c = config_read_testdata("qwen3_5_text", NULL);
    found = (struct sp_tables){.fc_cols = 64, .mtp = true, .mtp_ffn = true};
    assert_ok(sp_config_settle(c, &found, why));
    config_assert_numbers(c->draft.kind, SP_DRAFT_MTP, c->n_layers, 1, c->layers[0].mixers,
                          SP_MIXER_ATTENTION, c->layers[0].kv_source, 0, c->layers[0].n_ffn, 48);
    assert_true(c->draft.borrows_tables && c->layers[0].output_gate);

    c = config_read_testdata("qwen3_5_text", NULL);
    found.mtp_ffn = false;
    assert_ok(sp_config_settle(c, &found, why));
    assert_int_equal(c->layers[0].n_ffn, 0);

    c = config_read_testdata("qwen3_5_text", NULL);
    found.fc_cols = 96;
    assert_fails_as(sp_config_settle(c, &found, why), SP_E_INPUT,
                    "mtp: fc is [.., 96], expected [32,64]");
    found.fc_cols = 64;
    found.embedding = true;
    assert_fails_as(sp_config_settle(c, &found, why), SP_E_UNSUPPORTED,
                    "mtp: dedicated embeddings not supported");

    /* A tensor of a prediction head in a family without one. */
    c = config_read_testdata("mixtral", NULL);
    found.embedding = false;
    assert_fails(sp_config_settle(c, &found, why), SP_E_INPUT, "");
}

TEST(dflash)
{
    char *warnings = NULL;
    struct sp_config *c = config_read_testdata("dflash_root", NULL);

    config_assert_numbers(c->draft.kind, SP_DRAFT_DFLASH, c->draft.block_size, 8,
                          c->draft.mask_token, 96, c->draft.n_taps, 3, c->draft.taps[1], 3,
                          c->draft.n_target_layers, 6, c->draft.target_hidden, 32);
    assert_true(c->qk_norm && c->draft.borrows_tables);
    assert_false(c->layers[0].causal || c->layers[1].causal);

    /* The nested value is used. Unknown members that are set cause a warning. */
    c = config_read_testdata("dflash_nested", &warnings);
    config_assert_numbers(c->draft.block_size, 16, c->draft.n_target_layers, 6, c->logit_cap, 20);
    assert_true(c->layers[0].causal && c->layers[1].causal);
    assert_string_equal(warnings, "dflash_config.something_new has no effect");

    c = config_read_testdata("dflash_sliding", NULL);
    config_assert_windows(c, "6,0");
    assert_true(c->layers[0].causal && !c->layers[1].causal);

    c = config_read_testdata("dflash_is_causal", NULL);
    assert_false(c->layers[0].causal || c->layers[1].causal);
}

/* In the speculators library taps are inputs of layers, windows end at the block, and members that
 * its classes omit have Qwen3's values. */
TEST(dflash_of_speculators)
{
    struct sp_config *c = config_read_testdata("dflash_speculators", NULL);

    assert_int_equal(c->draft.kind, SP_DRAFT_DFLASH);
    assert_string_equal(c->family, "qwen3");
    config_assert_numbers(c->n_vocab, 97, c->draft.n_head_rows, 40, c->draft.block_size, 8,
                          c->draft.first_row, 1, c->draft.mask_token, 96, c->draft.n_taps, 3);
    assert_true(c->draft.taps[0] == SP_TAP_EMBEDDING);
    config_assert_numbers(c->draft.taps[1], 1, c->draft.taps[2], 5, c->draft.target_hidden, 32);
    assert_true(c->qk_norm && c->draft.borrows_tables && c->draft.raw_embeddings);
    config_assert_numbers(c->layers[0].head_dim, 128, c->ropes[0].theta, 10000);
    config_assert_windows(c, "6,0");
    assert_true(c->layers[0].window_before && c->layers[0].causal);
    assert_false(c->layers[1].window_before || c->layers[1].causal);

    /* All layers use the rotation of sliding layers. */
    c = config_read_testdata("dflash_speculators_anchored", NULL);
    config_assert_numbers(c->draft.block_size, 1, c->draft.first_row, 0, c->draft.n_head_rows, 0,
                          c->draft.target_hidden, 24);
    assert_false(c->layers[0].causal || c->layers[1].causal);
    config_assert_numbers(c->n_ropes, 1, c->ropes[0].theta, 5000);

    c = config_read_testdata("dflash_speculators_older", NULL);
    assert_int_equal(c->draft.first_row, 1);
    assert_true(c->layers[0].causal && !c->layers[1].causal);

    /* z-lab's format has none of these members. */
    c = config_read_testdata("dflash_sliding", NULL);
    assert_false(c->draft.raw_embeddings || c->layers[0].window_before);
}

/* The defaults of the speculators library's DFlash2 class, followed by a config that states other
 * values. */
TEST(dflash2_of_speculators)
{
    struct sp_config *c = config_read_testdata("dflash2_speculators", NULL);

    config_assert_numbers(c->draft.kind, SP_DRAFT_DFLASH2, c->draft.block_size, 8,
                          c->draft.first_row, 1, c->draft.n_taps, 3);
    assert_true(c->draft.taps[0] == SP_TAP_EMBEDDING);
    config_assert_numbers(c->draft.taps[2], 5, c->n_conv_taps, 2, c->conv_group, 16,
                          c->draft.selector_rank, 256, c->draft.selector_top_k, 16);
    assert_true(c->draft.raw_embeddings && c->layers[0].window_before);
    config_assert_windows(c, "6,0");
    assert_false(c->layers[0].causal || c->layers[1].causal);

    c = config_read_testdata("dflash2_speculators_anchored", NULL);
    config_assert_numbers(c->draft.first_row, 0, c->n_conv_taps, 3, c->conv_group, 8,
                          c->draft.selector_rank, 12, c->draft.selector_top_k, 5);
    assert_true(c->layers[0].causal && !c->layers[1].causal);
}

/* A block whose anchor row drafts too, with both heads. */
TEST(dspark)
{
    char *warnings = NULL;
    struct sp_config *c = config_read_testdata("dspark_gated", NULL);

    config_assert_numbers(c->draft.kind, SP_DRAFT_DSPARK, c->draft.block_size, 7,
                          c->draft.first_row, 0, c->draft.n_taps, 3);
    assert_true(c->draft.taps[0] == SP_TAP_EMBEDDING);
    assert_int_equal(sp_tap_number(c->draft.taps[0]), -1);
    config_assert_numbers(c->draft.taps[1], 2, c->draft.dspark.rank, 8, c->draft.dspark.markov,
                          SP_MARKOV_GATED);
    assert_string_equal(sp_markov_name(&c->draft.dspark), "gated");
    assert_true(c->draft.dspark.confidence && c->draft.dspark.confidence_markov);
    assert_false(c->layers[0].causal || c->layers[1].causal || c->draft.rows_paired);

    /* The format that Liquid AI releases. */
    c = config_read_testdata("lfm2_dspark", NULL);
    config_assert_numbers(c->draft.kind, SP_DRAFT_DSPARK, c->draft.block_size, 9,
                          c->draft.first_row, 0, c->draft.n_taps, 5, c->draft.taps[4], 14,
                          c->draft.n_target_layers, 16, c->draft.mask_token, 95);
    assert_true(c->draft.rows_paired && c->draft.borrows_tables);
    assert_true(c->draft.dspark.confidence && c->draft.dspark.confidence_markov);
    assert_false(c->layers[0].causal);

    /* The name that DeepSpec uses: dflash_*_block7. */
    c = config_read_testdata("dspark_no_heads", NULL);
    config_assert_numbers(c->draft.kind, SP_DRAFT_DSPARK, c->draft.block_size, 1,
                          c->draft.dspark.rank, 0);
    assert_string_equal(sp_markov_name(&c->draft.dspark), "none");
    assert_false(c->draft.dspark.confidence || c->draft.dspark.confidence_markov);

    /* The format that SpecForge writes. */
    c = config_read_testdata("dspark_nested", &warnings);
    config_assert_numbers(c->draft.kind, SP_DRAFT_DSPARK, c->draft.mask_token, 95, c->draft.taps[1],
                          5, c->draft.dspark.rank, 12, c->draft.dspark.markov, SP_MARKOV_RNN);
    assert_true(c->draft.dspark.confidence);
    assert_false(c->draft.dspark.confidence_markov);
    assert_string_equal(warnings, "dflash_config.attention_mode has no effect");
}

/* In the speculators library both heads exist unless the config states otherwise. */
TEST(dspark_of_speculators)
{
    struct sp_config *c = config_read_testdata("dspark_speculators", NULL);

    config_assert_numbers(c->draft.kind, SP_DRAFT_DSPARK, c->draft.n_head_rows, 40,
                          c->draft.first_row, 0, c->draft.dspark.rank, 256, c->draft.dspark.markov,
                          SP_MARKOV_VANILLA);
    assert_true(c->draft.dspark.confidence && c->draft.dspark.confidence_markov);
    assert_true(c->draft.taps[0] == SP_TAP_EMBEDDING && c->draft.raw_embeddings);
    assert_int_equal(c->draft.taps[2], 5);
    assert_true(c->layers[0].causal && c->layers[0].window_before && !c->layers[1].causal);

    c = config_read_testdata("dspark_speculators_unanchored", NULL);
    config_assert_numbers(c->draft.first_row, 1, c->draft.dspark.rank, 12, c->draft.dspark.markov,
                          SP_MARKOV_RNN);
    assert_false(c->draft.dspark.confidence);
}

TEST(default_taps)
{
    static const struct {
        unsigned n_layers, n;
        const char *taps;
    } cases[] = {
        {11, 3, "1 4 8"},
        {14, 5, "1 4 6 8 11"},
        {28, 5, "1 7 13 19 25"},
        {32, 5, "1 8 15 22 29"},
        {36, 5, "1 9 17 25 33"},
        {40, 5, "1 10 19 28 37"},
        {48, 5, "1 12 23 34 45"},
        {52, 5, "1 13 25 37 49"},
        {60, 6, "1 12 23 35 46 57"},
        {64, 5, "1 16 31 46 61"},
        {28, 1, "14"},
        {5, 2, "1 2"},
    };
    struct sp_config *c;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64] = "";
        c = config_read_testdata("dflash_default_taps", NULL);
        assert_int_equal(c->draft.n_taps, 0);
        c->draft.n_target_layers = cases[i].n_layers;
        assert_ok(sp_config_settle(c, &(struct sp_tables){.fc_cols = 32 * cases[i].n}, NULL));
        for (unsigned k = 0; k < c->draft.n_taps; k++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), k ? " %u" : "%u",
                     c->draft.taps[k]);
        }
        assert_string_equal(text, cases[i].taps);
    }
    c = config_read_testdata("dflash_default_taps", NULL);
    assert_fails_as(sp_config_settle(c, &(struct sp_tables){.fc_cols = 32 * 12}, why), SP_E_INPUT,
                    "dflash fc reads 12 layers, which has no default for 14 target layers");
    assert_fails_as(sp_config_settle(c, &(struct sp_tables){.fc_cols = 100}, why), SP_E_INPUT,
                    "dflash fc input 100 != 3 ids * target hidden 32");
}

TEST(eagle3)
{
    /* Tap 0 is the input of layer 0, the embeddings; tap j is the output of layer j - 1. */
    struct sp_config *c = config_read_testdata("eagle3_speculators", NULL);
    assert_int_equal(c->draft.kind, SP_DRAFT_EAGLE3);
    assert_string_equal(c->family, "qwen3");
    assert_true(c->qk_norm && c->layers[0].reads_pair);
    config_assert_numbers(c->draft.n_head_rows, 40, c->n_vocab, 97, c->draft.target_hidden, 24,
                          c->draft.n_taps, 3);
    assert_true(c->draft.taps[0] == SP_TAP_EMBEDDING);
    config_assert_numbers(c->draft.taps[1], 1, c->draft.taps[2], 5);
    assert_true(c->draft.normed_residual && c->draft.taps_normed && c->draft.normed_output);
    assert_false(c->draft.features_normed);

    c = config_read_testdata("eagle3_outputs", NULL);
    config_assert_numbers(c->draft.n_taps, 5, c->draft.taps[0], 1, c->draft.taps[4], 9);
}

/* The first of any number of layers reads pairs. Windows are those of a language model. */
TEST(peagle)
{
    struct sp_config *c = config_read_testdata("peagle_speculators", NULL);

    assert_int_equal(c->draft.kind, SP_DRAFT_PEAGLE);
    assert_string_equal(c->family, "qwen3");
    assert_int_equal(c->n_layers, 3);
    assert_true(c->layers[0].reads_pair && !c->layers[1].reads_pair && !c->layers[2].reads_pair);
    config_assert_windows(c, "0,6,0");
    assert_true(c->layers[0].causal && c->layers[1].causal && !c->layers[1].window_before);
    config_assert_numbers(c->draft.block_size, 6, c->draft.first_row, 0, c->draft.mask_token, 96,
                          c->draft.n_head_rows, 40, c->draft.target_hidden, 32, c->draft.n_taps, 3);
    assert_true(c->draft.taps[0] == SP_TAP_EMBEDDING);
    assert_int_equal(c->draft.taps[2], 5);
    assert_true(c->draft.normed_residual && c->draft.features_normed && !c->draft.taps_normed);
}

/* EAGLE-3's default taps are the inputs of layers 2, N / 2 and N - 3. */
TEST(eagle3_default_taps)
{
    static const struct {
        unsigned n_layers, taps[3];
    } cases[] = {{32, {1, 15, 28}}, {28, {1, 13, 24}}, {7, {1, 2, 3}}};
    struct sp_tables found = {.head = true, .fc_cols = 96, .d2t = true};
    struct sp_config *c, target = {.n_layers = 5};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        c = config_read_testdata("eagle3_root", NULL);
        assert_int_equal(c->draft.n_taps, 0);
        assert_ok(sp_config_settle(c, &found, NULL));
        assert_int_equal(c->draft.n_taps, 3);
        assert_true(c->draft.borrows_tables && c->draft.maps_tokens);
        target.n_layers = cases[i].n_layers;
        assert_ok(sp_config_fit_target(c, &target, NULL));
        assert_memory_equal(c->draft.taps, cases[i].taps, sizeof cases[i].taps);
    }
    c = config_read_testdata("eagle3_root", NULL);
    assert_ok(sp_config_settle(c, &found, NULL));
    target.n_layers = 5;
    assert_fails_as(sp_config_fit_target(c, &target, why), SP_E_INPUT,
                    "eagle3 fc reads 3 layers, which has no default for 5 target layers");

    c = config_read_testdata("eagle3_root", NULL);
    found.d2t = false;
    assert_fails_as(sp_config_settle(c, &found, why), SP_E_INPUT,
                    "eagle3 draft vocab 40 != target vocab 97 and no d2t");
    found.fc_cols = 40;
    assert_fails_as(sp_config_settle(c, &found, why), SP_E_INPUT,
                    "eagle3 fc input 40 != 1 ids * target hidden 32");
}
