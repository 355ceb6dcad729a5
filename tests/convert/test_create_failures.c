/* Tests the failures of create and quantize on the tiny models: refusal, cancellation, a full disk
 * and a killed process. The error names the cause, no file is left behind, and an existing file
 * stays. */
#include "format/base/file.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "tests/support/create_files.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- refusals ---- */

struct refusal {
    const char *lines;
    enum sp_dtype target, draft;
    enum sp_status status;
    const char *message; /* part of the error message */
};

static const struct refusal refusals[] = {
    {"FROM nowhere", 0, 0, SP_E_INPUT, "Modelfile:1:6: FROM: "},
    {"FROM nowhere", 0, 0, SP_E_INPUT, "nowhere does not exist"},
    {"FROM @", 0, 0, SP_E_INPUT, "a folder without config.json is no checkpoint"},
    {"FROM @/README.md", 0, 0, SP_E_INPUT, "neither safetensors, GGUF nor packed"},
    {"FROM x.gguf", 0, 0, SP_E_INPUT, "x.gguf: 12 bytes are too few for a GGUF file"},
    {"FROM @/target\nADAPTER x", 0, 0, SP_E_INPUT, "Modelfile:2:9: ADAPTER: "},
    {"FROM @/target", 0, SP_Q8, SP_E_USAGE, "there is none"},
    {"FROM @/dflash", 0, 0, SP_E_INPUT, "is a draft"},
    {"FROM @/ar\nDRAFT @/dflash", 0, 0, SP_E_INPUT, "dflash"},
    {"FROM @/target\nDRAFT nowhere", 0, 0, SP_E_INPUT, "Modelfile:2:7: DRAFT: "},
    {"FROM q4.bin", SP_Q8, 0, SP_E_INPUT, "would be rounded twice"},
};

TEST(test_refusals_leave_nothing)
{
    const char *old = create_keep_path(create_path("out.bin"));
    size_t n, old_size;

    create_pack(create_modelfile("FROM @/ar"), old, SP_Q8, SP_DTYPE_NONE, 1);
    char *old_bytes = scratch_read(old, &old_size);
    scratch_write("x.gguf", "GGUF\3\0\0\0\0\0\0\0", 12);
    create_pack(create_modelfile("FROM @/ar"), create_path("q4.bin"), SP_Q4, SP_DTYPE_NONE, 1);
    n = create_count_files();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        struct sp_create_options o = create_options(create_modelfile(r->lines), old);
        size_t size;
        o.target_type = r->target;
        o.draft_type = r->draft;
        o.force = true;
        assert_fails(sp_create(NULL, &o, why), r->status, r->message);
        assert_int_equal(create_count_files(), n);
        char *bytes = scratch_read(old, &size);
        assert_int_equal(size, old_size);
        assert_memory_equal(bytes, old_bytes, size);
    }
}

static enum sp_status refuse_template(const char *text, size_t size, struct sp_err *err)
{
    assert_int_equal(strlen(text), size);
    return sp_fail(err, SP_E_INPUT, "template error");
}

TEST(test_templates_are_checked)
{
    struct sp_create_options o =
        create_options(create_modelfile("FROM @/ar\nTEMPLATE {{"), create_path("p.bin"));

    o.check_template = refuse_template;
    assert_fails(sp_create(NULL, &o, why), SP_E_INPUT, "Modelfile:2:10: TEMPLATE: template error");
}

/* The ends of sequences are those of config.json where generation_config.json states none. */
TEST(test_eos_of_config_is_checked)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
    struct sp_create_options o = create_options(create_modelfile("FROM ."), create_path("p.bin"));

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t size;
        char *text = scratch_read(keep_format(TINY "/ar/%s", files[i]), &size);
        if (i == 0) memcpy(strstr(text, "1598"), "-159", 4);
        scratch_write(files[i], text, size);
    }
    assert_fails(sp_create(NULL, &o, why), SP_E_INPUT, "config.json: eos_token_id holds no token");
}

TEST(test_existing_output_needs_force)
{
    struct sp_create_options o = create_options(
        create_modelfile("FROM @/ar"), create_keep_path(scratch_write("out.bin", "old", 3)));
    struct sp_create_options q = {.from = create_path("in.bin"), .target_type = SP_Q8};

    assert_int_equal(sp_create(NULL, &o, NULL), SP_E_USAGE);
    create_pack(o.modelfile, q.from, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    q.output = o.output;
    assert_int_equal(sp_requantize(NULL, &q, NULL), SP_E_USAGE);
    assert_int_equal(create_count_files(), 3);
}

/* --force does not overwrite a file of another kind, such as a Modelfile or the checkpoint. */
TEST(test_force_replaces_packed_files_only)
{
    struct sp_create_options o = create_options(
        create_modelfile("FROM @/ar"), create_keep_path(scratch_write("out.bin", "my thesis", 9)));
    size_t size;

    o.force = true;
    assert_fails(sp_create(NULL, &o, why), SP_E_USAGE,
                 "out.bin exists and is not a packed file; only those are changed");
    char *text = scratch_read(o.output, &size);
    assert_int_equal(size, 9);
    assert_memory_equal(text, "my thesis", 9);
    assert_int_equal(create_count_files(), 2);
    create_keep_path(scratch_write("out.bin", "", 0));
    assert_ok(sp_create(NULL, &o, NULL));
    assert_ok(sp_create(NULL, &o, NULL));
}

TEST(test_requantize_refusals)
{
    struct sp_create_options q = {.from = create_path("q4.bin"), .n_threads = 1};

    create_pack(create_modelfile("FROM @/ar"), q.from, SP_Q4, SP_DTYPE_NONE, 1);
    assert_fails(sp_requantize(NULL, &q, why), SP_E_USAGE,
                 "expected a type for its target or draft");
    q.draft_type = SP_Q8;
    assert_fails(sp_requantize(NULL, &q, why), SP_E_USAGE, "no draft");
    q.draft_type = SP_DTYPE_NONE;
    q.target_type = SP_Q8;
    assert_fails(sp_requantize(NULL, &q, why), SP_E_INPUT, "it would be rounded twice");
    q.allow_lossy = true;
    assert_ok(sp_requantize(NULL, &q, NULL));
    create_open(q.from);
    q.from = TINY "/ar/model.safetensors";
    assert_fails(sp_requantize(NULL, &q, why), SP_E_INPUT, "not a packed file");
}

/* Copies the small model into a folder "bad" with one bf16 weight replaced. */
static void bad_model(const char *tensor, uint64_t element, uint16_t bits)
{
    static const char *const texts[] = {"config.json", "tokenizer.json"};
    struct sp_safetensors *checkpoint = NULL;
    char *bytes;
    size_t size, where;

    mkdir(scratch_path("bad"), 0777);
    for (size_t i = 0; i < 2; i++) {
        char from[256], to[64];
        snprintf(from, sizeof from, "%s/ar/%s", TINY, texts[i]);
        snprintf(to, sizeof to, "bad/%s", texts[i]);
        bytes = scratch_read(from, &size);
        scratch_write(to, bytes, size);
    }
    assert_ok(sp_safetensors_open(&checkpoint, TINY "/ar", NULL, NULL));
    const struct sp_safetensor *t = sp_safetensors_find(checkpoint, tensor);
    assert_non_null(t);
    where = (size_t)(t->offset + 2 * element);
    sp_safetensors_close(checkpoint);
    bytes = scratch_read(TINY "/ar/model.safetensors", &size);
    bytes[where] = (char)(bits & 0xFF);
    bytes[where + 1] = (char)(bits >> 8);
    scratch_write("bad/model.safetensors", bytes, size);
}

struct bad_weight {
    const char *tensor;
    uint64_t element;
    uint16_t bits;
    enum sp_dtype type;
    const char *location; /* location in the error message; NULL: no error */
};

static const struct bad_weight bad_weights[] = {
    {"model.embed_tokens.weight", 128 * 1599 + 5, 0x7FC0, 0, "embed_tokens.weight: row 1599"},
    {"model.embed_tokens.weight", 128 * 1000, 0xFF80, SP_Q8, "embed_tokens.weight: row 1000"},
    {"model.layers.0.mlp.up_proj.weight", 3, 0x7F80, SP_Q4, "layers.0.mlp.up_proj.weight: row 0"},
    {"model.layers.0.mlp.up_proj.weight", 3, 0x7F80, SP_F16, "layers.0.mlp.up_proj.weight: row 0"},
    {"model.norm.weight", 7, 0x7F81, 0, "norm.weight: element 7"},
    {"model.layers.0.mlp.up_proj.weight", 128 * 20 + 3, 0x7149, SP_F16, "up_proj.weight: row 20"},
    {"model.layers.0.mlp.up_proj.weight", 128 * 20 + 3, 0x7149, SP_BF16, NULL},
};

TEST(test_bad_weights_are_named)
{
    struct sp_create_options o = create_options(create_modelfile("FROM bad"), create_path("p.bin"));

    o.force = true;
    for (size_t i = 0; i < sizeof bad_weights / sizeof bad_weights[0]; i++) {
        const struct bad_weight *b = &bad_weights[i];
        bad_model(b->tensor, b->element, b->bits);
        o.target_type = b->type;
        if (b->location == NULL) {
            assert_ok(sp_create(NULL, &o, why));
        } else {
            assert_fails(sp_create(NULL, &o, why), SP_E_INPUT, b->location);
            assert_false(sp_file_exists(o.output));
        }
        assert_int_equal(create_count_files(), b->location ? 2 : 3);
    }
}

TEST(test_damaged_input_is_refused)
{
    const char *in = create_path("in.bin");
    struct sp_create_options q = {
        .from = in, .output = create_path("out.bin"), .target_type = SP_Q8, .n_threads = 2};
    static const char *const tensors[] = {"layers.0.mlp.up_proj.weight", "norm.weight"};
    static const char *const damage[] = {
        "abcd", "\xff\x7f\xff\x7f"}; /* the second value would be a NaN, which must not be reported
                                        instead */

    for (size_t i = 0; i < 4; i++) {
        struct sp_err err = {0};
        create_pack(create_modelfile("FROM @/ar"), in, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
        create_damage_tensor(in, tensors[i % 2], damage[i / 2], 4);
        assert_int_equal(sp_requantize(NULL, &q, &err), SP_E_INPUT);
        assert_non_null(strstr(err.text, tensors[i % 2]));
        assert_non_null(strstr(err.text, "digest"));
        assert_int_equal(create_count_files(), 2);
    }
}

/* ---- cancellation ---- */

static int cancel(void *context, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return ++*(int *)context;
}

TEST(test_cancelling_leaves_nothing)
{
    struct sp_create_options o =
        create_options(create_modelfile("FROM @/target"), create_path("p.bin"));
    int calls = 0;

    o.callbacks = (struct sp_create_callbacks){.context = &calls, .progress = cancel};
    assert_fails_as(sp_create(NULL, &o, why), SP_E_CANCELLED, "interrupted");
    assert_int_equal(calls, 1);
    assert_int_equal(create_count_files(), 1);
}

/* ---- full disk, killed process ---- */

/* Runs create in a child process whose files may not exceed `limit` bytes; returns its status. */
static int create_within(const char *path, const char *output, rlim_t limit)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct sp_create_options o = create_options(path, output);
        struct rlimit r = {limit, limit};
        o.force = true;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &r);
        _exit((int)sp_create(NULL, &o, NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(test_a_full_disk_leaves_the_old_file)
{
    const char *path = create_modelfile("FROM @/ar"), *out = create_path("out.bin");
    const char *want = create_path("want.bin"), *old = create_path("old.bin");
    size_t size;

    create_pack(path, want, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    scratch_read(want, &size);
    create_pack(path, old, SP_Q4, SP_DTYPE_NONE, 2);
    create_pack(path, out, SP_Q4, SP_DTYPE_NONE, 2);
    for (size_t limit = 0; limit < size; limit += 1 + size / 23) {
        assert_int_equal(create_within(path, out, limit), SP_E_IO);
        assert_same_file(out, old);
        assert_int_equal(create_count_files(), 4);
    }
    assert_int_equal(create_within(path, out, size - 1), SP_E_IO);
    assert_same_file(out, old);
    assert_ok(create_within(path, out, size));
    assert_same_file(out, want);
}

TEST(test_a_kill_leaves_old_or_new)
{
    const char *path = create_modelfile("FROM @/target\nDRAFT @/dflash"),
               *out = create_path("out.bin");
    const char *a = create_path("a.bin"), *b = create_path("b.bin");
    unsigned n_new = 0;
    struct timespec begin, end;

    create_pack(path, a, SP_Q8, SP_Q8, 2);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    create_pack(path, b, SP_BF16, SP_DTYPE_NONE, 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long step = ((end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec) / 16;
    for (int i = 0; i < 24; i++) {
        struct timespec nap = {.tv_sec = i * step / 1000000000L, .tv_nsec = i * step % 1000000000L};
        size_t size;
        char *bytes = scratch_read(a, &size);
        scratch_write("out.bin", bytes, size);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            create_pack(path, out, SP_BF16, SP_DTYPE_NONE, 1);
            _exit(0);
        }
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        struct sp_pack *pack = create_open(out);
        if (sp_pack_tensor(pack, 0)->dtype == SP_BF16) {
            assert_same_file(out, b);
            n_new++;
        } else {
            assert_same_file(out, a);
        }
    }
    print_message("%u of 24 children finished\n", n_new);
}

TEST_FIXTURE(create_setup, create_teardown);
