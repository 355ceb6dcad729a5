/* Tests receipts: which ones count, joining, and what a file with them shows. */
#include "format/receipts.h"
#include "format/packfile_write.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <inttypes.h>

#define TARGET "\"target\":\"00000000000000aa\""
#define DRAFT "\"draft\":\"00000000000000bb\""
#define TYPES "{\"kind\":\"types\"," TARGET ",\"size\":500,\"predicted_kl\":0.25}"
#define TYPES2 "{\"kind\":\"types\"," TARGET ",\"bits\":3.75}"
#define DRAFT_TYPE(results)                                                                        \
    "{\"kind\":\"draft-type\"," TARGET "," DRAFT ",\"type\":\"q4\",\"results\":" results "}"
#define EVALUATION "{\"kind\":\"evaluation\"," TARGET ",\"kv_type\":\"f16\"}"
#define DRAFTING "{\"kind\":\"drafting\"," TARGET "," DRAFT ",\"predict\":9}"

static const struct sp_part_digests digests = {0xaa, 0xbb};

TEST(receipts_are_joined)
{
    static const char both[] = "[" DRAFT_TYPE("[]") "," TYPES "]";
    static const struct sp_part_digests other_draft = {0xaa, 0xcc}, other_target = {0xab, 0xbb};
    const struct {
        const char *before, *added, *after;
        const struct sp_part_digests *digests;
        size_t n_dropped;
    } cases[] = {
        {NULL, NULL, NULL, &digests, 0},
        {NULL, TYPES, "[" TYPES "]", &digests, 0},
        {both, NULL, both, &digests, 0},
        {both, DRAFT_TYPE("[1]"), "[" TYPES "," DRAFT_TYPE("[1]") "]", &digests, 0},
        {both, DRAFT_TYPE("[]"), "[" TYPES "," DRAFT_TYPE("[]") "]", &digests, 0},
        {both, NULL, "[" TYPES "]", &other_draft, 1},
        {both, NULL, NULL, &other_target, 2},
        {both, TYPES2, "[" TYPES2 "]", &other_target, 2},
        /* Retired kinds, and what no version has written. */
        {"[" EVALUATION "," TYPES "," DRAFTING "]", NULL, "[" TYPES "]", &digests, 2},
        {"[1,null,{},{\"kind\":3},{\"kind\":\"types\"}]", NULL, NULL, &digests, 5},
        {"[{\"kind\":\"types\",\"target\":\"00000000000000AA\"}]", NULL, NULL, &digests, 1},
        {"[{\"kind\":\"draft-type\"," TARGET "}]", TYPES, "[" TYPES "]", &digests, 1},
        {"{}", NULL, NULL, &digests, 0},
        {"[]", NULL, NULL, &digests, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sp_text before = whole_text(cases[i].before),
                             added = whole_text(cases[i].added);
        size_t n_dropped = 9;
        struct sp_text text;
        assert_ok(sp_receipts_join(&text, &n_dropped, &before, &added, added.at != NULL,
                                   cases[i].digests, NULL));
        assert_int_equal(n_dropped, cases[i].n_dropped);
        assert_int_equal(text.size, text.at ? strlen(text.at) : 0);
        if (cases[i].after)
            assert_string_equal(text.at, cases[i].after);
        else
            assert_null(text.at);
        free(text.at);
    }
}

/* Writes a file of one tensor with this section, and opens it. */
static struct sp_pack *open_file(const char *section)
{
    const char *path = scratch_path("receipts.bin");
    struct sp_pack_tensor tensor = {.name = "norm.weight",
                                    .part = SP_PART_TARGET,
                                    .dtype = SP_F32,
                                    .layout = SP_PLAIN,
                                    .rank = 1,
                                    .shape = {2}};
    struct sp_pack_writer *w = NULL;
    struct sp_pack *pack = NULL;

    assert_ok(sp_pack_writer_open(&w, path, true, &tensor, 1, NULL));
    assert_ok(sp_pack_writer_section(w, SP_PART_TARGET, SP_SECTION_CONFIG, "{}", 2, NULL));
    if (section) {
        assert_ok(sp_pack_writer_section(w, SP_PART_FILE, SP_SECTION_RECEIPTS, section,
                                         strlen(section), NULL));
    }
    assert_ok(sp_pack_writer_put(w, 0, "abcdefgh", 8, NULL));
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
    assert_ok(sp_pack_open(&pack, path, NULL));
    return pack;
}

TEST(receipts_of_a_file_are_read)
{
    struct sp_pack *pack = open_file(NULL);
    struct sp_json *receipts = NULL;
    struct sp_part_digests found;

    assert_ok(sp_pack_part_digests(&found, pack, NULL));
    assert_ok(sp_receipts_read(&receipts, pack, NULL));
    assert_null(receipts);
    sp_pack_close(pack);
    pack = open_file(keep_format("[" EVALUATION ",{\"kind\":\"types\",\"target\":\"%016" PRIx64
                                 "\",\"size\":500}]",
                                 found.target));
    assert_ok(sp_receipts_read(&receipts, pack, NULL));
    assert_int_equal(sp_json_len(receipts), 1);
    assert_string_equal(sp_json_get_text(sp_json_at(receipts, 0), "kind"), sp_receipt_types);
    sp_json_free(receipts);
    receipts = NULL;
    sp_pack_close(pack);
    pack = open_file("[" TYPES "]"); /* of other weights */
    assert_ok(sp_receipts_read(&receipts, pack, NULL));
    assert_null(receipts);
    sp_pack_close(pack);
}

TEST(a_damaged_section_is_refused)
{
    struct sp_pack *pack = open_file("[{\"kind\":");
    struct sp_json *receipts = NULL;

    assert_fails(sp_receipts_read(&receipts, pack, why), SP_E_INPUT, "receipts.bin: receipts: ");
    assert_null(receipts);
    sp_pack_close(pack);
}

GROUP_FIXTURE(NULL, scratch_teardown);
