/* Tests receipts: the check of every member, joining, and files with them: their version, their
 * bytes, and what becomes of receipts of other weights. */
#include "format/receipts.h"
#include "format/packfile_copy.h"
#include "format/packfile_write.h"
#include "tests/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET "\"target\":\"00000000000000aa\""
#define DRAFT "\"draft\":\"00000000000000bb\""
#define TEXTS                                                                                      \
    "\"texts\":[{\"name\":\"a.txt\",\"digest\":\"0123456789abcdef0123456789abcdef\","              \
    "\"positions\":7}]"
#define MEASURED "\"kv_type\":\"f16\",\"window\":8,\"stride\":4,"
#define EVALUATION(results)                                                                        \
    "{\"kind\":\"evaluation\"," TARGET "," MEASURED TEXTS ",\"results\":" results "}"
#define DRAFTING(tokens)                                                                           \
    "{\"kind\":\"drafting\"," TARGET "," DRAFT ",\"kv_type\":\"f16\",\"draft_length\":3,"          \
    "\"places\":2,\"predict\":9," TEXTS ",\"results\":[{\"rounds\":1,\"tokens\":" tokens           \
    ",\"drafted\":3,\"accepted\":1}]}"
#define TRIAL                                                                                      \
    "{\"type\":\"q4\",\"size\":9,\"draft_length\":2,\"round_bytes\":70,\"tokens_per_round\":1.5,"
#define DRAFT_TYPE(results)                                                                        \
    "{\"kind\":\"draft-type\"," TARGET "," DRAFT ",\"type\":\"q4\",\"plain_bytes\":50," TEXTS      \
    ",\"results\":" results "}"
#define TYPES "{\"kind\":\"types\"," TARGET ",\"size\":500,\"predicted_kl\":0.25}"

static const struct sp_part_digests digests = {0xaa, 0xbb};

static const char *const good[] = {
    "[" TYPES "]",
    "[{\"kind\":\"types\"," TARGET ",\"bits\":3.75}]",
    "[" DRAFT_TYPE("[" TRIAL "\"speed_up\":1.25}," TRIAL "\"speed_up\":1}]") "]",
    "[" DRAFTING("2") "," EVALUATION("[{\"loss\":[1.5,null]}]") "]",
    "[" EVALUATION("[{\"loss\":[2,0.25],\"divergence\":[1e-3,0],\"agreement\":[1,0]}]") "]",
    "[{\"kind\":\"evaluation\"," TARGET ",\"reference_name\":\"b.bin\","
    "\"reference\":\"fedcba9876543210\"," MEASURED TEXTS ",\"results\":[{\"loss\":[2,0.5]}]}]",
};

static const struct {
    const char *text, *sentence;
} bad[] = {
    {"", "JSON"},
    {"{}", "receipts: not a list of 1 to 1000 receipts"},
    {"[]", "receipts: not a list of 1 to 1000 receipts"},
    {"[1]", "receipts: receipt 1: its kind is not known"},
    {"[{\"kind\":\"other\"}]", "receipts: receipt 1: its kind is not known"},
    {"[" TYPES ",{\"kind\":\"types\"}]", "receipts: receipt 2: member target is missing"},
    {"[{\"kind\":\"types\",\"size\":500}]", "receipt 1: member size is not valid at its place"},
    {"[{\"kind\":\"types\",\"target\":\"00000000000000AA\"}]", "member target is not valid"},
    {"[{\"kind\":\"types\",\"target\":\"aa\"}]", "member target is not valid"},
    {"[{\"kind\":\"types\",\"target\":\"00000000000000ab\"}]",
     "receipt 1: it is about weights that the file does not have"},
    {"[{\"kind\":\"types\"," TARGET ",\"bits\":2,\"size\":500}]", "member size is not valid"},
    {"[{\"kind\":\"types\"," TARGET ",\"size\":-1}]", "member size is not valid"},
    {"[{\"kind\":\"types\"," TARGET ",\"size\":1.5}]", "member size is not valid"},
    {"[{\"kind\":\"types\"," TARGET ",\"bits\":\"3\"}]", "member bits is not valid"},
    {"[{\"kind\":\"types\"," TARGET ",\"more\":1}]", "member more is not valid"},
    {"[" DRAFT_TYPE("[" TRIAL "\"speed_up\":null}]") "]", "member results is not valid"},
    {"[" DRAFT_TYPE("[" TRIAL "\"speed_up\":1},{\"type\":\"q9\"}]") "]",
     "member results is not valid"},
    {"[" DRAFT_TYPE("[]") "]", "member results is not valid"},
    {"[{\"kind\":\"draft-type\"," TARGET "," DRAFT ",\"type\":\"best\"}]",
     "member type is not valid"},
    {"[" EVALUATION("[]") "]", "member results is not valid"},
    {"[" EVALUATION("[{}]") "]", "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":1}]") "]", "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":[1]}]") "]", "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":[null,1]}]") "]", "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":[1,-1]}]") "]", "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":[1,1,1]}]") "]", "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":[1,1],\"agreement\":[1,1],\"divergence\":[1,1]}]") "]",
     "member results is not valid"},
    {"[" EVALUATION("[{\"loss\":[1,1]},{\"loss\":[1,1]}]") "]", "member results is not valid"},
    {"[{\"kind\":\"evaluation\"," TARGET "," MEASURED "\"texts\":[{\"name\":\"a\\u001b\","
     "\"digest\":\"0123456789abcdef0123456789abcdef\",\"positions\":7}],\"results\":[]}]",
     "member texts is not valid"},
    {"[{\"kind\":\"evaluation\"," TARGET "," MEASURED "\"texts\":[{\"name\":\"\","
     "\"digest\":\"0123456789abcdef0123456789abcdef\",\"positions\":7}],\"results\":[]}]",
     "member texts is not valid"},
    {"[{\"kind\":\"evaluation\"," TARGET "," MEASURED "\"texts\":[{\"name\":\"a\","
     "\"digest\":\"0123456789abcdef\",\"positions\":7}],\"results\":[]}]",
     "member texts is not valid"},
    {"[{\"kind\":\"drafting\"," TARGET ",\"kv_type\":\"f16\"}]", "member kv_type is not valid"},
};

static void members_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct sp_json *receipts = NULL;
        struct sp_err err = {0};

        if (sp_receipts_parse(&receipts, good[i], strlen(good[i]), &digests, &err))
            fail_msg("%s: %s", good[i], err.text);
        sp_json_free(receipts);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sp_json *receipts = NULL;
        struct sp_err err = {0};

        if (sp_receipts_parse(&receipts, bad[i].text, strlen(bad[i].text), &digests, &err) !=
                SP_E_INPUT ||
            (i && strstr(err.text, bad[i].sentence) == NULL))
            fail_msg("%s: \"%s\", expected \"%s\"", bad[i].text, err.text, bad[i].sentence);
        assert_null(receipts);
    }
}

/* `before` is a list or NULL. */
static char *join(const char *before, const char *added, const struct sp_part_digests *of,
                  size_t *n_dropped)
{
    struct sp_json *receipts = NULL;
    char *text = NULL;
    size_t size;

    if (before)
        assert_int_equal(sp_receipts_parse(&receipts, before, strlen(before), &digests, NULL),
                         SP_OK);
    assert_int_equal(sp_receipts_join(&text, &size, n_dropped, receipts, added, of, NULL), SP_OK);
    assert_int_equal(size, text ? strlen(text) : 0);
    sp_json_free(receipts);
    return text;
}

static void receipts_are_joined(void **state)
{
    static const char both[] = "[" DRAFTING("2") "," TYPES "]";
    static const struct sp_part_digests other_draft = {0xaa, 0xcc}, other_target = {0xab, 0xbb};
    const struct {
        const char *before, *added, *after;
        const struct sp_part_digests *digests;
        size_t n_dropped;
    } cases[] = {
        {NULL, NULL, NULL, &digests, 0},
        {NULL, TYPES, "[" TYPES "]", &digests, 0},
        {both, NULL, both, &digests, 0},
        {both, DRAFTING("3"), "[" DRAFTING("3") "," TYPES "]", &digests, 0},
        {both, EVALUATION("[{\"loss\":[1,1]}]"),
         "[" DRAFTING("2") "," TYPES "," EVALUATION("[{\"loss\":[1,1]}]") "]", &digests, 0},
        {both, NULL, "[" TYPES "]", &other_draft, 1},
        {both, NULL, NULL, &other_target, 2},
        {both, EVALUATION("[{\"loss\":[1,1]}]"), "[" EVALUATION("[{\"loss\":[1,1]}]") "]",
         &other_target, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_dropped = 9;
        char *text = join(cases[i].before, cases[i].added, cases[i].digests, &n_dropped);

        assert_int_equal(n_dropped, cases[i].n_dropped);
        if (cases[i].after)
            assert_string_equal(text, cases[i].after);
        else
            assert_null(text);
        free(text);
    }
}

static void receipts_are_bounded(void **state)
{
    size_t size = sizeof TYPES * (SP_RECEIPTS_MAX + 1), n = 0, n_dropped;
    char *list = malloc(size + 3), *text = NULL;
    struct sp_json *receipts = NULL;
    struct sp_err err = {0};

    (void)state;
    for (int i = 0; i < SP_RECEIPTS_MAX; i++)
        n += (size_t)sprintf(list + n, "%c" TYPES, i ? ',' : '[');
    sprintf(list + n, "]");
    assert_int_equal(sp_receipts_parse(&receipts, list, n + 1, &digests, NULL), SP_OK);
    assert_int_equal(sp_receipts_join(&text, &size, &n_dropped, receipts,
                                      EVALUATION("[{\"loss\":[1,1]}]"), &digests, &err),
                     SP_E_UNSUPPORTED);
    assert_string_equal(err.text, "a packed file has at most 1000 receipts");
    assert_null(text);
    sp_json_free(receipts);
    receipts = NULL;
    sprintf(list + n, "," TYPES "]");
    assert_int_equal(sp_receipts_parse(&receipts, list, strlen(list), &digests, NULL), SP_E_INPUT);
    free(list);
}

/* ---- files ------------------------------------------------------------------------------------
 */

/* Writes a file of one tensor and one section. */
static const char *write_file(const char *name)
{
    const char *path = scratch_path(name);
    struct sp_pack_tensor tensor = {.name = "norm.weight",
                                    .part = SP_PART_TARGET,
                                    .dtype = SP_F32,
                                    .layout = SP_PLAIN,
                                    .rank = 1,
                                    .shape = {2}};
    struct sp_pack_writer *w = NULL;

    assert_int_equal(sp_pack_writer_open(&w, path, false, &tensor, 1, NULL), SP_OK);
    assert_int_equal(sp_pack_writer_section(w, SP_PART_TARGET, SP_SECTION_CONFIG, "{}", 2, NULL),
                     SP_OK);
    assert_int_equal(sp_pack_writer_put(w, 0, "abcdefgh", 8, NULL), SP_OK);
    assert_int_equal(sp_pack_writer_finish(w, NULL, NULL), SP_OK);
    sp_pack_writer_close(w);
    return path;
}

static void copy(const char *to, const char *from, const char *content)
{
    const struct sp_pack_new_section section = {.part = SP_PART_FILE,
                                                .kind = SP_SECTION_RECEIPTS,
                                                .content = content,
                                                .size = content ? strlen(content) : 0};
    struct sp_pack *pack = NULL;

    assert_int_equal(sp_pack_open(&pack, from, NULL), SP_OK);
    assert_int_equal(sp_pack_copy_with(to, pack, &section, NULL), SP_OK);
    sp_pack_close(pack);
}

static void assert_same_files(const char *a, const char *b)
{
    size_t n_a, n_b;
    char *bytes_a = scratch_read(a, &n_a), *bytes_b = scratch_read(b, &n_b);

    assert_int_equal(n_a, n_b);
    assert_memory_equal(bytes_a, bytes_b, n_a);
    free(bytes_a);
    free(bytes_b);
}

static void a_file_keeps_its_bytes(void **state)
{
    const char *plain = write_file("plain.bin"), *copied = scratch_path("copied.bin");
    char receipt[200];
    struct sp_part_digests own = {0};
    struct sp_json *receipts = NULL;
    struct sp_pack *pack = NULL;
    size_t size;
    char *bytes;

    (void)state;
    copy(copied, plain, NULL);
    assert_same_files(plain, copied);
    assert_int_equal(sp_pack_open(&pack, plain, NULL), SP_OK);
    assert_int_equal(sp_part_digests_of(&own, pack, NULL), SP_OK);
    assert_int_equal(sp_receipts_read(&receipts, pack, NULL), SP_OK);
    assert_null(receipts);
    sp_pack_close(pack);
    snprintf(receipt, sizeof receipt,
             "[{\"kind\":\"types\",\"target\":\"%016" PRIx64 "\",\"size\":500}]", own.target);
    copy(copied, copied, receipt);
    bytes = scratch_read(copied, &size);
    assert_int_equal(bytes[10], 2);
    assert_memory_equal(bytes + 4096, "abcdefgh", 8);
    free(bytes);
    assert_int_equal(sp_pack_open(&pack, copied, NULL), SP_OK);
    assert_int_equal(sp_receipts_read(&receipts, pack, NULL), SP_OK);
    assert_int_equal(sp_json_len(receipts), 1);
    for (size_t i = 0; i < sp_pack_n_sections(pack); i++)
        assert_int_equal(sp_pack_check_section(pack, i, NULL), SP_OK);
    sp_json_free(receipts);
    sp_pack_close(pack);
    copy(copied, copied, NULL);
    assert_same_files(plain, copied);
}

static void receipts_of_other_weights_are_refused(void **state)
{
    const char *path = write_file("other.bin");
    struct sp_json *receipts = NULL;
    struct sp_pack *pack = NULL;
    struct sp_err err = {0};

    (void)state;
    copy(path, path, "[" TYPES "]");
    assert_int_equal(sp_pack_open(&pack, path, NULL), SP_OK);
    assert_int_equal(sp_receipts_read(&receipts, pack, &err), SP_E_INPUT);
    assert_non_null(strstr(err.text, "it is about weights that the file does not have"));
    assert_non_null(strstr(err.text, path));
    assert_null(receipts);
    sp_pack_close(pack);
}

static int stop(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    return done < total;
}

static void a_copy_is_written_whole_or_not_at_all(void **state)
{
    const char *path = write_file("stopped.bin");
    const struct sp_pack_new_section section = {.part = SP_PART_FILE,
                                                .kind = SP_SECTION_RECEIPTS,
                                                .content = "[]",
                                                .size = 2,
                                                .progress = stop};
    size_t size, n_bytes;
    char *bytes = scratch_read(path, &size), *after;
    struct sp_pack *pack = NULL;
    struct sp_err err = {0};

    (void)state;
    assert_int_equal(sp_pack_open(&pack, path, NULL), SP_OK);
    assert_int_equal(sp_pack_copy_with(path, pack, &section, &err), SP_E_CHECK);
    assert_string_equal(err.text, "interrupted");
    sp_pack_close(pack);
    after = scratch_read(path, &n_bytes);
    assert_int_equal(n_bytes, size);
    assert_memory_equal(after, bytes, size);
    free(after);
    bytes[4096] ^= 1; /* a damaged weight is not copied */
    scratch_write("stopped.bin", bytes, size);
    assert_int_equal(sp_pack_open(&pack, path, NULL), SP_OK);
    assert_int_equal(sp_pack_copy_with(path, pack, &section, &err), SP_E_INPUT);
    sp_pack_close(pack);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_checked),
        cmocka_unit_test(receipts_are_joined),
        cmocka_unit_test(receipts_are_bounded),
        cmocka_unit_test(a_file_keeps_its_bytes),
        cmocka_unit_test(receipts_of_other_weights_are_refused),
        cmocka_unit_test(a_copy_is_written_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, scratch_teardown);
}
