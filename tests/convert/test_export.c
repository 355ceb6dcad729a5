/* Tests export: every packed tensor is exported with its bits and its published name, packing the
 * export gives the same file, q8 and q4 follow the formulas of spectool-pack(5), and a failure
 * leaves no files. */
#include "convert/create/create.h"
#include "convert/export/export.h"
#include "format/base/file.h"
#include "format/json/json.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "quantize/types/float_cast.h"
#include "tests/support/handmade_models.h"
#include "tests/support/create_files.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/microscale_bytes.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sp_create_options options_of(const char *input, const char *output)
{
    return (struct sp_create_options){.from = input, .output = output, .n_threads = 2};
}

static void export_to(const char *input, const char *output, enum sp_dtype type)
{
    struct sp_create_options o = options_of(input, output);

    o.target_type = type;
    o.force = true;
    assert_case_ok(input, sp_export(NULL, &o, why));
}

/* Packs the models that the lines of a Modelfile name, in their stored types. */
static void pack_as_stored(const char *lines, const char *output)
{
    create_pack(create_modelfile(lines), output, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
}

/* Packs an export again. */
static void pack_export(const char *export, const char *output)
{
    create_pack(keep_format("%s/Modelfile", export), output, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
}

static const char *join(const char *folder, const char *name)
{
    return keep_format("%s/%s", folder, name);
}

static void close_weights(void *weights)
{
    sp_safetensors_close(weights);
}

/* Kept. */
static struct sp_safetensors *open_weights(const char *folder)
{
    struct sp_safetensors *c = NULL;

    assert_case_ok(folder, sp_safetensors_open(&c, folder, NULL, why));
    return keep_with(c, close_weights);
}

static uint8_t *bytes_of(const struct sp_safetensor *t)
{
    uint8_t *bytes = malloc(t->size + 1);

    assert_non_null(bytes);
    assert_ok(sp_safetensors_read(t, 0, t->size, bytes, why));
    return keep(bytes);
}

/* ---- tensors ----- */

/* Returns the source's tensor, which has a longer name in a multimodal checkpoint. */
static const struct sp_safetensor *find_source(const struct sp_safetensors *c, const char *name)
{
    static const char *const prefixes[][2] = {
        {"", ""},
        {"model.", "model.language_model."},
        {"", "language_model."},
    };
    const struct sp_safetensor *t = NULL;

    for (size_t i = 0; i < 3 && t == NULL; i++) {
        size_t n = strlen(prefixes[i][0]);
        if (strncmp(name, prefixes[i][0], n) != 0) continue;
        t = sp_safetensors_find(c, keep_format("%s%s", prefixes[i][1], name + n));
    }
    return t;
}

/* Every exported tensor equals that of the source. Packing the export shows that none is lost. */
static void assert_same_weights(const char *source, const char *export)
{
    struct sp_safetensors *from = open_weights(source), *to = open_weights(export);
    size_t n;
    const struct sp_safetensor *all = sp_safetensors_tensors(to, &n);

    for (size_t i = 0; i < n; i++) {
        const struct sp_safetensor *a = &all[i], *b = find_source(from, a->name);
        if (b == NULL) fail_msg("%s: no tensor %s", source, a->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
        if (memcmp(bytes_of(a), bytes_of(b), a->size) != 0)
            fail_msg("%s: tensor %s differs", source, a->name);
    }
}

/* The same tensors with the same numbers, whatever their types. */
static void assert_same_numbers(const char *a, const char *b)
{
    struct sp_safetensors *files[2] = {open_weights(a), open_weights(b)};
    size_t n, m;
    const struct sp_safetensor *all = sp_safetensors_tensors(files[0], &n);

    (void)sp_safetensors_tensors(files[1], &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        const struct sp_safetensor *t[2] = {&all[i], sp_safetensors_find(files[1], all[i].name)};
        size_t len = (size_t)sp_n_elements(all[i].shape, all[i].rank);
        float *numbers[2];
        assert_non_null(t[1]);
        assert_memory_equal(t[0]->shape, t[1]->shape, sizeof t[0]->shape);
        for (size_t k = 0; k < 2; k++) {
            assert_non_null(numbers[k] = keep(malloc((len + 1) * sizeof *numbers[k])));
            sp_decode_floats(numbers[k], t[k]->dtype, bytes_of(t[k]), len);
        }
        if (memcmp(numbers[0], numbers[1], len * sizeof *numbers[0]) != 0)
            fail_msg("%s: tensor %s differs", a, t[0]->name);
    }
}

static bool is_same_text(const char *a, const char *b)
{
    size_t n, m;
    char *x = scratch_read(a, &n), *y = scratch_read(b, &m);

    return n == m && memcmp(x, y, n) == 0;
}

static void assert_same_parts(const char *a, const char *b)
{
    struct sp_part_digests one, other;

    assert_ok(sp_pack_part_digests(&one, create_open(a), why));
    assert_ok(sp_pack_part_digests(&other, create_open(b), why));
    assert_true(one.target == other.target && one.draft == other.draft);
}

/* Packs, exports, compares the export with the checkpoints, and packs it again. draft: the folder
 * of the draft; NULL: none. */
static void round_trip(const char *target, const char *draft, const char *lines)
{
    const char *packed = create_path("packed.bin"), *again = create_path("again.bin");
    const char *export = create_path("export"), *made = join(export, "target");

    pack_as_stored(lines, packed);
    export_to(packed, export, SP_DTYPE_NONE);
    assert_same_weights(target, made);
    if (draft) assert_same_weights(draft, join(export, "draft"));
    if (draft == NULL) {
        export_to(target, create_path("direct"), SP_DTYPE_NONE);
        assert_same_weights(target, create_path("direct/target"));
        assert_same_file(create_path("direct/Modelfile"), join(export, "Modelfile"));
    }
    pack_export(export, again);
    assert_same_parts(packed, again);
    /* A config that needs no change is exported unchanged, so the files are equal. */
    if (is_same_text(join(target, "config.json"), join(made, "config.json")))
        assert_same_file(packed, again);
    create_teardown(NULL);
    create_setup(NULL);
}

TEST(families)
{
    for (const char *const *name = golden_families(); *name; name++) {
        print_message("%s\n", *name);
        const char *folder = keep_format(TESTDATA "/families/%s", *name);
        round_trip(folder, NULL, keep_format("FROM %s", folder));
    }
}

static void pair(const char *target, const char *draft)
{
    round_trip(target, draft, keep_format("FROM %s\nDRAFT %s\nPARAMETER top_k 7\n", target, draft));
}

TEST(pairs)
{
    static const char *const drafts[] = {"anchored", "dflash2",       "dflash2_anchored",
                                         "dspark",   "pruned",        "dspark_anchored",
                                         "peagle",   "peagle_sliding"};

    pair(TESTDATA "/tiny/target", TESTDATA "/tiny/dflash");
    pair(TESTDATA "/tiny/target", TESTDATA "/tiny/ar");
    pair(TESTDATA "/families/lfm2", TESTDATA "/families/lfm2/dspark");
    pair(TESTDATA "/families/laguna", TESTDATA "/families/laguna/dflash");
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++)
        pair(TESTDATA "/speculators/target", keep_format(TESTDATA "/speculators/%s", drafts[i]));
}

static void oracle_target(void **state)
{
    const char *folder = keep_format(SHARED "/oracle/%s", (const char *)*state);
    if (!golden_exists(folder)) skip();
    round_trip(folder, NULL, keep_format("FROM %s", folder));
}

static void oracle_pair(void **state)
{
    const char *target = *state, *draft = target + strlen(target) + 1;
    const char *from = keep_format(SHARED "/oracle/targets/%s", target);

    if (!golden_exists(from)) skip();
    pair(from, keep_format(SHARED "/oracle/drafts/%s", draft));
}

/* ---- the config ---- */

static struct sp_json *config_of(const char *export)
{
    size_t size;
    char *text = scratch_read(join(export, "target/config.json"), &size);

    return keep_parsed(text, size, SP_JSON_LENIENT);
}

static void assert_member(const struct sp_json *json, const char *key, const char *want)
{
    assert_string_equal(sp_json_to_string(sp_json_get(json, key), NULL), want);
}

static void copy_text(const char *from, const char *to)
{
    size_t size;
    char *text = scratch_read(from, &size);

    scratch_write(to, text, size);
}

/* A tied model whose config says that it is not tied, and one whose config does not say it. */
TEST(tied_embeddings_are_stated)
{
    static const char *const stated[] = {"\"tie_word_embeddings\": false,", ""};
    const char *packed = create_path("packed.bin"), *export = create_path("export");

    for (size_t i = 0; i < 2; i++) {
        size_t size;
        static const char tied[] = "\"tie_word_embeddings\": true,";
        char *text = scratch_read(TINY "/ar/config.json", &size), *at = strstr(text, tied);
        bool is_tied = false;
        assert_non_null(at);
        const char *changed =
            keep_format("%.*s%s%s", (int)(at - text), text, stated[i], at + strlen(tied));
        mkdir(scratch_path("model"), 0777);
        scratch_write("model/config.json", changed, strlen(changed));
        copy_text(TINY "/ar/model.safetensors", "model/model.safetensors");
        pack_as_stored("FROM model", packed);
        export_to(packed, export, SP_DTYPE_NONE);
        assert_ok(sp_json_get_bool(config_of(export), "tie_word_embeddings", &is_tied, why));
        assert_true(is_tied);
    }
}

TEST(multimodal_wrapper_is_omitted)
{
    const char *packed = create_path("packed.bin"), *export = create_path("export");

    if (!golden_exists(SHARED "/oracle/targets/qwen3_5_moe")) skip();
    pack_as_stored("FROM " SHARED "/oracle/targets/qwen3_5_moe", packed);
    export_to(packed, export, SP_DTYPE_NONE);
    const struct sp_json *json = config_of(export);
    assert_member(json, "model_type", "qwen3_5_moe_text");
    assert_member(sp_json_get(json, "rope_parameters"), "rope_type", "default");
    assert_string_equal(sp_json_to_string(sp_json_at(sp_json_get(json, "architectures"), 0), NULL),
                        "Qwen3_5MoeForCausalLM");
    assert_false(sp_json_has(json, "text_config"));
    assert_false(sp_json_has(json, "vision_config"));
}

/* ---- quantized tensors ---- */

static float f32_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t get(const uint8_t *p, int n)
{
    uint32_t v = 0;

    while (n--)
        v = v << 8 | p[n];
    return v;
}

/* Decodes a q8 weight by the formula of spectool-pack(5). */
static float q8_weight(const struct sp_pack_tensor *t, size_t row, size_t col)
{
    size_t blocks = (size_t)t->shape[1] / 32, r = row % 16, k = col % 32;
    const uint8_t *block = t->data + row / 16 * blocks * 544 + col / 32 * 544;
    int code = (int)block[64 * (k / 4) + 4 * r + k % 4] - 128;

    return (float)code * f32_of_bits(get(block + 512 + 2 * r, 2) << 16);
}

/* Decodes a weight of q2 to q6 by the formula of spectool-pack(5). */
static float microscale_weight(const struct sp_pack_tensor *t, size_t row, size_t col)
{
    unsigned bits = sp_dtype_code_bits(t->dtype);
    size_t size = (64 + (size_t)t->shape[1] / 32 * (64 * bits + 32) + 63) / 64 * 64, r = row % 16;
    const uint8_t *panel = t->data + row / 16 * size;
    int scale, entry = microscale_code(&scale, bits, panel, r, col);

    return f32_of_bits(get(panel + 4 * r, 4)) * (float)(scale * entry);
}

static float stored_weight(const struct sp_pack_tensor *t, size_t row, size_t col)
{
    return t->dtype == SP_Q8 ? q8_weight(t, row, col) : microscale_weight(t, row, col);
}

/* Rounds to bfloat16, ties to even. */
static uint32_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static void assert_same_matrix(const struct sp_pack_tensor *t, const struct sp_safetensors *c,
                               enum sp_dtype type)
{
    const struct sp_safetensor *made = sp_safetensors_find(c, keep_format("model.%s", t->name));

    assert_non_null(made);
    assert_int_equal(made->dtype, type);
    const uint8_t *bytes = bytes_of(made);
    for (size_t row = 0; row < t->shape[0]; row++) {
        for (size_t col = 0; col < t->shape[1]; col++) {
            size_t i = row * (size_t)t->shape[1] + col;
            float want = stored_weight(t, row, col);
            if (type == SP_F32)
                assert_true(f32_of_bits(get(bytes + 4 * i, 4)) == want);
            else
                assert_int_equal(get(bytes + 2 * i, 2), bf16_of(want));
        }
    }
}

static void check_quantized(const char *packed, const char *export, enum sp_dtype type,
                            const char *stated)
{
    size_t n_quantized = 0;

    export_to(packed, export, type);
    struct sp_pack *pack = create_open(packed);
    struct sp_safetensors *made = open_weights(join(export, "target"));
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (!sp_dtype_is_block(t->dtype)) continue;
        n_quantized++;
        assert_same_matrix(t, made, type == SP_DTYPE_NONE ? SP_BF16 : type);
    }
    assert_true(n_quantized >= 8);
    const struct sp_json *json = config_of(export);
    assert_member(json, sp_json_has(json, "dtype") ? "dtype" : "torch_dtype", stated);
}

TEST(quantized_tensors_are_decoded)
{
    static const enum sp_dtype types[] = {SP_Q8, SP_Q4, SP_Q2, SP_Q3, SP_Q5, SP_Q6};
    const char *packed = create_path("packed.bin"), *export = create_path("export");

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        create_pack(create_modelfile("FROM @/ar"), packed, types[i], SP_DTYPE_NONE, 2);
        check_quantized(packed, export, SP_F32, "float32");
        check_quantized(packed, export, SP_DTYPE_NONE, "bfloat16");
        /* A tensor that was not quantized is exported unchanged. */
        pack_export(export, create_path("again.bin"));
    }
}

/* The export of a dequantized checkpoint has no quantization config. */
TEST(dequantized)
{
    const char *packed = create_path("packed.bin"), *export = create_path("export");

    if (!golden_exists(SHARED "/oracle/prequantized/fp8_blocks")) skip();
    create_pack(create_modelfile("FROM " SHARED "/oracle/prequantized/fp8_blocks"), packed, SP_F32,
                SP_DTYPE_NONE, 1);
    export_to(packed, export, SP_DTYPE_NONE);
    const struct sp_json *json = config_of(export);
    assert_false(sp_json_has(json, "quantization_config"));
    assert_member(json, "torch_dtype", "float32");
    pack_export(export, create_path("again.bin"));
    assert_same_parts(packed, create_path("again.bin"));
}

/* A GGUF file without a packed file in between: the numbers are those of the file that is packed in
 * f32 first, with which tests/runtime/test_gguf_logits.c compares other implementations. */
TEST(gguf_files)
{
    const char *packed = create_path("packed.bin"), *export = create_path("export");
    size_t n_compared = 0;
    glob_t files;

    assert_int_equal(glob(TESTDATA "/gguf/*.gguf", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct sp_create_options o = options_of(files.gl_pathv[i], export);
        struct sp_create_options pack = {.from = o.from,
                                         .output = packed,
                                         .target_type = SP_F32,
                                         .draft_type = SP_DTYPE_NONE,
                                         .force = true};
        struct sp_err err = {0};
        o.target_type = SP_F32;
        o.force = true;
        if (sp_export(NULL, &o, &err)) {
            assert_true(strstr(err.text, "is an embedding model") ||
                        strstr(err.text, "a reranker"));
            continue;
        }
        assert_ok(sp_create(NULL, &pack, why));
        export_to(packed, create_path("through"), SP_F32);
        assert_same_numbers(create_path("through/target"), join(export, "target"));
        n_compared++;
    }
    globfree(&files);
    assert_in_range(n_compared, 50, 100);
}

/* ---- files ---- */

TEST(shards)
{
    const char *packed = create_path("packed.bin"), *whole = create_path("whole");
    const char *cut = create_path("cut");
    struct sp_create_options o = options_of(packed, cut);
    size_t n;

    pack_as_stored("FROM @/target", packed);
    export_to(packed, whole, SP_DTYPE_NONE);
    o.shard_size = 700000; /* the first shard holds the embedding alone, which is larger; the last
                              one is smaller */
    o.n_threads = 1;
    assert_ok(sp_export(NULL, &o, why));
    assert_same_weights(TINY "/target", join(cut, "target"));
    struct sp_safetensors *c = open_weights(join(cut, "target"));
    assert_true(sp_safetensors_n_shards(c) > 3);
    assert_true(strstr(sp_file_path(sp_safetensors_tensors(c, &n)->file), "-of-000") != NULL);
    assert_false(sp_file_exists(join(cut, "target/model.safetensors")));
    pack_export(cut, create_path("again.bin"));
    assert_same_file(packed, create_path("again.bin"));
    /* An export to one file replaces the shards. */
    o.shard_size = 0;
    o.n_threads = 3;
    o.force = true;
    assert_ok(sp_export(NULL, &o, why));
    assert_same_file(join(cut, "target/model.safetensors"),
                     join(whole, "target/model.safetensors"));
    assert_false(sp_file_exists(join(cut, "target/model.safetensors.index.json")));
    assert_int_equal(create_count_files(), 5);
}

/* ---- refusals and failures ---- */

static void assert_refused(const struct sp_create_options *o, enum sp_status status,
                           const char *message)
{
    size_t n = create_count_files();

    assert_fails(sp_export(NULL, o, why), status, message);
    assert_int_equal(create_count_files(), n);
}

TEST(refusals)
{
    const char *packed = create_path("packed.bin"), *export = create_path("export");
    struct sp_create_options o = options_of(packed, export);

    pack_as_stored("FROM @/ar", packed);
    export_to(packed, export, SP_DTYPE_NONE);
    assert_refused(&o, SP_E_USAGE, "export exists already");
    o.force = true;
    scratch_write("export/target/notes.txt", "mine", 4);
    assert_refused(&o, SP_E_USAGE,
                   "export contains target/notes.txt, which is not part of an export");
    o.output = packed;
    assert_refused(&o, SP_E_USAGE, "packed.bin exists and is not a folder");
    o.output = create_path("no/where");
    assert_refused(&o, SP_E_IO, "no/where: its folder: No such file");
    o.output = "/";
    assert_refused(&o, SP_E_USAGE, "/ is not a name for a new folder");
    o.output = create_path("new");
    o.from = TINY "/dflash";
    assert_refused(&o, SP_E_INPUT, "is a draft and cannot be a target");
    o.from = TINY "/ar/config.json";
    assert_refused(&o, SP_E_INPUT, "neither safetensors, GGUF nor packed");
    mkdir(scratch_path("mlx"), 0777);
    handmade_qwen3_5(scratch_path("mlx"),
                     &(struct handmade_options){.mixing = 0.1F, .converted = true});
    pack_as_stored("FROM mlx", create_path("mlx.bin"));
    o.from = create_path("mlx.bin");
    assert_refused(&o, SP_E_UNSUPPORTED, "conv1d.weight is stored as mlx converts it");
}

TEST(damage)
{
    static const char *const tensors[] = {"layers.0.mlp.up_proj.weight", "norm.weight"};
    static const char *const damaged_bytes[] = {
        "abcd", "\xff\x7f\xff\x7f"}; /* the second value would be a NaN, which must not be reported
                                        instead */
    const char *packed = create_path("packed.bin");
    struct sp_create_options o = options_of(packed, create_path("export"));

    for (size_t i = 0; i < 4; i++) {
        pack_as_stored("FROM @/ar", packed);
        create_damage_tensor(packed, tensors[i % 2], damaged_bytes[i / 2], 4);
        assert_refused(&o, SP_E_INPUT, tensors[i % 2]);
        assert_refused(&o, SP_E_INPUT, "digest");
    }
}

/* Bytes between tensors are zero. */
TEST(damaged_padding)
{
    static const char tensor[] = "layers.0.self_attn.k_norm.weight"; /* 16 bytes */
    const char *packed = create_path("packed.bin");
    struct sp_create_options o = options_of(packed, create_path("export"));
    char bytes[17];

    pack_as_stored("FROM @/../families/exaone4", packed);
    memcpy(bytes, sp_pack_find(create_open(packed), SP_PART_TARGET, tensor)->data, 16);
    bytes[16] = 1;
    create_damage_tensor(packed, tensor, bytes, 17);
    assert_refused(&o, SP_E_INPUT, "is not zero, but belongs to nothing");
}

static int cancel(void *context, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return ++*(int *)context;
}

TEST(cancelled)
{
    const char *packed = create_path("packed.bin");
    struct sp_create_options o = options_of(packed, create_path("export"));
    int calls = 0;

    pack_as_stored("FROM @/ar", packed);
    o.n_threads = 1;
    o.callbacks = (struct sp_create_callbacks){.context = &calls, .progress = cancel};
    assert_refused(&o, SP_E_CANCELLED, "interrupted");
    assert_int_equal(calls, 1);
}

/* Runs export in a child process whose files may not exceed `limit` bytes; returns its status. */
static int export_within(const struct sp_create_options *o, rlim_t limit)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit r = {limit, limit};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &r);
        _exit((int)sp_export(NULL, o, NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int kill_self(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return raise(SIGKILL);
}

/* Exports in a child process that is killed while it writes. */
static void export_killed(struct sp_create_options o)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        o.callbacks.progress = kill_self;
        _exit((int)sp_export(NULL, &o, NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(killed)
{
    const char *packed = create_path("packed.bin"), *export = create_path("export");
    struct sp_create_options o = options_of(packed, export);

    pack_as_stored("FROM @/ar", packed);
    o.force = true;
    export_killed(o);
    assert_false(sp_file_exists(export));
    export_to(packed, export, SP_F32);
    export_killed(o);
    assert_same_weights(TINY "/ar", join(export, "target"));
    /* The temporary folder of the killed process has a name of its own, so the next export
     * succeeds. */
    export_to(packed, export, SP_F32);
    assert_same_weights(TINY "/ar", join(export, "target"));
}

TEST(full_disk)
{
    const char *packed = create_path("packed.bin"), *export = create_path("export");
    const char *want = create_path("want"), *weights = "target/model.safetensors";
    struct sp_create_options o = options_of(packed, export);
    size_t size;

    pack_as_stored("FROM @/ar", packed);
    export_to(packed, want, SP_DTYPE_NONE);
    scratch_read(join(want, weights), &size);
    assert_int_equal(export_within(&o, size), SP_OK);
    o.force = true;
    for (size_t limit = 0; limit < size; limit += 1 + size / 11) {
        assert_int_equal(export_within(&o, limit), SP_E_IO);
        assert_same_file(join(export, weights), join(want, weights));
        assert_int_equal(create_count_files(), 4);
    }
}

CASES(oracle_target, "targets/gemma2", "targets/gemma3", "targets/gemma3_wrapped",
      "targets/gemma4_31b", "targets/gemma4_e2b", "targets/gemma4_moe", "targets/gpt_oss",
      "targets/llama_gqa_tied", "targets/llama_mha_bias", "targets/ministral3",
      "targets/mistral_full", "targets/phi3", "targets/qwen2", "targets/qwen3", "targets/qwen3_5",
      "targets/qwen3_5_moe", "targets/qwen3_moe_sparse", "targets/smollm3", "drafts/mtp_qwen3_5",
      "drafts/mtp_qwen3_5_moe", "drafts/mtp_qwen3_5_wrapped");
CASES(oracle_pair, "gemma4_moe\0assistant_centroids", "gemma4_31b\0assistant_dense",
      "llama_mha_bias\0dspark_rnn", "qwen3\0dspark_gated", "llama_mha_bias\0eagle3_llama",
      "llama_linear_rope\0eagle3_midlayer");
TEST_FIXTURE(create_setup, create_teardown);
