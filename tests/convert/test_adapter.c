/* Tests adapters that are merged at create against the logits of PEFT and mlx-lm. The merged
 * weights do not depend on the number of threads, on whether the model comes from a packed file, or
 * on the stored type. */
#include "format/base/bytes.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "runtime/session/session.h"
#include "tests/support/create_files.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/stored_tensor.h"
#include "tests/support/unit_test.h"
#include "quantize/codec.h"
#include "quantize/types/float_cast.h"
#include "runtime/spectool_measure.h"

#include <math.h>

#define ADAPTERS TESTDATA "/adapters"

static const char *const names[] = {"dora",        "mlx_dora",       "mlx_lora",  "mlx_tied",
                                    "mlx_experts", "patterns",       "phi3",      "rslora_biases",
                                    "tables",      "tied_embedding", "tied_head", "gguf",
                                    "gguf_q8_0",   "gguf_shift",     "gguf_delta"};

enum { N_NAMES = sizeof names / sizeof names[0] };

/* max |a - b| / max |b| */
static const double tolerance = 1e-5;

static const uint32_t prompt[] = {7, 99, 3,  58, 121, 76, 20, 33, 91,  110,
                                  2, 45, 45, 17, 64,  80, 5,  28, 101, 9};

/* Returns the path of a Modelfile for the adapter's model, or for `from` if it is not NULL. */
static const char *modelfile_of(const char *name, const char *from, bool with_adapter)
{
    char lines[1200], path[400], *base;
    size_t size;

    snprintf(path, sizeof path, ADAPTERS "/%s/base.txt", name);
    base = scratch_read(path, &size);
    base[strcspn(base, "\n")] = '\0';
    snprintf(lines, sizeof lines, "FROM %s%s\n", from ? "" : TESTDATA "/", from ? from : base);
    if (with_adapter) {
        size_t n = strlen(lines);
        snprintf(lines + n, sizeof lines - n, "ADAPTER %s/%s%s\n", ADAPTERS, name,
                 strncmp(name, "gguf", 4) ? "" : "/adapter.gguf");
    }
    return create_modelfile(lines);
}

/* ---- logits ---- */

struct comparison {
    const float *golden; /* [][width] */
    size_t width;
    double worst, largest;
};

static int compare_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct comparison *c = context;

    assert_int_equal(n_vocab, c->width);
    for (size_t i = 0; i < n_vocab; i++) {
        double want = (double)c->golden[row * n_vocab + i], d = fabs((double)logits[i] - want);
        if (!(d <= c->worst)) c->worst = d;
        if (fabs(want) > c->largest) c->largest = fabs(want);
    }
    return 0;
}

static double distance(const char *path, const char *name)
{
    struct sp_session_options options = {.size = sizeof options, .cache = SP_CACHE_F32};
    struct sp_package *package = NULL;
    struct sp_session *session = NULL;
    struct comparison c = {0};
    size_t n;

    const char *golden = keep_format(ADAPTERS "/%s/logits.npy", name);
    float *rows = golden_npy(golden, &n, &c.width);
    assert_int_equal(n, sizeof prompt / sizeof *prompt);
    c.golden = rows;
    assert_case_ok(name, sp_package_open(&package, path,
                                         &(struct sp_package_options)SP_PACKAGE_OPTIONS_INIT, why));
    assert_case_ok(name, sp_session_open(&session, package, &options, why));
    assert_case_ok(name, sp_session_logits(session, prompt, n, compare_row, &c, why));
    sp_session_close(session);
    sp_package_close(package);
    return c.worst / c.largest;
}

TEST(test_logits_match_the_reference)
{
    const char *path = create_keep_path(create_path("p.bin"));

    for (size_t i = 0; i < N_NAMES; i++) {
        create_pack(modelfile_of(names[i], NULL, true), path, SP_F32, SP_DTYPE_NONE, 2);
        double d = distance(path, names[i]);
        if (!(d < tolerance)) fail_msg("%s: relative error %g", names[i], d);
        create_pack(modelfile_of(names[i], NULL, false), path, SP_F32, SP_DTYPE_NONE, 2);
        assert_true(distance(path, names[i]) > 0.1);
    }
}

/* ---- bytes ---- */

TEST(test_threads_do_not_change_the_file)
{
    const char *a = create_keep_path(create_path("a.bin")),
               *b = create_keep_path(create_path("b.bin"));

    for (size_t i = 0; i < N_NAMES; i++) {
        create_pack(modelfile_of(names[i], NULL, true), a, SP_Q8, SP_DTYPE_NONE, 1);
        create_pack(modelfile_of(names[i], NULL, true), b, SP_Q8, SP_DTYPE_NONE, 3);
        assert_same_file(a, b);
    }
}

/* Merging an adapter into a packed file gives the weights of merging it into the checkpoint. */
TEST(test_packed_files_give_equal_weights)
{
    const char *a = create_keep_path(create_path("a.bin")),
               *b = create_keep_path(create_path("b.bin"));
    const char *plain = create_keep_path(create_path("plain.bin"));

    for (size_t i = 0; i < N_NAMES; i++) {
        if (strncmp(names[i], "tied", 4) == 0) continue;
        create_pack(modelfile_of(names[i], NULL, false), plain, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
        create_pack(modelfile_of(names[i], NULL, true), a, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
        create_pack(modelfile_of(names[i], plain, true), b, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
        assert_same_file(a, b);
    }
}

/* A merged tensor in its stored type equals the f32 result rounded once. */
TEST(test_stored_types_are_kept)
{
    const char *a = create_keep_path(create_path("a.bin")),
               *b = create_keep_path(create_path("b.bin"));
    struct sp_source exact, rounded;

    create_pack(modelfile_of("patterns", NULL, true), a, SP_F32, SP_DTYPE_NONE, 1);
    create_pack(modelfile_of("patterns", NULL, true), b, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    assert_ok(sp_source_open(&exact, a, SP_PART_TARGET, NULL, NULL));
    assert_ok(sp_source_open(&rounded, b, SP_PART_TARGET, NULL, NULL));
    for (size_t i = 0; i < exact.specs.n_specs; i++) {
        const struct sp_tensor_spec *spec = &exact.specs.specs[i];
        size_t n = sp_spec_elements(spec);
        enum sp_dtype wide, type;
        float *x = stored_tensor_floats(&exact, spec, &wide),
              *y = stored_tensor_floats(&rounded, spec, &type);
        uint8_t *bytes = keep(malloc(n * 2));
        assert_int_equal(type, SP_BF16);
        assert_ok(sp_encode_floats(bytes, SP_BF16, x, n, 0, NULL));
        sp_decode_floats(x, SP_BF16, bytes, n);
        assert_memory_equal(x, y, n * sizeof *x);
    }
    sp_source_release(&exact);
    sp_source_release(&rounded);
}

/* ---- the record of merged adapters ---- */

static char *read_adapters(const char *path)
{
    struct sp_pack *pack = create_open(path);
    struct sp_text text;

    assert_ok(sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_ADAPTERS, &text, NULL));
    return keep(text.at);
}

/* The record lists both adapters of a file that was merged twice, survives quantization, and
 * contains no path. */
TEST(test_record_lists_adapters)
{
    const char *a = create_keep_path(create_path("a.bin")),
               *b = create_keep_path(create_path("b.bin"));
    char *once, *twice, *again, want[600];

    create_pack(modelfile_of("dora", NULL, false), a, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    assert_null(read_adapters(a));
    create_pack(modelfile_of("dora", NULL, true), a, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    once = read_adapters(a);
    assert_non_null(strstr(once, "\"products\":9,\"rank\":[4,4],\"scale\":[2,2],"
                                 "\"magnitudes\":true,\"tensors\":0}]"));
    assert_null(strstr(once, "dora"));
    create_pack(modelfile_of("mlx_dora", a, true), b, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    twice = read_adapters(b);
    snprintf(want, sizeof want, "%.*s,{\"format\":\"mlx\",", (int)strlen(once) - 1, once);
    assert_memory_equal(twice, want, strlen(want));
    create_requantize(b, a, SP_Q8, SP_DTYPE_NONE);
    again = read_adapters(a);
    assert_string_equal(again, twice);
}

/* ---- drafts ---- */

/* Writes an adapter that replaces the embedding by that of a draft. */
static void write_adapter_with_embedding_of(const char *draft)
{
    static const char config[] = "{\"peft_type\":\"LORA\",\"modules_to_save\":[\"embed_tokens\"]}";
    struct sp_safetensors *checkpoint;
    char header[300];

    assert_ok(sp_safetensors_open(&checkpoint, draft, NULL, NULL));
    const struct sp_safetensor *t = sp_safetensors_find(checkpoint, "embed_tokens.weight");
    size_t n =
        (size_t)snprintf(header, sizeof header,
                         "{\"base_model.model.model.embed_tokens.weight\":{\"dtype\":\"BF16\","
                         "\"shape\":[%u,%u],\"data_offsets\":[0,%u]}}",
                         (unsigned)t->shape[0], (unsigned)t->shape[1], (unsigned)t->size);
    uint8_t *file = keep(malloc(8 + n + t->size));
    sp_put64(file, n);
    memcpy(file + 8, header, n);
    assert_ok(sp_safetensors_read(t, 0, t->size, file + 8 + n, NULL));
    scratch_write("adapter.safetensors", file, 8 + n + t->size);
    scratch_write("adapter_config.json", config, strlen(config));
    sp_safetensors_close(checkpoint);
}

static bool draft_has_embedding(const char *lines)
{
    const char *path = create_path("p.bin");

    create_pack(create_modelfile(lines), path, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    struct sp_pack *pack = create_open(path);
    return sp_pack_find(pack, SP_PART_DRAFT, "embed_tokens.weight") != NULL;
}

/* The embedding of a draft is not stored again if it equals the merged embedding of the target. */
TEST(test_drafts_use_the_merged_target)
{
#define PAIR "FROM " TESTDATA "/speculators/target\nDRAFT " TESTDATA "/speculators/peagle\n"
    write_adapter_with_embedding_of(TESTDATA "/speculators/peagle");
    assert_true(draft_has_embedding(PAIR));
    assert_false(draft_has_embedding(PAIR "ADAPTER adapter.safetensors"));
#undef PAIR
}

static char *warnings;

static void add_warning(void *context, const char *sentence)
{
    size_t n = warnings ? strlen(warnings) : 0;
    (void)context;

    warnings = realloc(warnings, n + strlen(sentence) + 2);
    assert_non_null(warnings);
    sprintf(warnings + n, "%s\n", sentence);
}

/* The unmerged model can draft for the merged one; create reports that they are equal only without
 * an adapter. */
TEST(test_unmerged_model_as_draft)
{
    static const char *const adapters[] = {"", "ADAPTER " ADAPTERS "/patterns\n"};

    for (size_t i = 0; i < 2; i++) {
        struct sp_create_options o = create_options(
            create_modelfile(keep_format("FROM %s\nDRAFT %s\n%s", TESTDATA "/families/granite",
                                         TESTDATA "/families/granite", adapters[i])),
            create_path("p.bin"));
        o.force = true;
        o.callbacks.note = add_warning;
        assert_ok(sp_create(NULL, &o, NULL));
        assert_int_equal(strstr(warnings, "draft equals target") != NULL, i == 0);
        free(warnings);
        warnings = NULL;
    }
}

TEST_FIXTURE(create_setup, create_teardown);
