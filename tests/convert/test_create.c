/* Tests create and quantize end to end on the tiny models: the packed tensors against the bytes of
 * the checkpoints, the reports, and the memory that is used. */
#include "format/modelfile/modelfile.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "tests/support/create_files.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- contents ---- */

/* Compares 16-bit elements of a checkpoint's tensor with the packed file, whose layout is applied
 * by its definition. */
static void assert_bf16_kept(const struct sp_pack_tensor *t, const uint8_t *source)
{
    uint64_t rows = t->rank == 2 ? t->shape[0] : 1, cols = t->shape[t->rank - 1];
    uint64_t panel = (cols * 32 + 63) / 64 * 64;

    assert_int_equal(t->dtype, SP_BF16);
    if (t->layout == SP_PLAIN) {
        assert_int_equal(t->rank, 1);
        assert_memory_equal(t->data, source, 2 * cols);
        return;
    }
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->size, (rows + 15) / 16 * panel);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint64_t c = 0; c < cols; c++) {
            const uint8_t *p = t->data + r / 16 * panel + 2 * (c * 16 + r % 16);
            assert_memory_equal(p, source + 2 * (r * cols + c), 2);
        }
    }
}

static void assert_part_is(const struct sp_pack *pack, enum sp_part part, const char *folder)
{
    struct sp_safetensors *checkpoint = NULL;
    size_t n, n_part = 0;

    assert_ok(sp_safetensors_open(&checkpoint, folder, NULL, NULL));
    const struct sp_safetensor *tensors = sp_safetensors_tensors(checkpoint, &n);
    for (size_t i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        uint8_t *bytes = keep(malloc(tensors[i].size));
        if (strncmp(name, "model.", 6) == 0) name += 6;
        const struct sp_pack_tensor *t = sp_pack_find(pack, part, name);
        if (t == NULL) fail_msg("%s is missing", name);
        assert_ok(sp_safetensors_read(&tensors[i], 0, tensors[i].size, bytes, NULL));
        assert_bf16_kept(t, bytes);
    }
    sp_safetensors_close(checkpoint);
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++)
        n_part += sp_pack_tensor(pack, i)->part == part;
    assert_int_equal(n_part, n);
}

static void assert_section_is(const struct sp_pack *pack, enum sp_part part,
                              enum sp_section section, const char *path)
{
    struct sp_text text;
    size_t want_size;

    assert_ok(sp_pack_read_section(pack, part, section, &text, NULL));
    if (!sp_file_exists(path)) {
        assert_null(text.at);
        return;
    }
    char *want = scratch_read(path, &want_size);
    assert_int_equal(text.size, want_size);
    assert_memory_equal(text.at, want, want_size);
    free(text.at);
}

TEST(test_weights_and_sections_are_kept)
{
    static const char *const drafts[] = {"dflash", "ar"};

    for (size_t d = 0; d < 2; d++) {
        char path[256];
        const char *out = create_path("p.bin");
        create_pack(create_modelfile(keep_format("FROM @/target\nDRAFT @/%s", drafts[d])), out,
                    SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
        struct sp_pack *pack = create_open(out);
        assert_part_is(pack, SP_PART_TARGET, TINY "/target");
        snprintf(path, sizeof path, "%s/%s", TINY, drafts[d]);
        assert_part_is(pack, SP_PART_DRAFT, path);
        for (int s = SP_SECTION_CONFIG; s <= SP_SECTION_TEMPLATE; s++) {
            enum sp_section section = (enum sp_section)s;
            snprintf(path, sizeof path, "%s/target/%s", TINY, sp_section_name(section));
            assert_section_is(pack, SP_PART_TARGET, section, path);
            snprintf(path, sizeof path, "%s/%s/%s", TINY, drafts[d], sp_section_name(section));
            assert_section_is(pack, SP_PART_DRAFT, section, path);
        }
    }
}

TEST(test_records_are_kept)
{
    const char *out = create_path("p.bin");
    struct sp_text text;

    create_pack(create_modelfile(
                    "# a comment\nFROM @/target\nsystem  \"\"\"Be\nbrief\"\"\" \nPARAMETER seed 7"),
                out, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    struct sp_pack *pack = create_open(out);
    assert_ok(sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &text, NULL));
    assert_string_equal(text.at, "system  \"\"\"Be\nbrief\"\"\" \nPARAMETER seed 7\n");
    free(text.at);
    assert_null(sp_pack_find_section(pack, SP_PART_FILE, SP_SECTION_PAIRING));
}

TEST(test_pairing_is_recorded)
{
    static const char want[] =
        "{\"kind\":\"dflash\",\"block_size\":16,\"mask_token_id\":1599,\"target_hidden_size\":192,"
        "\"num_target_layers\":6,\"target_layer_ids\":[0,2,4],\"rope\":[{\"type\":\"default\","
        "\"theta\":10000,\"factor\":1,\"rotated\":64}],\"target\":\"";
    const char *out = create_path("p.bin");
    struct sp_text text;

    create_pack(create_modelfile("FROM @/target\nDRAFT @/dflash"), out, SP_DTYPE_NONE,
                SP_DTYPE_NONE, 1);
    assert_ok(
        sp_pack_read_section(create_open(out), SP_PART_FILE, SP_SECTION_PAIRING, &text, NULL));
    assert_memory_equal(text.at, want, strlen(want));
    free(text.at);
}

TEST(test_threads_change_no_byte)
{
    static const enum sp_dtype types[] = {SP_DTYPE_NONE, SP_F32, SP_Q8, SP_Q4,
                                          SP_Q2,         SP_Q3,  SP_Q5, SP_Q6};
    const size_t n = sizeof types / sizeof *types;
    const char *path = create_modelfile("FROM @/target\nDRAFT @/dflash");
    const char *one = create_path("1.bin"), *many = create_path("n.bin");

    for (size_t i = 0; i < n; i++) {
        create_pack(path, one, types[i], types[n - 1 - i], 1);
        create_pack(path, many, types[i], types[n - 1 - i], 2);
        assert_same_file(one, many);
        create_pack(path, many, types[i], types[n - 1 - i], 7);
        assert_same_file(one, many);
    }
}

/* Writes the output of `show --modelfile` to a file and returns its path. */
static const char *recreate(const char *pack_path, const char *name)
{
    struct sp_pack *pack = create_open(pack_path);
    struct sp_text records, text;

    assert_ok(sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records, NULL));
    assert_ok(sp_modelfile_recreate(
        &text, name, sp_pack_find_section(pack, SP_PART_DRAFT, SP_SECTION_CONFIG) ? name : NULL,
        &records, NULL));
    const char *path = create_keep_path(scratch_write("Modelfile.again", text.at, text.size));
    free(records.at);
    free(text.at);
    return path;
}

TEST(test_a_packed_file_recreates_itself)
{
    const char *first = create_path("first.bin"), *again = create_path("again.bin");

    create_pack(create_modelfile("FROM @/target\nDRAFT @/ar\nPARAMETER stop \"x \"\nSYSTEM hi"),
                first, SP_Q4, SP_Q8, 2);
    create_pack(recreate(first, "first.bin"), again, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(first, again);
}

TEST(test_quantizing_later_gives_the_same_file)
{
    const char *path = create_modelfile("FROM @/target\nDRAFT @/dflash\nPARAMETER seed 1");
    const char *plain = create_path("plain.bin"), *direct = create_path("direct.bin");
    const char *later = create_path("later.bin");

    create_pack(path, plain, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    create_pack(path, direct, SP_Q4, SP_DTYPE_NONE, 2);
    create_requantize(plain, later, SP_Q4, SP_DTYPE_NONE);
    assert_same_file(direct, later);
    create_pack(path, direct, SP_Q4, SP_Q8, 2);
    create_requantize(later, NULL, SP_DTYPE_NONE, SP_Q8); /* in place */
    assert_same_file(direct, later);
    create_pack(path, direct, SP_Q8, SP_Q4, 2);
    create_pack(recreate(plain, "plain.bin"), later, SP_Q8, SP_Q4, 2);
    assert_same_file(direct, later);
}

TEST(test_parts_of_packed_files)
{
    const char *ar = create_path("ar.bin"), *alone = create_path("alone.bin");
    const char *out = create_path("out.bin"), *want = create_path("want.bin");

    create_pack(create_modelfile("FROM @/target\nDRAFT @/ar"), ar, SP_Q8, SP_Q8, 2);
    create_pack(create_modelfile("FROM @/ar"), alone, SP_Q8, SP_DTYPE_NONE, 2);
    create_pack(create_modelfile("FROM @/target\nDRAFT @/ar"), want, SP_DTYPE_NONE, SP_Q8, 2);
    create_pack(create_modelfile("FROM @/target\nDRAFT ar.bin"), out, SP_DTYPE_NONE, SP_DTYPE_NONE,
                2);
    assert_same_file(out, want);
    /* A file without a draft provides its target. */
    create_pack(create_modelfile("FROM @/target\nDRAFT alone.bin"), out, SP_DTYPE_NONE,
                SP_DTYPE_NONE, 2);
    assert_same_file(out, want);
    /* FROM with a packed pair takes only the target. */
    create_pack(create_modelfile("FROM @/target"), want, SP_Q8, SP_DTYPE_NONE, 2);
    create_pack(create_modelfile("FROM ar.bin"), out, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(out, want);
}

TEST(test_a_single_file_serves_as_checkpoint)
{
    const char *a = create_path("a.bin"), *b = create_path("b.bin");
    struct sp_create_options o = create_options(NULL, b);

    create_pack(create_modelfile("FROM @/ar"), a, SP_Q8, SP_DTYPE_NONE, 2);
    create_pack(create_modelfile("FROM @/ar/model.safetensors"), b, SP_Q8, SP_DTYPE_NONE, 2);
    assert_same_file(a, b);
    o.modelfile = create_modelfile("FROM ~/ar");
    o.home = TINY;
    o.target_type = SP_Q8;
    o.force = true;
    assert_ok(sp_create(NULL, &o, NULL));
    assert_same_file(a, b);
}

/* ---- dry run, warnings, report ---- */

struct report {
    char text[65536];
    size_t n_calls;
    uint64_t done, total;
};

static void add_text(void *context, const char *text)
{
    struct report *h = context;

    strncat(h->text, text, sizeof h->text - strlen(h->text) - 2);
    strcat(h->text, "\n");
    h->n_calls++;
}

static size_t count_lines(const char *text, const char *end)
{
    size_t n = 0;

    for (; text < end; text++)
        n += *text == '\n';
    return n;
}

static int record_progress(void *context, uint64_t done, uint64_t total)
{
    struct report *h = context;

    assert_true(done >= h->done && done <= total);
    h->done = done;
    h->total = total;
    return 0;
}

TEST(test_dry_run_shows_the_plan)
{
    struct sp_create_options o =
        create_options(create_modelfile("FROM @/target\nDRAFT @/dflash"), create_path("p.bin"));
    struct sp_create_report dry, wet;
    struct report *h = calloc(1, sizeof *h);

    o.target_type = SP_Q4;
    o.dry_run = true;
    o.callbacks = (struct sp_create_callbacks){.context = h, .plan = add_text};
    assert_ok(sp_create(&dry, &o, NULL));
    assert_int_equal(create_count_files(), 1);
    assert_non_null(strstr(h->text, "layers.3.mlp.up_proj.weight             \t[512, 192]   "
                                    "bf16  q4     57344  requested\n"));
    assert_non_null(strstr(h->text, "draft   fc.weight  "));
    const char *groups = strstr(h->text, "\n\npart    group  ");
    assert_non_null(groups);
    assert_int_equal(count_lines(h->text, groups + 1), 1 + 68 + 14);
    assert_int_equal(dry.n_tensors[SP_PART_TARGET], 68);
    assert_int_equal(dry.n_tensors[SP_PART_DRAFT], 14);
    assert_int_equal(dry.n_weights[SP_PART_TARGET], 2669760);
    assert_int_equal(dry.source_size[SP_PART_TARGET], 2 * 2669760);
    assert_int_equal(dry.file_size, 0);

    *h = (struct report){0};
    o.dry_run = false;
    o.callbacks =
        (struct sp_create_callbacks){.context = h, .progress = record_progress, .plan = add_text};
    assert_ok(sp_create(&wet, &o, NULL));
    assert_int_equal(h->n_calls, 0);
    assert_int_equal(h->total, dry.source_size[SP_PART_TARGET] + dry.source_size[SP_PART_DRAFT]);
    assert_int_equal(h->done, h->total);
    assert_int_equal(wet.size[SP_PART_TARGET], dry.size[SP_PART_TARGET]);
    assert_int_equal(wet.file_size, sp_pack_size(create_open(o.output)));
    free(h);
}

TEST(test_warnings_are_reported)
{
    struct sp_create_options o = create_options(
        create_modelfile("FROM @/target\nPARAMETER num_gpu 1\nRENDERER x"), create_path("p.bin"));
    struct report *h = keep(calloc(1, sizeof *h));

    o.callbacks = (struct sp_create_callbacks){.context = h, .note = add_text};
    assert_ok(sp_create(NULL, &o, NULL));
    assert_non_null(strstr(h->text, ":2: PARAMETER num_gpu is stored without effect"));
    assert_non_null(strstr(h->text, ":3: RENDERER is stored without effect"));
}

/* ---- memory ---- */

/* With sanitizers only the order of chunks is tested, of which there are many in any case. */
enum { LARGE_ROWS = IS_SANITIZED ? 200000 : 1000000, LARGE_COLS = 64 };

/* Appends a tensor to a safetensors header. *end is the end of the data and advances. */
static size_t append_tensor(char *text, const char *name, unsigned rows, unsigned cols,
                            uint64_t *end)
{
    uint64_t begin = *end;

    *end += 2ull * (rows ? rows : 1) * cols;
    const char *shape = keep_format(rows ? "%u,%u" : "%.0u%u", rows, cols);
    return (size_t)sprintf(
        text, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", name,
        shape, (unsigned long long)begin, (unsigned long long)*end);
}

/* Writes a checkpoint of 128 MB, with sanitizers 26 MB, to the folder "large". Most of the file is
 * a hole. */
static void make_large_checkpoint(void)
{
    static const char *const vectors[] = {"input_layernorm", "post_attention_layernorm",
                                          "self_attn.q_norm", "self_attn.k_norm"};
    static const char *const matrices[] = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    static const char config[] =
        "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"vocab_size\":%d,"
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,\"rope_theta\":10000,"
        "\"tie_word_embeddings\":true,\"hidden_size\":64,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"head_dim\":64,"
        "\"intermediate_size\":64,\"hidden_act\":\"silu\",\"eos_token_id\":0}";
    char text[8192];
    uint8_t size[8];
    uint64_t end = 0;

    assert_int_equal(mkdir(scratch_path("large"), 0700), 0);
    const char *json = keep_format(config, LARGE_ROWS);
    scratch_write("large/config.json", json, strlen(json));
    size_t n = append_tensor(text, "model.embed_tokens.weight", LARGE_ROWS, LARGE_COLS, &end);
    text[0] = '{';
    n += append_tensor(text + n, "model.norm.weight", 0, LARGE_COLS, &end);
    for (size_t i = 0; i < 11; i++) {
        const char *name =
            keep_format("model.layers.0.%s.weight", i < 4 ? vectors[i] : matrices[i - 4]);
        n += append_tensor(text + n, name, i < 4 ? 0 : LARGE_COLS, LARGE_COLS, &end);
    }
    text[n++] = '}';
    sp_put64(size, n);
    FILE *f = fopen(scratch_path("large/model.safetensors"), "wb");
    assert_non_null(f);
    fwrite(size, 8, 1, f);
    fwrite(text, n, 1, f);
    for (unsigned i = 0; i < 64; i++) { /* a few numbers that are not zero */
        fseek(f, (long)(8 + n + i * (2ul * LARGE_ROWS - 2)), SEEK_SET);
        fwrite("\x80\x3f\x12\xbe\x99\x3e", 6, 1, f);
    }
    assert_int_equal(ftruncate(fileno(f), (off_t)(8 + n + end)), 0);
    assert_int_equal(fclose(f), 0);
}

#if defined(SP_ROLLED)
enum { MOST_GROWTH_KIB = INT_MAX }; /* sanitizers shadow every page that is touched */
#else
enum { MOST_GROWTH_KIB = 64 << 10 };
#endif

static long peak_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* The memory of create does not depend on the size of a tensor or of the mapped source, which is a
 * checkpoint or a packed file. The chunks of a large tensor are written in order, whichever thread
 * converts them. */
TEST(test_memory_is_bounded)
{
    const char *packed = create_path("packed.bin"), *one = create_path("one.bin"),
               *two = create_path("two.bin"), *path;
    int status;

    make_large_checkpoint();
    path = create_modelfile("FROM ./large");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sp_create_options unquantized = create_options(path, packed),
                                 q4 = create_options(path, one);
        struct sp_create_options again = {
            .from = packed, .output = two, .target_type = SP_Q4, .n_threads = 2};
        long before = peak_kib();
        q4.target_type = SP_Q4;
        if (sp_create(NULL, &unquantized, NULL) || sp_create(NULL, &q4, NULL)) _exit(1);
        if (sp_requantize(NULL, &again, NULL)) _exit(2);
        _exit(peak_kib() - before < MOST_GROWTH_KIB ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_same_file(one, two);
    create_pack(path, two, SP_Q4, SP_DTYPE_NONE, 1);
    assert_same_file(one, two);
}

/* Exchanges the numbers 1596 and 1599 where `before` precedes them. */
static void exchange_ids(char *text, const char *before)
{
    size_t n = strlen(before);

    for (char *at = text; (at = strstr(at, before)) != NULL; at += n)
        if (memcmp(at + n, "1596", 4) == 0)
            at[n + 3] = '9';
        else if (memcmp(at + n, "1599", 4) == 0)
            at[n + 3] = '6';
}

static void exchange_rows(char *file, const char *tensor, size_t a, size_t b, size_t n_rows)
{
    size_t header = (size_t)sp_get64((const uint8_t *)file), begin, end;
    char *at = strstr(file + 8, tensor), swap[4096], *x, *y;

    assert_non_null(at);
    at = strstr(at, "\"data_offsets\": [");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"data_offsets\": [%zu, %zu", &begin, &end), 2);
    n_rows = (end - begin) / n_rows;
    assert_true(n_rows <= sizeof swap);
    x = file + 8 + header + begin + a * n_rows;
    y = file + 8 + header + begin + b * n_rows;
    memcpy(swap, x, n_rows);
    memcpy(x, y, n_rows);
    memcpy(y, swap, n_rows);
}

/* A draft whose first and last added token have each other's ids gives the same file, after the
 * rows of its tables have been moved; packed alone, it cannot be moved. */
TEST(test_moved_tokens_are_mapped)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    const char *plain = create_path("plain.bin"), *mapped = create_path("mapped.bin");

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t size;
        char *text = scratch_read(keep_format(TINY "/ar/%s", files[i]), &size);
        if (i == 2) exchange_rows(text, "embed_tokens.weight", 1596, 1599, 1600);
        if (i == 3) exchange_ids(text, "\"id\": ");
        scratch_write(files[i], text, size);
    }
    create_pack(create_modelfile("FROM @/target\nDRAFT @/ar"), plain, SP_DTYPE_NONE, SP_DTYPE_NONE,
                2);
    create_pack(create_modelfile("FROM @/target\nDRAFT ."), mapped, SP_DTYPE_NONE, SP_DTYPE_NONE,
                2);
    assert_same_file(plain, mapped);
    create_pack(create_modelfile("FROM ."), plain, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    struct sp_create_options options =
        create_options(create_modelfile("FROM @/target\nDRAFT plain.bin"), mapped);
    options.force = true;
    assert_fails(sp_create(NULL, &options, why), SP_E_UNSUPPORTED,
                 "give the checkpoint that it was packed from");
}

TEST_FIXTURE(create_setup, create_teardown);
