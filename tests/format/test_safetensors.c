/* format/safetensors.h. The files in testdata/corrupt/safetensors and the expected outcomes come
 * from tests/oracle/corrupt_safetensors.py, which also runs the safetensors package. Indexes and
 * large files are written here. */
#include <sys/stat.h>
#include <sys/resource.h>
#include <unistd.h>

#include "format/base/bytes.h"
#include "format/safetensors.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

/* Writes a file with this header and `size` data bytes 0, 1, 2, ... */
static void write_shard(const char *name, const char *header, size_t size)
{
    size_t n = strlen(header);
    uint8_t *bytes = keep(malloc(8 + n + size));

    assert_non_null(bytes);
    sp_put64(bytes, n);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < size; i++)
        bytes[8 + n + i] = (uint8_t)i;
    scratch_write(name, bytes, 8 + n + size);
}

static void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

TEST(corrupt_files_are_refused)
{
    static const char folder[] = TESTDATA "/corrupt/safetensors/";
    char path[512], expected[700], *line, *rest;
    size_t size, n = 0;

    snprintf(path, sizeof path, "%scases.txt", folder);
    char *cases = scratch_read(path, &size);
    for (line = strtok_r(cases, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        struct sp_safetensors *c = NULL;
        struct sp_err err = {0};
        char *sentence = strchr(line, '\t');
        assert_non_null(sentence);
        *sentence++ = '\0';
        snprintf(path, sizeof path, "%s%s.safetensors", folder, line);
        enum sp_status st = sp_safetensors_open(&c, path, NULL, &err);
        snprintf(expected, sizeof expected, "%s: %s", path, sentence);
        if (strcmp(sentence, "ok") == 0) {
            if (st) fail_msg("%s", err.text);
            sp_safetensors_close(c);
        } else {
            assert_int_equal(st, strcmp(line, "rank-9") == 0 ? SP_E_UNSUPPORTED : SP_E_INPUT);
            assert_string_equal(err.text, expected);
            assert_null(c);
        }
    }
    assert_int_equal(n, 79);
}

TEST(tensors_are_found_and_read)
{
    struct sp_safetensors *c = NULL;
    static const char header[] = "{\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]"
                                 "},\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";
    uint8_t buffer[12] = {0};
    size_t n;

    write_shard("x.safetensors", header, 16);
    assert_ok(sp_safetensors_open(&c, scratch_path("x.safetensors"), NULL, NULL));
    const struct sp_safetensor *all = sp_safetensors_tensors(c, &n);
    assert_int_equal(n, 2);
    assert_string_equal(all[0].name, "a");
    assert_int_equal(all[0].rank, 0);
    const struct sp_safetensor *t = sp_safetensors_find(c, "b");
    assert_ptr_equal(t, all + 1);
    assert_int_equal(t->dtype, SP_F16);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->size, 12);
    assert_int_equal(t->offset, 8 + strlen(header) + 4);
    assert_ok(sp_safetensors_read(t, 2, 5, buffer, NULL));
    assert_memory_equal(buffer, "\x06\x07\x08\x09\x0a", 6);
    assert_ok(sp_safetensors_read(t, 12, 0, buffer, NULL));
    assert_int_equal(sp_safetensors_read(t, 2, 11, buffer, NULL), SP_E_BUG);
    assert_null(sp_safetensors_find(c, "c"));
    assert_int_equal(sp_safetensors_n_shards(c), 1);
    sp_safetensors_close(c);
    sp_safetensors_close(NULL);
}

#define ENTRY(name, begin, end)                                                                    \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" #begin "," #end "]}"

/* Writes two shards: one with the tensors "a" and "b", the other with "c". */
static void write_two_shards(void)
{
    write_shard("one.safetensors", "{" ENTRY("a", 0, 1) "," ENTRY("b", 1, 2) "}", 2);
    write_shard("two.safetensors", "{" ENTRY("c", 0, 1) "}", 1);
}

static void write_index(const char *map)
{
    write_text("model.safetensors.index.json",
               keep_format("{\"metadata\":{\"total_size\":99},\"weight_map\":%s}", map));
}

TEST(shards_and_their_index)
{
    struct sp_safetensors *c = NULL;
    char *warnings = NULL;
    uint8_t byte = 77;
    size_t n;

    write_two_shards();
    write_index("{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\",\"c\":\"two.safetensors\"}");
    assert_ok(sp_safetensors_open(&c, scratch_folder(), &warnings, NULL));
    assert_null(warnings);
    (void)sp_safetensors_tensors(c, &n);
    assert_int_equal(n, 3);
    assert_int_equal(sp_safetensors_n_shards(c), 2);
    assert_non_null(strstr(sp_file_path(sp_safetensors_find(c, "c")->file), "/two.safetensors"));
    assert_ok(sp_safetensors_read(sp_safetensors_find(c, "b"), 0, 1, &byte, NULL));
    assert_int_equal(byte, 1);
    sp_safetensors_close(c);

    write_index("{\"a\":\"one.safetensors\",\"c\":\"two.safetensors\"}");
    assert_ok(sp_safetensors_open(&c, scratch_folder(), &warnings, NULL));
    assert_string_equal(warnings,
                        "1 tensors are in the shards but not in model.safetensors.index.json, the "
                        "first is b");
    sp_safetensors_close(c);

    write_shard("model.safetensors", "{" ENTRY("z", 0, 1) "}", 1);
    assert_ok(sp_safetensors_open(&c, scratch_folder(), &warnings, NULL));
    assert_non_null(strstr(
        warnings, "first is b\nmodel.safetensors and model.safetensors.index.json are both"));
    assert_non_null(sp_safetensors_find(c, "z"));
    assert_null(sp_safetensors_find(c, "a"));
    sp_safetensors_close(c);
    free(warnings);
}

TEST(wrong_indexes_are_refused)
{
    static const struct {
        const char *map, *sentence;
        enum sp_status status;
    } cases[] = {
        {"{\"a\":\"../one.safetensors\"}",
         "tensor a: shard \"../one.safetensors\" is not a plain file name", SP_E_INPUT},
        {"{\"a\":\"..\"}", "is not a plain file name", SP_E_INPUT},
        {"{\"a\":\".\"}", "is not a plain file name", SP_E_INPUT},
        {"{\"a\":\"\"}", "is not a plain file name", SP_E_INPUT},
        {"{\"a\":\"/etc/passwd\"}", "is not a plain file name", SP_E_INPUT},
        {"{\"a\":\"x\\\\one.safetensors\"}", "is not a plain file name", SP_E_INPUT},
        {"{\"a\":\"one.safetensors\\u0000\"}", "is not a plain file name", SP_E_INPUT},
        {"{\"a\":\"three.safetensors\"}", "three.safetensors: No such file", SP_E_IO},
        {"{\"d\":\"one.safetensors\"}", "tensor d is not in its shard one.safetensors", SP_E_INPUT},
        {"{\"a\":\"one.safetensors\",\"c\":\"one.safetensors\"}", "tensor c is not in its shard",
         SP_E_INPUT},
        {"{\"b\":\"two.safetensors\",\"c\":\"one.safetensors\"}", "weight_map says", SP_E_INPUT},
        {"{\"a\":\"one.safetensors\",\"b\":\"same.safetensors\"}", "tensor a is in ", SP_E_INPUT},
        {"{\"a\":\"one.safetensors\",\"a\":\"two.safetensors\"}", "key \"a\" occurs twice",
         SP_E_INPUT},
        {"{\"a\":3}", "tensor a: weight_map has a value of kind integer, expected a file's name",
         SP_E_INPUT},
        {"{\"a\":null}", "tensor a: weight_map has a value of kind null", SP_E_INPUT},
        {"[]", "weight_map is missing, empty or no object", SP_E_INPUT},
        {"{}", "weight_map is missing, empty or no object", SP_E_INPUT},
    };

    write_two_shards();
    write_shard("same.safetensors", "{" ENTRY("a", 0, 1) "," ENTRY("b", 1, 2) "}", 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_safetensors *c = NULL;
        write_index(cases[i].map);
        assert_fails(sp_safetensors_open(&c, scratch_folder(), NULL, why), cases[i].status,
                     cases[i].sentence);
    }
}

TEST(non_checkpoints_are_refused)
{
    struct sp_safetensors *c = NULL;

    assert_fails(sp_safetensors_open(&c, scratch_folder(), NULL, why), SP_E_INPUT,
                 "neither model.safetensors nor model.safetensors.index.json exists");
    write_text("model.safetensors.index.json", "{\"metadata\":{}}");
    assert_fails(sp_safetensors_open(&c, scratch_folder(), NULL, why), SP_E_INPUT,
                 "index.json: weight_map is missing");
    assert_int_equal(mkfifo(scratch_path("model.safetensors"), 0600), 0);
    assert_fails(sp_safetensors_open(&c, scratch_folder(), NULL, why), SP_E_INPUT,
                 "model.safetensors is a FIFO, expected a file");
    assert_int_equal(sp_safetensors_open(&c, scratch_path("none"), NULL, NULL), SP_E_IO);
    assert_null(c);
}

TEST(a_file_that_shrinks_is_an_error)
{
    struct sp_safetensors *c = NULL;
    struct sp_err err = {0};
    uint8_t byte;

    write_shard("x.safetensors", "{" ENTRY("t", 0, 1) "}", 1);
    assert_ok(sp_safetensors_open(&c, scratch_path("x.safetensors"), NULL, NULL));
    assert_int_equal(truncate(scratch_path("x.safetensors"), 20), 0);
    assert_int_equal(sp_safetensors_read(sp_safetensors_find(c, "t"), 0, 1, &byte, &err), SP_E_IO);
    assert_non_null(strstr(err.text, "tensor t: "));
    assert_non_null(strstr(err.text, "ends at byte"));
    sp_safetensors_close(c);
}

/* Two hundred thousand entries that all begin at 0, and as many in reverse order. A quadratic
 * algorithm would take minutes, and a tree of the whole JSON 340 MB. */
TEST(many_entries)
{
    enum { N = 200000 };
    char *header = keep(malloc(N * 80));
    struct sp_safetensors *c = NULL;
    struct rusage used;

    assert_non_null(header);
    for (int full = 0; full < 2; full++) {
        size_t len = 0, n;
        for (int i = 0; i < N; i++) {
            int at = full ? N - 1 - i : 0;
            len += (size_t)sprintf(
                header + len,
                "%s\"layers.%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}",
                i ? "," : "{", i, full, at, at + full);
        }
        strcpy(header + len, "}");
        write_shard("x.safetensors", header, full ? N : 0);
        assert_ok(sp_safetensors_open(&c, scratch_path("x.safetensors"), NULL, NULL));
        (void)sp_safetensors_tensors(c, &n);
        assert_int_equal(n, N);
        assert_non_null(sp_safetensors_find(c, "layers.123456"));
        sp_safetensors_close(c);
    }
#ifndef SP_SANITIZED
    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    assert_in_range(used.ru_maxrss, 0, 150000); /* kB */
#else
    (void)used;
#endif
}

/* A header with one entry more than a checkpoint may have tensors is refused before its tables are
 * allocated, and so is an index whose tree would take 500 MB. */
TEST(too_many_entries)
{
    enum { N = SP_SAFETENSORS_MAX_TENSORS + 1 };
    char *text = keep(malloc(N * 30));
    struct sp_safetensors *c = NULL;
    size_t len = 0;

    assert_non_null(text);
    for (int i = 0; i < N; i++)
        len += (size_t)sprintf(text + len, "%s\"%d\":0", i ? "," : "{", i);
    strcpy(text + len, "}");
    write_shard("x.safetensors", text, 0);
    assert_fails(sp_safetensors_open(&c, scratch_path("x.safetensors"), NULL, why),
                 SP_E_UNSUPPORTED, "header has 524289 entries, at most 524288 are supported");
    len = (size_t)sprintf(text, "{\"weight_map\":");
    for (int i = 0; i < N; i++)
        len += (size_t)sprintf(text + len, "%s\"%d\":{}", i ? "," : "{", i);
    strcpy(text + len, "}}");
    write_text("model.safetensors.index.json", text);
    assert_fails(sp_safetensors_open(&c, scratch_folder(), NULL, why), SP_E_INPUT,
                 " MB of memory, more than the 256 allowed");
}

TEST_FIXTURE(NULL, scratch_teardown);
