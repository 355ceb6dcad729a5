/* Tests the published names of tensors. For every golden checkpoint, which another program wrote,
 * the tensors that sp_specs_publish names are those of the checkpoint, with the spans that were
 * found in reading it. */
#include "convert/source/source.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* Returns the name of a language model's tensor inside a multimodal checkpoint. */
static const char *inner_name(char out[256], const char *name)
{
    static const char *const prefixes[][2] = {
        {"model.language_model.", "model."},
        {"language_model.model.", "model."},
        {"language_model.lm_head.", "lm_head."},
    };

    snprintf(out, 256, "%s", name);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i][0]);
        if (strncmp(name, prefixes[i][0], n) != 0) continue;
        snprintf(out, 256, "%s%s", prefixes[i][1], name + n);
        break;
    }
    return out;
}

/* Returns whether the tensor belongs to a built-in prediction head, or is the head's copy of a
 * table. */
static bool is_of_head(unsigned n_layers, const char *name)
{
    unsigned layer;

    if (sscanf(name, "model.layers.%u.", &layer) == 1) return layer >= n_layers;
    return strncmp(name, "mtp.", 4) == 0 || strncmp(name, "model.mtp", 9) == 0;
}

/* Returns whether the tensor is a key or value of a layer that reads another layer's, which Gemma
 * 4's checkpoints contain nevertheless, or of an expert of LongCat that returns its input. */
static bool is_unused(const struct sp_config *c, const char *name)
{
    unsigned layer, expert;

    if (c->routing.n_zero && sscanf(name, "model.layers.%u.mlp.experts.%u.", &layer, &expert) == 2)
        return expert >= c->layers[0].n_experts;
    if (sscanf(name, "model.layers.%u.self_attn.", &layer) != 1 || layer >= c->n_layers)
        return false;
    return c->layers[layer].kv_source != (int)layer &&
           (strstr(name, ".k_proj.") || strstr(name, ".v_proj.") || strstr(name, ".k_norm."));
}

static const struct sp_source_tensor *find(const struct sp_source_tensor *all, size_t n,
                                           const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}

static void assert_same_spans(const struct sp_specs *read, const struct sp_specs *published)
{
    assert_int_equal(read->n_specs, published->n_specs);
    for (size_t i = 0; i < read->n_specs; i++) {
        const struct sp_tensor_spec *a = &read->specs[i], *b = &published->specs[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->n_spans, b->n_spans);
        for (size_t k = 0; k < a->n_spans; k++) {
            const struct sp_row_span *x = &read->spans[a->first_span + k];
            const struct sp_row_span *y = &published->spans[b->first_span + k];
            char name[256];
            assert_string_equal(inner_name(name, x->source), y->source);
            assert_int_equal(x->first_row, y->first_row);
            assert_int_equal(x->step, y->step);
            assert_int_equal(x->n_rows, y->n_rows);
            assert_int_equal(x->n_cols, y->n_cols);
            assert_int_equal(x->transposed, y->transposed);
            assert_int_equal(x->pitch, y->pitch);
        }
    }
}

/* Checks that exactly the tensors of the checkpoint that `source` reads are published. */
static void assert_same_tensors(const struct sp_source *source, const struct sp_config *target,
                                const struct sp_source_tensor *published, size_t n_made)
{
    unsigned n_layers = target ? target->n_layers : source->config.n_layers;
    size_t n, n_wanted = 0;
    const struct sp_safetensor *all = sp_safetensors_tensors(source->checkpoint, &n);

    for (size_t i = 0; i < n; i++) {
        char name[256];
        inner_name(name, all[i].name);
        if (sp_source_is_skipped(name) || strcmp(name, "t2d") == 0) continue;
        if (strstr(name, ".shared_head.head.") || strstr(name, ".3.embed_tokens.")) continue;
        if ((source->has_mtp || target) && is_of_head(n_layers, name) != (target != NULL)) continue;
        if (is_unused(&source->config, name)) continue;
        if (source->config.tied && strcmp(name, "lm_head.weight") == 0) continue;
        n_wanted++;
        const struct sp_source_tensor *t = find(published, n_made, name);
        if (t == NULL) fail_msg("%s: %s is not made", source->path, name);
        assert_int_equal(t->rank, all[i].rank);
        assert_memory_equal(t->shape, all[i].shape, t->rank * sizeof *t->shape);
    }
    for (size_t i = 0; n_made != n_wanted && i < n_made; i++)
        print_message("made: %s\n", published[i].name);
    assert_int_equal(n_made, n_wanted);
}

static void check(struct sp_source *source, const struct sp_config *target)
{
    struct sp_specs specs;
    struct sp_source_tensor *tensors;
    size_t n;

    assert_case_ok(source->path,
                   sp_specs_publish(&specs, &tensors, &n, &source->config, target, why));
    assert_same_tensors(source, target, tensors, n);
    assert_same_spans(&source->specs, &specs);
    free(tensors);
    sp_specs_release(&specs);
}

static void check_folder(const char *path)
{
    struct sp_source source, head;
    char *warnings = NULL;

    print_message("%s\n", path);
    assert_ok(sp_source_open(&source, path, SP_PART_TARGET, &warnings, why));
    check(&source, NULL);
    if (source.has_mtp) {
        assert_ok(sp_source_open_mtp(&head, &source, why));
        check(&head, &source.config);
        sp_source_release(&head);
    }
    sp_source_release(&source);
    free(warnings);
}

static void families(void **state)
{
    check_folder(keep_format(TESTDATA "/families/%s", (const char *)*state));
}

CASES_OF(families, golden_families);

static void drafts(void **state)
{
    check_folder(keep_format(TESTDATA "/%s", (const char *)*state));
}

CASES(drafts, "families/lfm2/dspark", "families/laguna/dflash", "speculators/anchored",
      "speculators/dflash2", "speculators/dflash2_anchored", "speculators/dspark",
      "speculators/dspark_anchored", "speculators/peagle", "speculators/peagle_sliding",
      "speculators/pruned", "tiny/dflash");

static void oracle(void **state)
{
    const char *path = keep_format(SHARED "/oracle/%s", (const char *)*state);
    if (!golden_exists(path)) skip();
    check_folder(path);
}

CASES(oracle, "targets/gemma2", "targets/gemma3", "targets/gemma3_wrapped", "targets/gemma4_31b",
      "targets/gemma4_e2b", "targets/gemma4_moe", "targets/gpt_oss", "targets/llama_gqa_tied",
      "targets/llama_linear_rope", "targets/llama_mha_bias", "targets/ministral3",
      "targets/mistral_full", "targets/mistral_window", "targets/phi3", "targets/phi3_partial",
      "targets/qwen2", "targets/qwen2_window", "targets/qwen3", "targets/qwen3_5",
      "targets/qwen3_5_moe", "targets/qwen3_5_tied", "targets/qwen3_moe",
      "targets/qwen3_moe_sparse", "targets/qwen3_yarn", "targets/smollm3",
      "drafts/assistant_centroids", "drafts/assistant_dense", "drafts/assistant_shared",
      "drafts/dflash2_qwen3", "drafts/dflash2_scaled", "drafts/dflash_default_taps",
      "drafts/dflash_gemma4", "drafts/dflash_gpt_oss", "drafts/dflash_llama_bias",
      "drafts/dflash_qwen3", "drafts/dflash_qwen3_5", "drafts/dflash_qwen3_moe",
      "drafts/dflash_sliding", "drafts/dflash_sliding_bidirectional", "drafts/dspark_gated",
      "drafts/dspark_rnn", "drafts/dspark_vanilla", "drafts/eagle3_full_vocab",
      "drafts/eagle3_llama", "drafts/eagle3_midlayer", "drafts/eagle3_qwen3_before",
      "drafts/mtp_qwen3_5", "drafts/mtp_qwen3_5_moe", "drafts/mtp_qwen3_5_wrapped");
