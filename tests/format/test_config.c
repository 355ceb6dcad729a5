/* format/config/config.h: models. Every expected number is read by hand from a config.json and the
 * documented rules of its family, or computed by hand from a formula. None comes from the code
 * under test. */
#include "format/config/config.h"

#include <unistd.h>

#include "format/family/config_parse.h"
#include "format/family/family_table.h"
#include "tests/support/config_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static void assert_ropes(const struct sp_config *c, const char *expected)
{
    char text[256] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%d" : "%d",
                 c->layers[i].rope);
    }
    assert_string_equal(text, expected);
}

static void assert_shape(const struct sp_config *c, unsigned n_heads, unsigned n_kv_heads,
                         unsigned head_dim, unsigned n_ffn)
{
    config_assert_numbers(c->layers[0].n_heads, n_heads, c->layers[0].n_kv_heads, n_kv_heads,
                          c->layers[0].head_dim, head_dim, c->layers[0].n_ffn, n_ffn);
}

/* One line of testdata/config/goldens.txt. */
struct golden {
    char name[64], family[32], architecture[64], windows[64], ropes[64], kind[16], traits[64];
    unsigned n_layers, n_heads, n_kv_heads, head_dim, n_ffn, max_positions, n_rot;
    double theta, factor, original, amplitude, eps;
};

static bool read_golden(struct golden *g, const char *line)
{
    return sscanf(
               line, "%63s %31s %63s %u %u %u %u %u %u %63s %63s %15s %lf %lf %lf %lf %u %lf %63s",
               g->name, g->family, g->architecture, &g->n_layers, &g->n_heads, &g->n_kv_heads,
               &g->head_dim, &g->n_ffn, &g->max_positions, g->windows, g->ropes, g->kind, &g->theta,
               &g->factor, &g->original, &g->amplitude, &g->n_rot, &g->eps, g->traits) == 19;
}

static bool has_trait(const struct golden *g, const char *trait)
{
    const char *list = keep_format(",%s,", g->traits);
    return strstr(list, keep_format(",%s,", trait)) != NULL;
}

static void check_golden(const struct golden *g)
{
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    bool gemma = has_trait(g, "gemma");

    print_message("%s\n", g->name);
    struct sp_config *c = config_read(keep_format(SHARED "/oracle/%s/config.json", g->name), NULL);
    const struct sp_rope *r = &c->ropes[0];
    assert_string_equal(c->family, g->family);
    assert_string_equal(c->architecture, g->architecture);
    config_assert_numbers(c->n_vocab, 512, c->n_hidden, 64, c->n_layers, g->n_layers,
                          c->max_positions, g->max_positions);
    assert_shape(c, g->n_heads, g->n_kv_heads, g->head_dim, g->n_ffn);
    config_assert_windows(c, g->windows);
    assert_ropes(c, g->ropes);
    assert_true((size_t)r->kind < sizeof kinds / sizeof kinds[0]);
    assert_string_equal(kinds[r->kind], g->kind);
    assert_int_equal(r->n_rot, g->n_rot);
    config_assert_near(r->theta, g->theta);
    config_assert_near(r->factor, g->factor);
    config_assert_near(r->original_positions, g->original);
    config_assert_near(r->amplitude, g->amplitude);
    config_assert_near(c->norm_eps, g->eps);
    assert_int_equal(c->tied, has_trait(g, "tied"));
    assert_int_equal(c->qk_norm, has_trait(g, "qk_norm"));
    assert_int_equal(c->qkv_bias, has_trait(g, "qkv_bias"));
    assert_int_equal(c->o_bias, has_trait(g, "o_bias"));
    assert_int_equal(c->mlp_bias, has_trait(g, "mlp_bias"));
    config_assert_numbers(c->norm_shifted, gemma, c->norms, gemma ? SP_NORM_SANDWICH : SP_NORM_PRE);
    config_assert_near(c->embedding_scale, gemma ? 8 : 1); /* sqrt(64) */
}

TEST(golden_checkpoints)
{
    char *text, *line, *rest;
    size_t size, n = 0;

    if (access(SHARED "/oracle/targets", R_OK) != 0) skip();
    text = scratch_read(TESTDATA "/config/goldens.txt", &size);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct golden g;
        if (line[0] == '#') continue;
        assert_true(read_golden(&g, line));
        check_golden(&g);
        n++;
    }
    assert_true(n >= 22);
}

/* The defaults of a family's configuration class for a config.json that states nothing
 * (testdata/config/class_defaults.txt, written by tests/oracle/class_defaults.py). */
static void check_class(const char *line)
{
    unsigned vocab, hidden, ffn, layers, heads, kv, dim, positions, tied;
    char family[64], json[160];
    double eps, theta;

    assert_int_equal(sscanf(line, "%63s %u %u %u %u %u %u %u %u %lf %lf %u", family, &vocab,
                            &hidden, &ffn, &layers, &heads, &kv, &dim, &positions, &eps, &theta,
                            &tied),
                     12);
    print_message("%s\n", family);
    /* A dense model where the family allows it, since the width of experts is a separate number. */
    snprintf(json, sizeof json, "{\"model_type\": \"%s\", \"num_experts\": 0}", family);
    if (strncmp(family, "granitemoe", strlen("granitemoe")) == 0)
        snprintf(json, sizeof json, "{\"model_type\": \"%s\", \"num_local_experts\": 0}", family);
    struct sp_config *c = config_parsed(json);
    const struct sp_layer_config *l = &c->layers[sp_config_first_layer(c, SP_MIXER_ATTENTION)];
    config_assert_numbers(c->n_vocab, vocab, c->n_hidden, hidden, c->layers[0].n_ffn, ffn,
                          c->n_layers, layers);
    assert_int_equal(l->n_heads, heads);
    assert_int_equal(l->n_kv_heads, kv);
    assert_int_equal(l->head_dim, dim);
    config_assert_numbers(c->max_positions, positions, c->norm_eps, eps, c->ropes[0].theta, theta,
                          c->tied, tied);
}

TEST(class_defaults)
{
    FILE *f = fopen(TESTDATA "/config/class_defaults.txt", "r");
    char line[256];
    unsigned n = 0;

    assert_non_null(f);
    for (; fgets(line, sizeof line, f); n++)
        check_class(line);
    assert_true(n > 10);
    fclose(f);
}

/* A config that states only differences from the class, and the same model written in full in the
 * newer notation. */
TEST(notations)
{
    struct sp_config *c = config_read_testdata("gemma3_sparse", NULL), same;
    const struct sp_config *d = config_read_testdata("gemma3_nested", NULL);

    assert_memory_equal(c->layers, d->layers, 7 * sizeof *c->layers);
    memcpy(&same, d, sizeof same);
    same.layers = c->layers;
    assert_memory_equal(c, &same, sizeof same);
}

/* What functions make of configs. */
TEST(derived_values)
{
    struct sp_config *c = config_read_testdata("glm_4_7_flash", NULL);
    unsigned rows[SP_MAX_NGRAM_PARTS];

    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(sp_config_value_dim(c, &c->layers[i]), 512);
    /* Tables of n-grams are numbered by layer; their parts have the primes from 40 on. */
    c = config_parsed(
        "{\"model_type\": \"qwen4_exp_text\", \"eos_token_id\": [7, 8], \"heads_per_ngram\": 2, "
        "\"ngram_vocab_size_base\": 40, \"ple_layer_ids\": [1, 3], "
        "\"make_ngram_vocab_size_divisible_by\": 16}");
    assert_int_equal(sp_ngram_rows(rows, &c->ngrams, 1), 192);
    assert_int_equal(sp_ngram_rows(rows, &c->ngrams, 2), 272);
    config_assert_numbers(rows[0], 59, rows[1], 61, rows[2], 67, rows[3], 71);
    c = config_read_testdata("dspark_gated", NULL);
    assert_int_equal(sp_tap_number(c->draft.taps[0]), -1);
    assert_string_equal(sp_markov_name(&c->draft.dspark), "gated");
    c = config_read_testdata("dspark_no_heads", NULL);
    assert_string_equal(sp_markov_name(&c->draft.dspark), "none");
}

TEST(refusals)
{
    static const char folder[] = TESTDATA "/corrupt/config/";
    char path[512], *cases, *line, *rest;
    size_t size, n = 0;

    snprintf(path, sizeof path, "%scases.txt", folder);
    cases = scratch_read(path, &size);
    for (line = strtok_r(cases, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        struct sp_config c, zero = {0};
        struct sp_err err = {0};
        char *code = strchr(line, '\t'), *sentence = strchr(code + 1, '\t'), *warnings = NULL;
        *code++ = *sentence++ = '\0';
        snprintf(path, sizeof path, "%s%s.json", folder, line);
        enum sp_status st = config_parse_file(&c, path, &warnings, &err);
        if ((int)st != atoi(code) || (strcmp(sentence, "*") && strcmp(err.text, sentence)))
            fail_msg("%s: %d \"%s\", expected %s \"%s\"", line, (int)st, err.text, code, sentence);
        assert_true(err.text[0] != '\0');
        assert_memory_equal(&c, &zero, sizeof c);
        free(warnings);
    }
    assert_true(n > 100);
}

static void assert_no_note(const char *path)
{
    size_t size;
    char *text = golden_file(path, &size), *warnings = NULL;
    struct sp_config c;

    assert_case_ok(path, sp_config_parse(&c, text, size, &warnings, why));
    if (warnings && strstr(warnings, "not known")) fail_msg("%s: %s", path, warnings);
    sp_config_release(&c);
    free(warnings);
}

static char *notes_of(const char *text)
{
    char *warnings = NULL;
    struct sp_config c;

    assert_ok(sp_config_parse(&c, text, strlen(text), &warnings, why));
    sp_config_release(&c);
    return keep(warnings);
}

/* A key that no reader asks for is named, unless it is one of keys_without_effect.txt. */
TEST(unread_keys)
{
    static const char begin[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":"
                                "\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                                "\"intermediate_size\":64,\"num_attention_heads\":1,"
                                "\"vocab_size\":100,\"rms_norm_eps\":1e-5";
    char text[1000];

    for (const char *const *name = golden_families(); *name; name++) {
        snprintf(text, sizeof text, TESTDATA "/families/%s/config.json", *name);
        assert_no_note(text);
    }
    snprintf(text, sizeof text, "%s,\"new_scale\":2,\"none\":null,\"empty\":{}}", begin);
    assert_string_equal(notes_of(text), "config.json: new_scale is not known and has no effect");
    snprintf(text, sizeof text, "%s,\"embd_pdrop\":0.1,\"initializer_range\":1,\"dtype\":\"x\"}",
             begin);
    assert_null(notes_of(text));
    snprintf(text, sizeof text, "%s,\"pdrop\":0.1,\"_dropout_rate\":1,\"dtypes\":1}", begin);
    assert_non_null(strstr(notes_of(text), "config.json: pdrop is not known"));
    assert_non_null(strstr(notes_of(text), "config.json: _dropout_rate is not known"));
    assert_non_null(strstr(notes_of(text), "config.json: dtypes is not known"));
    assert_non_null(strstr(
        notes_of("{\"architectures\":[\"Mistral3ForConditionalGeneration\"],"
                 "\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":"
                 "\"mistral\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                 "\"intermediate_size\":64,\"num_attention_heads\":1,\"num_key_value_heads\":1,"
                 "\"vocab_size\":100,\"rms_norm_eps\":1e-5,\"new_scale\":2}}"),
        "new_scale is not known"));
}

TEST(end_ids)
{
    static const struct {
        const char *config, *generation, *ids, *error;
    } cases[] = {
        {"{\"eos_token_id\": 2}", NULL, "2", NULL},
        {"{\"eos_token_id\": 151645}", "{\"eos_token_id\": [151645, 151643]}", "151645 151643",
         NULL},
        {"{\"eos_token_id\": 7}", "{\"do_sample\": true}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": null}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": []}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": 0}", "0", NULL},
        {"{\"text_config\": {\"eos_token_id\": 1}}", NULL, "1", NULL},
        {"{\"eos_token_id\": [1, 106], \"text_config\": {\"eos_token_id\": 1}}", NULL, "1 106",
         NULL},
        {"{\"eos_token_id\": null}", NULL, "", NULL},
        {"{}", "{}", "", NULL},
        {"{\"eos_token_id\": [3, 3, 3]}", NULL, "3", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": -1}", "7", NULL},
        {"{\"eos_token_id\": 7}", "{\"eos_token_id\": [3, null]}", "3", NULL},
        {"{\"eos_token_id\": -2}", NULL, NULL, "config.json: eos_token_id holds no token ID"},
        {"{\"eos_token_id\": 1}", "{\"eos_token_id\": [\"a\"]}", NULL,
         "generation_config.json: eos_token_id holds no token ID"},
        {"{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", NULL, NULL,
         "config.json: eos_token_id has more than 16 ids"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sp_text config = whole_text(cases[i].config),
                             g = whole_text(cases[i].generation);
        uint32_t ids[SP_MAX_EOS];
        char text[128] = "";
        struct sp_err err = {0};
        size_t n;
        enum sp_status st = sp_config_eos(ids, &n, &config, &g, &err);
        if (cases[i].error) {
            assert_int_not_equal(st, SP_OK);
            assert_string_equal(err.text, cases[i].error);
            continue;
        }
        if (st) fail_msg("case %zu: %s", i, err.text);
        for (size_t k = 0; k < n; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), k ? " %u" : "%u", ids[k]);
        assert_string_equal(text, cases[i].ids);
    }
}

/* MODELS.md has a row for every family, with the GGUF architectures that are read as this family,
 * and names every multimodal config. */
TEST(documented)
{
    size_t size;
    const char *models = scratch_read(TESTDATA "/../MODELS.md", &size);
    char cells[256];

    for (size_t i = 0; sp_family_at(i); i++) {
        const struct sp_family *row = sp_family_at(i);
        char name[64];
        snprintf(cells, sizeof cells, "| `%s` |", row->name);
        for (const struct sp_gguf_arch *a = row->gguf.archs; a->name; a++) {
            snprintf(name, sizeof name, " `%s`", a->name);
            if (strstr(strchr(cells + 3, '|'), name)) continue;
            if (a > row->gguf.archs) strcat(cells, ",");
            strcat(cells, name);
        }
        strcat(cells, " |");
        if (strstr(row->name, "_assistant")) /* a draft */
            snprintf(cells, sizeof cells, "`%s`", row->name);
        if (strstr(row->name, "_dflash")) snprintf(cells, sizeof cells, "`%s`", row->architecture);
        if (strstr(models, cells) == NULL) fail_msg("MODELS.md has no row with %s", cells);
    }
    for (const struct sp_wrapper *w = sp_wrappers; w->name; w++) {
        snprintf(cells, sizeof cells, "`%s`", w->name);
        if (strstr(models, cells) == NULL) fail_msg("MODELS.md does not name %s", cells);
    }
}

/* Every row of the family table yields a valid model from its defaults and its required keys, and
 * is found by both of its names. */
TEST(family_table)
{
    for (size_t i = 0; sp_family_at(i); i++) {
        const struct sp_family *row = sp_family_at(i), *f;
        struct sp_family family;
        struct sp_config c;
        const struct sp_sizes *s = &family.sizes;
        sp_family_resolve(&family, row);
        f = &family;
        bool has_head_dim = s->head_dim || s->n_hidden % s->n_heads ==
                                               0; /* whether the head size follows from n_hidden;
                                                     otherwise the config must state it */
        bool counts = !f->reads.experts || f->n_experts_used;
        assert_ptr_equal(sp_family_by_type(f->name), row);
        if (!f->run_as || strcmp(f->run_as, f->architecture) != 0)
            assert_ptr_equal(sp_family_by_architecture(f->architecture), row);
        const char *text = keep_format("{\"model_type\": \"%s\"%s%s%s}", f->name,
                                       f->theta == 0 ? ", \"rope_theta\": 1e6" : "",
                                       has_head_dim ? "" : ", \"head_dim\": 128",
                                       counts ? "" : ", \"num_experts_per_tok\": 3");
        assert_case_ok(f->name, sp_config_parse(&c, text, strlen(text), NULL, why));
        assert_string_equal(c.family, f->name);
        if (!sp_config_joins(&c) && !c.n_looped) assert_int_equal(c.n_layers, f->sizes.n_layers);
        assert_int_equal(c.tied, f->tied);
        sp_config_release(&c);
    }
}
