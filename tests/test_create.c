/* create and quantize from end to end, on the tiny models: what is written against the checkpoints'
 * own bytes, and every promise about failure: nothing is left behind, the old file stays. */
#include "convert/create.h"

#include "convert/modelfile.h"
#include "convert/pairing.h"
#include "format/bytes.h"
#include "format/file.h"
#include "format/mem.h"
#include "format/packfile.h"
#include "format/safetensors.h"
#include "tests/scratch.h"

#include <dirent.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define TINY TESTDATA "/tiny"

/* Paths that outlive scratch.c's few buffers; freed after the test. */
static char *kept[64];
static size_t n_kept;

static const char *keep(const char *path)
{
    assert_true(n_kept < sizeof kept / sizeof kept[0]);
    kept[n_kept] = strdup(path);
    assert_non_null(kept[n_kept]);
    return kept[n_kept++];
}

/* A path in the scratch folder. */
static const char *at(const char *name)
{
    return keep(scratch_path(name));
}

static int setup(void **state)
{
    (void)state;
    return scratch_folder() == NULL;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove();
    while (n_kept)
        free(kept[--n_kept]);
    return 0;
}

/* Names in the scratch folder, hidden ones included. */
static size_t n_files(void)
{
    DIR *dir = opendir(scratch_folder());
    struct dirent *e;
    size_t n = 0;

    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

/* `lines` as a Modelfile in the scratch folder, "@" standing for the tiny models' folder. */
static const char *modelfile(const char *lines)
{
    char text[4096];
    size_t n = 0;

    for (const char *s = lines; *s; s++) {
        assert_true(n + sizeof TINY < sizeof text);
        if (*s == '@')
            n += (size_t)sprintf(text + n, "%s", TINY);
        else
            text[n++] = *s;
    }
    return keep(scratch_write("Modelfile", text, n));
}

static struct sp_create_options options_for(const char *path, const char *output)
{
    return (struct sp_create_options){.modelfile = path, .output = output, .n_threads = 2};
}

static void create(const char *path, const char *output, enum sp_dtype target, enum sp_dtype draft,
                   unsigned n_threads)
{
    struct sp_create_options o = options_for(path, output);
    struct sp_err err = {0};

    o.target_type = target;
    o.draft_type = draft;
    o.n_threads = n_threads;
    o.force = true;
    if (sp_create(NULL, &o, &err)) fail_msg("%s", err.text);
}

static void requantize(const char *input, const char *output, enum sp_dtype target,
                       enum sp_dtype draft)
{
    struct sp_requantize_options o = {.input = input,
                                      .output = output,
                                      .target_type = target,
                                      .draft_type = draft,
                                      .n_threads = 2,
                                      .force = true};
    struct sp_err err = {0};

    if (sp_requantize(NULL, &o, &err)) fail_msg("%s", err.text);
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = scratch_read(a, &n), *y = scratch_read(b, &m);

    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* Opens, checks every digest and the pairing. */
static struct sp_pack *open_whole(const char *path)
{
    struct sp_pack *pack = NULL;
    struct sp_err err = {0};
    enum sp_status st = sp_pack_open(&pack, path, &err);

    for (size_t i = 0; !st && i < sp_pack_n_tensors(pack); i++) {
        st = sp_pack_check_tensor(pack, i, &err);
    }
    for (size_t i = 0; !st && i < sp_pack_n_sections(pack); i++) {
        st = sp_pack_check_section(pack, i, &err);
    }
    if (!st) st = sp_pairing_check(pack, &err);
    if (st) fail_msg("%s", err.text);
    return pack;
}

/* ---- what is written ---- */

/* 16-bit elements of a checkpoint's tensor, found in the packed file by the layout's definition. */
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
    const struct sp_safetensor *tensors;
    size_t n, n_part = 0;

    assert_int_equal(sp_safetensors_open(&checkpoint, folder, NULL, NULL), SP_OK);
    tensors = sp_safetensors_tensors(checkpoint, &n);
    for (size_t i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        const struct sp_pack_tensor *t;
        uint8_t *bytes = malloc(tensors[i].size);

        if (strncmp(name, "model.", 6) == 0) name += 6;
        t = sp_pack_find(pack, part, name);
        if (t == NULL) fail_msg("%s is missing", name);
        assert_int_equal(
            sp_safetensors_read(checkpoint, &tensors[i], 0, tensors[i].size, bytes, NULL), SP_OK);
        assert_bf16_kept(t, bytes);
        free(bytes);
    }
    sp_safetensors_close(checkpoint);
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        n_part += sp_pack_tensor(pack, i)->part == part;
    }
    assert_int_equal(n_part, n);
}

static void assert_section_is(const struct sp_pack *pack, enum sp_part part,
                              enum sp_section section, const char *path)
{
    char *text = NULL, *want;
    size_t size, want_size;

    assert_int_equal(sp_pack_read_section(pack, part, section, &text, &size, NULL), SP_OK);
    if (!sp_file_exists(path)) {
        assert_null(text);
        return;
    }
    want = scratch_read(path, &want_size);
    assert_int_equal(size, want_size);
    assert_memory_equal(text, want, size);
    free(want);
    free(text);
}

static void test_weights_and_texts_are_kept(void **state)
{
    static const char *const drafts[] = {"dflash", "ar"};
    (void)state;

    for (size_t d = 0; d < 2; d++) {
        char lines[64], path[256];
        const char *out = at("p.bin");
        struct sp_pack *pack;

        snprintf(lines, sizeof lines, "FROM @/target\nDRAFT @/%s", drafts[d]);
        create(modelfile(lines), out, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
        pack = open_whole(out);
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
        sp_pack_close(pack);
    }
}

static void test_records_are_kept(void **state)
{
    const char *out = at("p.bin");
    struct sp_pack *pack;
    char *text = NULL;
    size_t size;
    (void)state;

    create(
        modelfile("# a comment\nFROM @/target\nsystem  \"\"\"Be\nbrief\"\"\" \nPARAMETER seed 7"),
        out, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    pack = open_whole(out);
    assert_int_equal(
        sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &text, &size, NULL), SP_OK);
    assert_string_equal(text, "system  \"\"\"Be\nbrief\"\"\" \nPARAMETER seed 7\n");
    free(text);
    assert_null(sp_pack_find_section(pack, SP_PART_FILE, SP_SECTION_PAIRING));
    sp_pack_close(pack);
}

static void test_pairing_is_recorded(void **state)
{
    static const char want[] =
        "{\"kind\":\"dflash\",\"block_size\":16,\"mask_token_id\":1599,\"target_hidden_size\":192,"
        "\"num_target_layers\":6,\"target_layer_ids\":[0,2,4],\"rope\":[{\"type\":\"default\","
        "\"theta\":10000,\"factor\":1,\"rotated\":64}],\"target\":\"";
    const char *out = at("p.bin");
    struct sp_pack *pack;
    char *text = NULL;
    size_t size;
    (void)state;

    create(modelfile("FROM @/target\nDRAFT @/dflash"), out, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    pack = open_whole(out);
    assert_int_equal(
        sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_PAIRING, &text, &size, NULL), SP_OK);
    assert_memory_equal(text, want, strlen(want));
    free(text);
    sp_pack_close(pack);
}

static void test_threads_change_no_byte(void **state)
{
    static const enum sp_dtype types[] = {SP_DTYPE_NONE, SP_F32, SP_Q8, SP_Q4};
    const char *path = modelfile("FROM @/target\nDRAFT @/dflash");
    const char *one = at("1.bin"), *many = at("n.bin");
    (void)state;

    for (size_t i = 0; i < 4; i++) {
        create(path, one, types[i], types[3 - i], 1);
        create(path, many, types[i], types[3 - i], 2);
        assert_same_file(one, many);
        create(path, many, types[i], types[3 - i], 7);
        assert_same_file(one, many);
    }
}

/* `show --modelfile`, as a function. */
static const char *recreate(const char *pack_path, const char *name)
{
    struct sp_pack *pack = open_whole(pack_path);
    char *records = NULL, *text = NULL;
    size_t records_size, size;
    const char *path;

    assert_int_equal(sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records,
                                          &records_size, NULL),
                     SP_OK);
    assert_int_equal(
        sp_modelfile_recreate(&text, &size, name,
                              sp_pack_find_section(pack, SP_PART_DRAFT, SP_SECTION_CONFIG) != NULL,
                              records, records_size, NULL),
        SP_OK);
    path = keep(scratch_write("Modelfile.again", text, size));
    free(records);
    free(text);
    sp_pack_close(pack);
    return path;
}

static void test_a_packed_file_recreates_itself(void **state)
{
    const char *first = at("first.bin"), *again = at("again.bin");
    (void)state;

    create(modelfile("FROM @/target\nDRAFT @/ar\nPARAMETER stop \"x \"\nSYSTEM hi"), first, SP_Q4,
           SP_Q8, 2);
    create(recreate(first, "first.bin"), again, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(first, again);
}

static void test_quantizing_later_is_the_same(void **state)
{
    const char *path = modelfile("FROM @/target\nDRAFT @/dflash\nPARAMETER seed 1");
    const char *plain = at("plain.bin"), *direct = at("direct.bin");
    const char *later = at("later.bin");
    (void)state;

    create(path, plain, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    create(path, direct, SP_Q4, SP_DTYPE_NONE, 2);
    requantize(plain, later, SP_Q4, SP_DTYPE_NONE);
    assert_same_file(direct, later);
    create(path, direct, SP_Q4, SP_Q8, 2);
    requantize(later, NULL, SP_DTYPE_NONE, SP_Q8); /* in place */
    assert_same_file(direct, later);
    create(path, direct, SP_Q8, SP_Q4, 2);
    create(recreate(plain, "plain.bin"), later, SP_Q8, SP_Q4, 2);
    assert_same_file(direct, later);
}

static void test_parts_of_packed_files(void **state)
{
    const char *ar = at("ar.bin"), *alone = at("alone.bin");
    const char *out = at("out.bin"), *want = at("want.bin");
    (void)state;

    create(modelfile("FROM @/target\nDRAFT @/ar"), ar, SP_Q8, SP_Q8, 2);
    create(modelfile("FROM @/ar"), alone, SP_Q8, SP_DTYPE_NONE, 2);
    create(modelfile("FROM @/target\nDRAFT @/ar"), want, SP_DTYPE_NONE, SP_Q8, 2);
    create(modelfile("FROM @/target\nDRAFT ar.bin"), out, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(out, want);
    /* A file without a draft lends its target. */
    create(modelfile("FROM @/target\nDRAFT alone.bin"), out, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(out, want);
    /* FROM of a pair takes the target alone. */
    create(modelfile("FROM @/target"), want, SP_Q8, SP_DTYPE_NONE, 2);
    create(modelfile("FROM ar.bin"), out, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    assert_same_file(out, want);
}

static void test_a_single_file_serves_as_checkpoint(void **state)
{
    const char *a = at("a.bin"), *b = at("b.bin");
    struct sp_create_options o = options_for(NULL, b);
    (void)state;

    create(modelfile("FROM @/ar"), a, SP_Q8, SP_DTYPE_NONE, 2);
    create(modelfile("FROM @/ar/model.safetensors"), b, SP_Q8, SP_DTYPE_NONE, 2);
    assert_same_file(a, b);
    o.modelfile = modelfile("FROM ~/ar");
    o.home = TINY;
    o.target_type = SP_Q8;
    o.force = true;
    assert_int_equal(sp_create(NULL, &o, NULL), SP_OK);
    assert_same_file(a, b);
}

/* ---- dry run, notes, report ---- */

struct heard {
    char text[65536];
    size_t n_lines;
    int calls, cancel_at;
    uint64_t done, total;
};

static void hear(void *context, const char *line)
{
    struct heard *h = context;

    strncat(h->text, line, sizeof h->text - strlen(h->text) - 2);
    strcat(h->text, "\n");
    h->n_lines++;
}

static int count(void *context, uint64_t done, uint64_t total)
{
    struct heard *h = context;

    assert_true(done >= h->done && done <= total);
    h->done = done;
    h->total = total;
    return ++h->calls == h->cancel_at;
}

static void test_dry_run_shows_the_plan(void **state)
{
    struct sp_create_options o =
        options_for(modelfile("FROM @/target\nDRAFT @/dflash"), at("p.bin"));
    struct sp_create_report dry, wet;
    struct sp_pack *pack;
    struct heard *h = calloc(1, sizeof *h);
    (void)state;

    o.target_type = SP_Q4;
    o.dry_run = true;
    o.sinks = (struct sp_create_sinks){.context = h, .plan = hear};
    assert_int_equal(sp_create(&dry, &o, NULL), SP_OK);
    assert_int_equal(n_files(), 1);
    assert_int_equal(h->n_lines, 1 + 68 + 14);
    assert_non_null(strstr(h->text, "layers.3.mlp.up_proj.weight               [512, 192]         "
                                    "bf16  q4           57344  requested\n"));
    assert_non_null(strstr(h->text, "draft   fc.weight  "));
    assert_int_equal(dry.n_tensors[SP_PART_TARGET], 68);
    assert_int_equal(dry.n_tensors[SP_PART_DRAFT], 14);
    assert_int_equal(dry.n_weights[SP_PART_TARGET], 2669760);
    assert_int_equal(dry.source_size[SP_PART_TARGET], 2 * 2669760);
    assert_int_equal(dry.file_size, 0);

    *h = (struct heard){.cancel_at = -1};
    o.dry_run = false;
    o.sinks = (struct sp_create_sinks){.context = h, .progress = count, .plan = hear};
    assert_int_equal(sp_create(&wet, &o, NULL), SP_OK);
    assert_int_equal(h->n_lines, 0);
    assert_int_equal(h->total, dry.source_size[SP_PART_TARGET] + dry.source_size[SP_PART_DRAFT]);
    assert_int_equal(h->done, h->total);
    assert_int_equal(wet.size[SP_PART_TARGET], dry.size[SP_PART_TARGET]);
    pack = open_whole(o.output);
    assert_int_equal(wet.file_size, sp_pack_size(pack));
    sp_pack_close(pack);
    free(h);
}

static void test_notes_are_told(void **state)
{
    struct sp_create_options o =
        options_for(modelfile("FROM @/target\nPARAMETER num_gpu 1\nRENDERER x"), at("p.bin"));
    struct heard *h = calloc(1, sizeof *h);
    (void)state;

    o.sinks = (struct sp_create_sinks){.context = h, .note = hear};
    assert_int_equal(sp_create(NULL, &o, NULL), SP_OK);
    assert_non_null(strstr(h->text, ":2: PARAMETER num_gpu is stored without effect"));
    assert_non_null(strstr(h->text, ":3: RENDERER is stored without effect"));
    free(h);
}

static enum sp_status refuse_template(const char *text, size_t size, struct sp_err *err)
{
    assert_int_equal(strlen(text), size);
    return sp_fail(err, SP_E_INPUT, "template error");
}

/* ---- refusals ---- */

struct refusal {
    const char *lines;
    enum sp_dtype target, draft;
    enum sp_status status;
    const char *message; /* part of it */
};

static const struct refusal refusals[] = {
    {"FROM nowhere", 0, 0, SP_E_INPUT, "Modelfile:1: FROM: "},
    {"FROM nowhere", 0, 0, SP_E_INPUT, "nowhere: nothing there"},
    {"FROM @", 0, 0, SP_E_INPUT, "no config.json"},
    {"FROM @/README.md", 0, 0, SP_E_INPUT, "neither safetensors nor packed"},
    {"FROM x.gguf", 0, 0, SP_E_UNSUPPORTED, "a GGUF file"},
    {"FROM @/target\nADAPTER x", 0, 0, SP_E_UNSUPPORTED, "Modelfile:2:1: ADAPTER"},
    {"FROM @/target", 0, SP_Q8, SP_E_USAGE, "no DRAFT line"},
    {"FROM @/dflash", 0, 0, SP_E_INPUT, "is a draft"},
    {"FROM @/ar\nDRAFT @/dflash", 0, 0, SP_E_INPUT, "dflash"},
    {"FROM @/target\nDRAFT nowhere", 0, 0, SP_E_INPUT, "Modelfile:2: DRAFT: "},
    {"FROM q4.bin", SP_Q8, 0, SP_E_INPUT, "would lose twice"},
};

static void test_refusals_leave_nothing(void **state)
{
    const char *old = keep(scratch_write("out.bin", "old", 3));
    size_t n;
    (void)state;

    scratch_write("x.gguf", "GGUF\3\0\0\0\0\0\0\0", 12);
    create(modelfile("FROM @/ar"), at("q4.bin"), SP_Q4, SP_DTYPE_NONE, 1);
    n = n_files();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        struct sp_create_options o = options_for(modelfile(r->lines), old);
        struct sp_err err = {0};
        char *text;
        size_t size;

        o.target_type = r->target;
        o.draft_type = r->draft;
        o.force = true;
        if (sp_create(NULL, &o, &err) != r->status || strstr(err.text, r->message) == NULL) {
            fail_msg("refusal %zu: %d \"%s\"", i, (int)err.status, err.text);
        }
        assert_int_equal(n_files(), n);
        text = scratch_read(old, &size);
        assert_string_equal(text, "old");
        free(text);
    }
}

static void test_templates_are_checked(void **state)
{
    struct sp_create_options o = options_for(modelfile("FROM @/ar\nTEMPLATE {{"), at("p.bin"));
    struct sp_err err = {0};
    (void)state;

    o.check_template = refuse_template;
    assert_int_equal(sp_create(NULL, &o, &err), SP_E_INPUT);
    assert_non_null(strstr(err.text, "Modelfile:2: TEMPLATE: template error"));
}

static void test_existing_output_needs_force(void **state)
{
    struct sp_create_options o =
        options_for(modelfile("FROM @/ar"), keep(scratch_write("out.bin", "old", 3)));
    struct sp_requantize_options q = {.input = at("in.bin"), .target_type = SP_Q8};
    (void)state;

    assert_int_equal(sp_create(NULL, &o, NULL), SP_E_USAGE);
    create(o.modelfile, q.input, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    q.output = o.output;
    assert_int_equal(sp_requantize(NULL, &q, NULL), SP_E_USAGE);
    assert_int_equal(n_files(), 3);
}

/* Nor does force cost a file that is no packed one: a Modelfile, say, or the checkpoint itself. */
static void test_force_replaces_packed_files_only(void **state)
{
    struct sp_create_options o =
        options_for(modelfile("FROM @/ar"), keep(scratch_write("out.bin", "my thesis", 9)));
    struct sp_err err = {0};
    char *text;
    size_t size;
    (void)state;

    o.force = true;
    assert_int_equal(sp_create(NULL, &o, &err), SP_E_USAGE);
    assert_non_null(
        strstr(err.text, "out.bin exists and is no packed file; --force replaces only"));
    text = scratch_read(o.output, &size);
    assert_int_equal(size, 9);
    assert_memory_equal(text, "my thesis", 9);
    free(text);
    assert_int_equal(n_files(), 2);
    keep(scratch_write("out.bin", "", 0));
    assert_int_equal(sp_create(NULL, &o, NULL), SP_OK);
    assert_int_equal(sp_create(NULL, &o, NULL), SP_OK);
}

static void test_requantize_refusals(void **state)
{
    struct sp_requantize_options q = {.input = at("q4.bin"), .n_threads = 1};
    struct sp_err err = {0};
    (void)state;

    create(modelfile("FROM @/ar"), q.input, SP_Q4, SP_DTYPE_NONE, 1);
    assert_int_equal(sp_requantize(NULL, &q, &err), SP_E_USAGE);
    assert_non_null(strstr(err.text, "no type is asked for"));
    q.draft_type = SP_Q8;
    err = (struct sp_err){0};
    assert_int_equal(sp_requantize(NULL, &q, &err), SP_E_USAGE);
    assert_non_null(strstr(err.text, "no draft"));
    q.draft_type = SP_DTYPE_NONE;
    q.target_type = SP_Q8;
    err = (struct sp_err){0};
    assert_int_equal(sp_requantize(NULL, &q, &err), SP_E_INPUT);
    assert_non_null(strstr(err.text, "--requantize"));
    q.allow_lossy = true;
    assert_int_equal(sp_requantize(NULL, &q, NULL), SP_OK);
    sp_pack_close(open_whole(q.input));
    q.input = TINY "/ar/model.safetensors";
    err = (struct sp_err){0};
    assert_int_equal(sp_requantize(NULL, &q, &err), SP_E_INPUT);
    assert_non_null(strstr(err.text, "not a packed file"));
}

/* The small model with one bf16 weight replaced: a folder "bad". */
static void bad_model(const char *tensor, uint64_t element, uint16_t bits)
{
    static const char *const texts[] = {"config.json", "tokenizer.json"};
    struct sp_safetensors *checkpoint = NULL;
    const struct sp_safetensor *t;
    char *bytes;
    size_t size, where;

    mkdir(scratch_path("bad"), 0777);
    for (size_t i = 0; i < 2; i++) {
        char from[256], to[64];

        snprintf(from, sizeof from, "%s/ar/%s", TINY, texts[i]);
        snprintf(to, sizeof to, "bad/%s", texts[i]);
        bytes = scratch_read(from, &size);
        scratch_write(to, bytes, size);
        free(bytes);
    }
    assert_int_equal(sp_safetensors_open(&checkpoint, TINY "/ar", NULL, NULL), SP_OK);
    t = sp_safetensors_find(checkpoint, tensor);
    assert_non_null(t);
    where = (size_t)(t->offset + 2 * element);
    sp_safetensors_close(checkpoint);
    bytes = scratch_read(TINY "/ar/model.safetensors", &size);
    bytes[where] = (char)(bits & 0xFF);
    bytes[where + 1] = (char)(bits >> 8);
    scratch_write("bad/model.safetensors", bytes, size);
    free(bytes);
}

struct bad_weight {
    const char *tensor;
    uint64_t element;
    uint16_t bits;
    enum sp_dtype type;
    const char *place; /* NULL: no error */
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

static void test_bad_weights_are_named(void **state)
{
    struct sp_create_options o = options_for(modelfile("FROM bad"), at("p.bin"));
    (void)state;

    o.force = true;
    for (size_t i = 0; i < sizeof bad_weights / sizeof bad_weights[0]; i++) {
        const struct bad_weight *b = &bad_weights[i];
        struct sp_err err = {0};
        enum sp_status st;

        bad_model(b->tensor, b->element, b->bits);
        o.target_type = b->type;
        st = sp_create(NULL, &o, &err);
        if (b->place == NULL) {
            if (st) fail_msg("weight %zu: %s", i, err.text);
        } else {
            if (st != SP_E_INPUT || strstr(err.text, b->place) == NULL) {
                fail_msg("weight %zu: %d \"%s\"", i, (int)st, err.text);
            }
            assert_false(sp_file_exists(o.output));
        }
        assert_int_equal(n_files(), b->place ? 2 : 3);
    }
}

static void test_damage_is_not_passed_on(void **state)
{
    const char *in = at("in.bin");
    struct sp_requantize_options q = {
        .input = in, .output = at("out.bin"), .target_type = SP_Q8, .n_threads = 2};
    static const char *const tensors[] = {"layers.0.mlp.up_proj.weight", "norm.weight"};
    (void)state;

    for (size_t i = 0; i < 4; i++) {
        struct sp_err err = {0};
        struct sp_pack *pack;
        char *bytes;
        size_t size, where;

        create(modelfile("FROM @/ar"), in, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
        pack = open_whole(in);
        bytes = scratch_read(in, &size);
        where = 4096 + (size_t)(sp_pack_find(pack, SP_PART_TARGET, tensors[i % 2])->data -
                                sp_pack_find(pack, SP_PART_TARGET, "embed_tokens.weight")->data);
        sp_pack_close(pack);
        if (i < 2)
            bytes[where] ^= 1;
        else
            memcpy(bytes + where, "\xff\x7f\xff\x7f", 4); /* NaN: not what is wrong first */
        scratch_write("in.bin", bytes, size);
        free(bytes);
        assert_int_equal(sp_requantize(NULL, &q, &err), SP_E_INPUT);
        assert_non_null(strstr(err.text, tensors[i % 2]));
        assert_non_null(strstr(err.text, "digest"));
        assert_int_equal(n_files(), 2);
    }
}

/* ---- memory ---- */

enum { LARGE_ROWS = 1000000, LARGE_COLS = 64 };

/* A tensor of a safetensors header, at *end, which moves on. */
static size_t describe(char *text, const char *name, unsigned rows, unsigned cols, uint64_t *end)
{
    uint64_t begin = *end;
    char shape[32];

    *end += 2ull * (rows ? rows : 1) * cols;
    snprintf(shape, sizeof shape, rows ? "%u,%u" : "%.0u%u", rows, cols);
    return (size_t)sprintf(
        text, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", name,
        shape, (unsigned long long)begin, (unsigned long long)*end);
}

/* A checkpoint of 128 MB in the folder "large", most of it never written. */
static void make_large_checkpoint(void)
{
    static const char *const vectors[] = {"input_layernorm", "post_attention_layernorm",
                                          "self_attn.q_norm", "self_attn.k_norm"};
    static const char *const matrices[] = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    static const char config[] =
        "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\",\"vocab_size\":1000000,"
        "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,\"rope_theta\":10000,"
        "\"tie_word_embeddings\":true,\"hidden_size\":64,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"head_dim\":64,"
        "\"intermediate_size\":64,\"hidden_act\":\"silu\",\"eos_token_id\":0}";
    char text[8192], name[128];
    uint8_t size[8];
    uint64_t end = 0;
    size_t n;
    FILE *f;

    assert_int_equal(mkdir(scratch_path("large"), 0700), 0);
    scratch_write("large/config.json", config, sizeof config - 1);
    n = describe(text, "model.embed_tokens.weight", LARGE_ROWS, LARGE_COLS, &end);
    text[0] = '{';
    n += describe(text + n, "model.norm.weight", 0, LARGE_COLS, &end);
    for (size_t i = 0; i < 11; i++) {
        snprintf(name, sizeof name, "model.layers.0.%s.weight",
                 i < 4 ? vectors[i] : matrices[i - 4]);
        n += describe(text + n, name, i < 4 ? 0 : LARGE_COLS, LARGE_COLS, &end);
    }
    text[n++] = '}';
    sp_put64(size, n);
    f = fopen(scratch_path("large/model.safetensors"), "wb");
    assert_non_null(f);
    fwrite(size, 8, 1, f);
    fwrite(text, n, 1, f);
    for (unsigned i = 0; i < 64; i++) { /* some numbers here and there */
        fseek(f, (long)(8 + n + i * 1999998ul), SEEK_SET);
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

/* Of a checkpoint and of a packed file, neither a tensor's size nor what is mapped matters; and the
 * many chunks of a large tensor come in order, whoever converts them. */
static void test_memory_is_bounded(void **state)
{
    const char *packed = at("packed.bin"), *one = at("one.bin"), *two = at("two.bin"), *path;
    int status;
    pid_t child;
    (void)state;

    make_large_checkpoint();
    path = modelfile("FROM ./large");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sp_create_options as_it_is = options_for(path, packed), q4 = options_for(path, one);
        struct sp_requantize_options again = {
            .input = packed, .output = two, .target_type = SP_Q4, .n_threads = 2};
        long before = peak_kib();

        q4.target_type = SP_Q4;
        if (sp_create(NULL, &as_it_is, NULL) || sp_create(NULL, &q4, NULL)) _exit(1);
        if (sp_requantize(NULL, &again, NULL)) _exit(2);
        _exit(peak_kib() - before < MOST_GROWTH_KIB ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_same_file(one, two);
    create(path, two, SP_Q4, SP_DTYPE_NONE, 1);
    assert_same_file(one, two);
}

static void test_cancelling_leaves_nothing(void **state)
{
    struct sp_create_options o = options_for(modelfile("FROM @/target"), at("p.bin"));
    struct heard *h = calloc(1, sizeof *h);
    struct sp_err err = {0};
    (void)state;

    h->cancel_at = 1;
    o.sinks = (struct sp_create_sinks){.context = h, .progress = count};
    assert_int_equal(sp_create(NULL, &o, &err), SP_E_CHECK);
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(h->calls, 1);
    assert_int_equal(n_files(), 1);
    free(h);
}

/* ---- failing and dying while writing ---- */

/* Runs create in a child whose files may not exceed `limit` bytes; its status. */
static int create_within(const char *path, const char *output, rlim_t limit)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct sp_create_options o = options_for(path, output);
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

static void test_a_full_disk_leaves_the_old_file(void **state)
{
    const char *path = modelfile("FROM @/ar"), *out = at("out.bin");
    const char *want = at("want.bin"), *old = at("old.bin");
    size_t size;
    (void)state;

    create(path, want, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    free(scratch_read(want, &size));
    create(path, old, SP_Q4, SP_DTYPE_NONE, 2);
    create(path, out, SP_Q4, SP_DTYPE_NONE, 2);
    for (size_t limit = 0; limit < size; limit += 1 + size / 23) {
        assert_int_equal(create_within(path, out, limit), SP_E_IO);
        assert_same_file(out, old);
        assert_int_equal(n_files(), 4);
    }
    assert_int_equal(create_within(path, out, size - 1), SP_E_IO);
    assert_same_file(out, old);
    assert_int_equal(create_within(path, out, size), SP_OK);
    assert_same_file(out, want);
}

static void test_a_kill_leaves_old_or_new(void **state)
{
    const char *path = modelfile("FROM @/target\nDRAFT @/dflash"), *out = at("out.bin");
    const char *a = at("a.bin"), *b = at("b.bin");
    unsigned n_new = 0;
    struct timespec begin, end;
    long step;
    (void)state;

    create(path, a, SP_Q8, SP_Q8, 2);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    create(path, b, SP_BF16, SP_DTYPE_NONE, 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    step = ((end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec) / 16;
    for (int i = 0; i < 24; i++) {
        struct timespec nap = {.tv_sec = i * step / 1000000000L, .tv_nsec = i * step % 1000000000L};
        struct sp_pack *pack;
        size_t size;
        char *bytes = scratch_read(a, &size);
        pid_t child;

        scratch_write("out.bin", bytes, size);
        free(bytes);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            create(path, out, SP_BF16, SP_DTYPE_NONE, 1);
            _exit(0);
        }
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        pack = open_whole(out);
        if (sp_pack_tensor(pack, 0)->dtype == SP_BF16) {
            assert_same_file(out, b);
            n_new++;
        } else {
            assert_same_file(out, a);
        }
        sp_pack_close(pack);
    }
    print_message("%u of 24 children finished\n", n_new);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_weights_and_texts_are_kept),
        T(test_records_are_kept),
        T(test_pairing_is_recorded),
        T(test_threads_change_no_byte),
        T(test_a_packed_file_recreates_itself),
        T(test_quantizing_later_is_the_same),
        T(test_parts_of_packed_files),
        T(test_a_single_file_serves_as_checkpoint),
        T(test_dry_run_shows_the_plan),
        T(test_notes_are_told),
        T(test_refusals_leave_nothing),
        T(test_templates_are_checked),
        T(test_existing_output_needs_force),
        T(test_force_replaces_packed_files_only),
        T(test_requantize_refusals),
        T(test_bad_weights_are_named),
        T(test_damage_is_not_passed_on),
        T(test_memory_is_bounded),
        T(test_cancelling_leaves_nothing),
        T(test_a_full_disk_leaves_the_old_file),
        T(test_a_kill_leaves_old_or_new),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
