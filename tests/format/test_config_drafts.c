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
