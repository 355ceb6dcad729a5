/* convert/create/draft_compat.c: every reason why a draft does not fit its target, with its
 * message. */
#include "convert/create/create_job.h"

#include <math.h>

#include "format/family/config_settle.h"
#include "tests/support/config_checks.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

/* Vocabulary 8, hidden size 4, six layers. */
#define TARGET                                                                                     \
    "{\"model_type\": \"qwen3\", \"vocab_size\": 8, \"hidden_size\": 4, "                          \
    "\"num_hidden_layers\": 6, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "           \
    "\"head_dim\": 2, \"intermediate_size\": 6, \"max_position_embeddings\": 64}"
#define DRAFT(v, h, taps, more)                                                                    \
    "{\"architectures\": [\"DFlashDraftModel\"], \"vocab_size\": " v ", \"hidden_size\": " h       \
    ", \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "         \
    "\"head_dim\": 2, \"intermediate_size\": 6, \"block_size\": 4, \"mask_token_id\": 7, "         \
    "\"target_layer_ids\": " taps more "}"
#define SMALL(v, positions, hidden)                                                                \
    "{\"model_type\": \"llama\", \"vocab_size\": " v ", \"hidden_size\": " hidden                  \
    ", \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 6, "           \
    "\"max_position_embeddings\": " positions "}"

#define VOCAB(tokens, merges, added)                                                               \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {" tokens "}, \"merges\": [" merges                \
    "]}, \"added_tokens\": [" added "]}"
#define TOKENS "\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"bc\": 4"
#define MERGES "\"a b\", \"b c\""
#define ADDED(id, text)                                                                            \
    "{\"id\": " id ", \"content\": \"" text "\", \"single_word\": false, \"lstrip\": false, "      \
    "\"rstrip\": false, \"normalized\": false, \"special\": true}"
#define ENDS ADDED("5", "<s>") ", " ADDED("6", "</s>")
#define TOKENIZER VOCAB(TOKENS, MERGES, ENDS)

/* The config of a checkpoint that has these tables; kept. */
static struct sp_config *settled(const char *text, const struct sp_tables *found)
{
    struct sp_config *c = config_parsed(text);

    assert_ok(sp_config_settle(c, found, why));
    return c;
}

/* fc_cols 0: no projection, but an embedding and a head. */
static struct sp_config *parse(const char *text, uint64_t fc_cols)
{
    return settled(text, &(struct sp_tables){
                             .embedding = fc_cols == 0, .head = fc_cols == 0, .fc_cols = fc_cols});
}

static struct sp_draft_compat_side side(const struct sp_config *c, const char *tokenizer,
                                        const char *tokenizer_config)
{
    return (struct sp_draft_compat_side){.config = c,
                                         .tokenizer = whole_text(tokenizer),
                                         .tokenizer_config = whole_text(tokenizer_config)};
}

/* error NULL: the draft fits */
static void check(struct sp_draft_compat_side target, struct sp_draft_compat_side draft,
                  bool same_source, const char *error, const char *expected_notes)
{
    char *warnings = NULL;
    struct sp_vocab_order order;

    assert_fails_as(sp_draft_compat_check(&order, &target, &draft, same_source, &warnings, why),
                    error ? SP_E_INPUT : SP_OK, error ? error : "");
    assert_null(order.rows);
    if (error == NULL) assert_string_equal(warnings ? warnings : "", expected_notes);
    keep(warnings);
}

/* A draft of the speculators library. Its taps are inputs of layers, and the number of layers
 * stands for the output of the last one. */
#define SPECULATOR(ids)                                                                            \
    "{\"speculators_model_type\": \"dflash\", \"block_size\": 4, \"mask_token_id\": 7, "           \
    "\"draft_vocab_size\": 8, \"aux_hidden_state_layer_ids\": " ids                                \
    ", \"transformer_layer_config\": {\"vocab_size\": 8, \"hidden_size\": 4, "                     \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "           \
    "\"head_dim\": 2, \"intermediate_size\": 6}}"

TEST(block_drafts)
{
    static const struct {
        const char *draft;
        uint64_t fc_cols;
        const char *error;
    } cases[] = {
        {DRAFT("8", "4", "[0, 2, 5]", ""), 12, NULL},
        {DRAFT("8", "4", "[1, 3]", ", \"num_target_layers\": 6"), 8, NULL},
        {DRAFT("8", "4", "[1, 3]", ", \"num_target_layers\": 5"), 8,
         "dflash draft trained for 5 target layers, target has 6"},
        {DRAFT("8", "4", "[1, 6]", ""), 8,
         "dflash target layer 6 out of range for 6 target layers"},
        {DRAFT("9", "4", "[1, 3]", ""), 8,
         "dflash draft trained for a 9-token vocabulary, target has 8"},
        {DRAFT("8", "6", "[1, 3]", ""), 12, "dflash draft trained for hidden size 6, target has 4"},
        {DRAFT("8", "4", "[1, 3]", ", \"target_hidden_size\": 5"), 10,
         "dflash fc input 10 != 2 ids * target hidden 4"},
        {SPECULATOR("[0, 6]"), 8, NULL},
        {SPECULATOR("[0, 7]"), 8, "dflash target layer 6 out of range for 6 target layers"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(side(parse(TARGET, 0), TOKENIZER, NULL),
              side(parse(cases[i].draft, cases[i].fc_cols), NULL, NULL), false, cases[i].error, "");
}

/* A mask token that the target's vocabulary lacks, and a draft as the target. */
TEST(wrong_mask_tokens_and_targets)
{
    struct sp_config *d = parse(DRAFT("8", "4", "[1, 3]", ""), 8);
    struct sp_draft_compat_side a = side(parse(TARGET, 0), NULL, NULL), b = side(d, NULL, NULL);

    d->draft.mask_token = 8;
    check(a, b, false, "dflash mask token 8 outside the 8-token vocabulary", NULL);
    check(b, a, false, "target is a draft (DFlashDraftModel), expected a language model", NULL);
}

#define HYBRID(layer, hidden, heads)                                                               \
    "{\"model_type\": \"qwen3_5_text\", \"rope_theta\": 1e4, \"vocab_size\": 8, "                  \
    "\"hidden_size\": " hidden ", \"num_hidden_layers\": 1, \"layer_types\": [\"" layer "\"], "    \
    "\"num_attention_heads\": " heads ", \"num_key_value_heads\": 1, \"head_dim\": 8}"

TEST(built_in_heads)
{
    static const struct {
        const char *target, *error;
    } cases[] = {
        {HYBRID("full_attention", "4", "2"), NULL},
        {HYBRID("full_attention", "4", "4"),
         "mtp: 2 heads and 1 KV heads of size 8, target has 4 and 1 of size 8"},
        {HYBRID("full_attention", "6", "2"), "mtp: hidden size 4, target has 6"},
        {TARGET, "mtp: a head of family qwen3_5_text requires a target of that family, got qwen3"},
    };
    const struct sp_tables found = {.fc_cols = 8, .mtp = true, .mtp_ffn = true};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(side(parse(cases[i].target, 0), TOKENIZER, NULL),
              side(settled(cases[0].target, &found), NULL, NULL), true, cases[i].error, "");
}

#define GEMMA4(hidden, heads, kv_heads, dim, full_dim, types, window)                              \
    "\"model_type\": \"gemma4_text\", \"vocab_size\": 8, \"hidden_size\": " hidden                 \
    ", \"num_hidden_layers\": 2, \"layer_types\": [" types "], \"num_attention_heads\": " heads    \
    ", \"num_key_value_heads\": " kv_heads ", \"head_dim\": " dim                                  \
    ", \"global_head_dim\": " full_dim ", \"intermediate_size\": 6, \"sliding_window\": " window   \
    ", \"max_position_embeddings\": 64, \"hidden_size_per_layer_input\": 0"
#define BOTH "\"sliding_attention\", \"full_attention\""
#define FULL "\"full_attention\", \"full_attention\""
#define ASSISTANT(hidden, text)                                                                    \
    "{\"architectures\": [\"Gemma4AssistantForCausalLM\"], \"backbone_hidden_size\": " hidden      \
    ", \"text_config\": {" text "}}"

TEST(assistants)
{
    static const char plain[] = ASSISTANT("16", GEMMA4("4", "2", "2", "4", "8", BOTH, "5"));
    static const char target[] = "{" GEMMA4("16", "4", "2", "4", "8", BOTH, "5") "}";
    static const struct {
        const char *target, *draft, *error, *warnings;
    } cases[] = {
        {target, plain, NULL, ""},
        {TARGET, plain, "gemma4 assistant requires a gemma4 target, got qwen3", NULL},
        {target, ASSISTANT("12", GEMMA4("4", "2", "2", "4", "8", BOTH, "5")),
         "assistant backbone hidden size 12 does not match target hidden size 16", NULL},
        {target, ASSISTANT("16", GEMMA4("4", "2", "2", "4", "4", BOTH, "5")),
         "assistant layer 1 (full): head_dim 4, target K/V has 8", NULL},
        {target, ASSISTANT("16", GEMMA4("4", "1", "1", "4", "8", BOTH, "5")),
         "assistant layer 0 (sliding): 1 heads, target K/V has 2", NULL},
        {target, ASSISTANT("16", GEMMA4("4", "2", "2", "4", "8", BOTH, "6")),
         "assistant layer 0 (sliding): window 6, target K/V has 5", NULL},
        {"{" GEMMA4("16", "4", "2", "4", "8", FULL, "5") "}", plain,
         "target has no sliding_attention cache to share", NULL},
        {target,
         ASSISTANT("16", GEMMA4("4", "2", "2", "4", "8", BOTH,
                                "5") ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
                                     "\"default\", \"rope_theta\": 7}, \"sliding_attention\": "
                                     "{\"rope_type\": \"default\", \"rope_theta\": 1e4}}"),
         NULL, "assistant rope for full_attention differs from target"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(side(parse(cases[i].target, 0), TOKENIZER, NULL),
              side(parse(cases[i].draft, 0), NULL, NULL), false, cases[i].error, cases[i].warnings);
}

#define EAGLE3(vocab, hidden, ids)                                                                 \
    "{\"architectures\": [\"LlamaForCausalLMEagle3\"], \"model_type\": \"llama\", "                \
    "\"vocab_size\": " vocab ", \"hidden_size\": " hidden                                          \
    ", \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "         \
    "\"head_dim\": 8, \"intermediate_size\": 6, \"draft_vocab_size\": 5, \"target_hidden_size\": " \
    "4, \"eagle_aux_hidden_state_layer_ids\": [" ids "]}"
#define PEAGLE(vocab, hidden, ids)                                                                 \
    "{\"speculators_model_type\": \"peagle\", \"mask_token_id\": 7, \"draft_vocab_size\": 5, "     \
    "\"target_hidden_size\": 4, \"eagle_aux_hidden_state_layer_ids\": [" ids "], "                 \
    "\"speculators_config\": {\"proposal_methods\": [{\"speculative_tokens\": 3}]}, "              \
    "\"transformer_layer_config\": {\"model_type\": \"llama\", \"vocab_size\": " vocab             \
    ", \"hidden_size\": " hidden                                                                   \
    ", \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "         \
    "\"head_dim\": 8, \"intermediate_size\": 6}}"

TEST(eagle3_drafts)
{
    static const struct {
        const char *draft, *error;
    } cases[] = {
        {EAGLE3("8", "4", "0, 1"), NULL},
        {EAGLE3("8", "4", "0, 2"), "eagle3 aux layer 2 out of range for 1 target layers"},
        {EAGLE3("9", "4", "0, 1"), "eagle3 draft trained for a 9-token vocabulary, target has 8"},
        {EAGLE3("8", "6", "0, 1"),
         "eagle3: no embed_tokens, and target embedding is [8, 4], need width 6"},
        {PEAGLE("8", "4", "0, 1"), NULL},
        {PEAGLE("8", "4", "0, 2"), "peagle aux layer 2 out of range for 1 target layers"},
        {PEAGLE("9", "4", "0, 1"), "peagle draft trained for a 9-token vocabulary, target has 8"},
        {PEAGLE("8", "6", "0, 1"),
         "peagle: no embed_tokens, and target embedding is [8, 4], need width 6"},
    };
    const struct sp_tables found = {.head = true, .fc_cols = 8, .d2t = true};
    struct sp_config *t = parse(HYBRID("full_attention", "4", "2"), 0);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_config *d = settled(cases[i].draft, &found);
        assert_ok(sp_config_fit_target(d, t, NULL));
        check(side(t, TOKENIZER, NULL), side(d, NULL, NULL), false, cases[i].error,
              cases[i].error ? NULL : "");
    }
}

/* Row i of a draft's own output matrix belongs to token i + d2t[i]. */
TEST(token_maps)
{
    static const struct {
        float d2t[3];
        const char *error;
    } cases[] = {
        {{0, 0, 0}, NULL},
        {{0, 3, 5}, NULL},
        {{0, 3, 6}, "eagle3 d2t[2] maps to 8 outside target vocabulary"},
        {{-1, 0, 0}, "eagle3 d2t[0] maps to -1 outside target vocabulary"},
        {{2, 1, 2}, "eagle3 d2t is not ascending at 1"},
        {{0, 0, 0.5f}, "eagle3 d2t[2] is not a whole number"},
        {{0, NAN, 0}, "eagle3 d2t[1] is not a whole number"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails_as(sp_config_check_token_map(SP_DRAFT_EAGLE3, cases[i].d2t, 3, 8, why),
                        cases[i].error ? SP_E_INPUT : SP_OK, cases[i].error ? cases[i].error : "");
    }
}

/* The token order of a clustered output matrix must be a permutation. Each kind of error is
 * refused. */
TEST(token_orders)
{
    static const float orders[][4] = {{2, 0, 3, 1}, {2, 0, 2, 1}, {2, 0, 4, 1}, {2, 0, -1, 1}};

    assert_ok(sp_config_check_token_order(orders[0], 4, why));
    for (size_t i = 1; i < 4; i++) {
        assert_fails_as(sp_config_check_token_order(orders[i], 4, why), SP_E_INPUT,
                        "assistant: token_ordering is not a permutation");
    }
}

TEST(tokenizers)
{
    static const char ends[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
    static const struct {
        const char *tokenizer, *config, *error, *warnings;
    } cases[] = {
        {TOKENIZER, ends, NULL, ""},
        /* The same content in another order, with other notations of merges and end tokens. */
        {VOCAB("\"bc\": 4, \"b\": 1, \"a\": 0, \"c\": 2, \"ab\": 3",
               "[\"a\", \"b\"], [\"b\", \"c\"]", ENDS),
         NULL, NULL, ""},
        {VOCAB(TOKENS, MERGES, ENDS ", " ADDED("7", "<tool>")), ends, NULL,
         "draft tokenizer has 8 IDs, target 7: those that both have are equal"},
        {NULL, NULL, NULL, "draft has no tokenizer: that of the other model is assumed"},
        {VOCAB("\"a\": 0, \"c\": 1, \"b\": 2, \"ab\": 3, \"bc\": 4", MERGES, ENDS), ends,
         "draft tokenizer differs from target at id 1 (\"c\" vs \"b\"); a draft needs the target's "
         "vocabulary",
         NULL},
        {VOCAB(TOKENS, MERGES, ADDED("5", "<S>") ", " ADDED("6", "</s>")), NULL, NULL,
         "draft vocabulary: 0 tokens are renumbered to the target's IDs, and 1 tokens of the "
         "target are missing in it"},
        {VOCAB(TOKENS ", \"abc\": 5", MERGES ", \"ab c\"", ADDED("6", "</s>")), NULL,
         "draft tokenizer differs from target at id 5 (\"abc\" vs \"<s>\"); a draft needs the "
         "target's vocabulary",
         NULL},
        {VOCAB(TOKENS, "\"b c\", \"a b\"", ENDS), ends,
         "draft tokenizer differs from target at merge 0 (\"b c\" vs \"a b\")", NULL},
        {VOCAB(TOKENS, "\"a b\"", ENDS), ends, "draft tokenizer differs from target: 1 merges vs 2",
         NULL},
        {TOKENIZER, "{\"bos_token\": \"<s>\", \"eos_token\": \"<s>\"}",
         "draft bos/eos differ: eos is \"<s>\" vs \"</s>\"", NULL},
        {TOKENIZER, "{\"bos_token\": \"</s>\", \"eos_token\": \"</s>\"}",
         "draft bos/eos differ: bos is \"</s>\" vs \"<s>\"", NULL},
    };
    struct sp_config *t = parse(TARGET, 0), *d = parse(SMALL("8", "64", "4"), 0);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(side(t, TOKENIZER, ends), side(d, cases[i].tokenizer, cases[i].config), false,
              cases[i].error, cases[i].warnings);
}

/* Added tokens and an entry that no merge produces have other ids in the draft, whose rows are
 * moved. A row without a match keeps its place if that is free. */
TEST(moved_tokens)
{
    static const char ends[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
    static const struct {
        const char *target, *draft;
        size_t n_matched, n_unknown;
        uint32_t rows[9];
    } cases[] = {
        {TOKENIZER,
         VOCAB(TOKENS, MERGES, ADDED("5", "</s>") ", " ADDED("6", "<s>")),
         2,
         0,
         {0, 1, 2, 3, 4, 6, 5, 7, 8}},
        {TOKENIZER,
         VOCAB(TOKENS ", \"unused9\": 5", MERGES, ADDED("7", "<s>") ", " ADDED("8", "</s>")),
         2,
         0,
         {0, 1, 2, 3, 4, 7, 8, 5, 6}},
        {VOCAB(TOKENS, MERGES, ENDS ", " ADDED("7", "<a>")),
         VOCAB(TOKENS, MERGES, ADDED("5", "<s>") ", " ADDED("6", "<b>") ", " ADDED("7", "</s>")),
         1,
         1,
         {0, 1, 2, 3, 4, 5, 7, 6, 8}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_draft_compat_side a = side(parse(TARGET, 0), cases[i].target, ends);
        struct sp_draft_compat_side b = side(parse(SMALL("9", "64", "4"), 0), cases[i].draft, ends);
        struct sp_vocab_order order;
        char *warnings = NULL;
        assert_ok(sp_draft_compat_check(&order, &a, &b, false, &warnings, why));
        assert_non_null(order.rows);
        assert_int_equal(order.n, 9);
        assert_memory_equal(order.rows, cases[i].rows, sizeof cases[i].rows);
        assert_int_equal(order.n_matched, cases[i].n_matched);
        assert_int_equal(order.n_unknown, cases[i].n_unknown);
        keep(order.rows);
        keep(warnings);
    }
}

TEST(damaged_tokenizer)
{
    struct sp_draft_compat_side a = side(parse(TARGET, 0), TOKENIZER, NULL);
    struct sp_draft_compat_side b = side(parse(SMALL("8", "64", "4"), 0), "{", NULL);
    struct sp_vocab_order order;
    struct sp_err err = {0};

    assert_int_equal(sp_draft_compat_check(&order, &a, &b, false, NULL, &err), SP_E_INPUT);
    assert_memory_equal(err.text, "draft tokenizer", 15);
}

TEST(warnings_of_valid_pairs)
{
    struct sp_draft_compat_side a = side(parse(TARGET, 0), TOKENIZER, NULL);

    check(a, a, true, NULL, "draft equals target");
    check(a, side(parse(SMALL("16", "32", "4"), 0), TOKENIZER, NULL), false, NULL,
          "draft vocabulary has 16 rows, target 8\n"
          "draft context 32 is shorter than the target's 64: there is no drafting beyond it");
    /* Target: 2 * 8 * 4 + 4 + 6 * (3 * 4 * 6 + 2 * 4 * 4 + 2 * 2 * 4 + 2 * 4 + 2 * 2) = 860.
     * Draft: 2 * 8 * 64 + 64 + 4 * 64 * 64 + 3 * 64 * 6 + 2 * 64 = 18752. */
    check(a, side(parse(SMALL("8", "64", "64"), 0), TOKENIZER, NULL), false, NULL,
          "draft is larger than its target: 18752 weights, target has 860");
}

static char *read_tiny(const char *name)
{
    size_t size;

    return scratch_read(keep_format(TESTDATA "/tiny/%s", name), &size);
}

TEST(trained_models)
{
    const char *tokenizer = read_tiny("target/tokenizer.json");
    const char *config = read_tiny("target/tokenizer_config.json");
    struct sp_draft_compat_side a =
        side(parse(read_tiny("target/config.json"), 0), tokenizer, config);

    check(a, side(parse(read_tiny("ar/config.json"), 0), tokenizer, config), false, NULL, "");
    check(a, side(parse(read_tiny("dflash/config.json"), (uint64_t)3 * 192), NULL, NULL), false,
          NULL, "");
}
