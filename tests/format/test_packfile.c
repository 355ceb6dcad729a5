/* Tests the packed file: the reader on a handmade file, every check of the reader on inconsistent
 * and damaged files, and the writer against the reader. The digests of the handmade file come from
 * another implementation. */
#include "format/packfile.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/packfile_layout.h"
#include "format/packfile_write.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <unistd.h>

enum { MINIMAL_SIZE = 12811, MINIMAL_DIRECTORY = 12480 };

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads testdata/pack/minimal.hex; the caller frees. */
static uint8_t *read_hex(size_t *size)
{
    struct sp_text text;
    size_t n = 0, cap = 1 << 16;
    uint8_t *bytes = calloc(cap, 1);

    assert_non_null(bytes);
    assert_ok(sp_file_read_text(&text, TESTDATA "/pack/minimal.hex", 1 << 20, NULL));
    for (char *s = text.at; *s;) {
        if (*s == '#') {
            while (*s && *s != '\n')
                s++;
        } else if (*s == '@') {
            n = strtoul(s + 1, &s, 10);
        } else if (hex_digit(*s) >= 0) {
            assert_true(hex_digit(s[1]) >= 0 && n < cap);
            bytes[n++] = (uint8_t)(hex_digit(s[0]) << 4 | hex_digit(s[1]));
            s += 2;
        } else {
            assert_true(*s == ' ' || *s == '\n');
            s++;
        }
    }
    free(text.at);
    *size = n;
    return bytes;
}

/* Returns the handmade file in an allocation of exactly its size, so that a sanitizer detects every
 * read beyond it. */
static uint8_t *minimal(void)
{
    size_t size;
    uint8_t *bytes = read_hex(&size);

    assert_int_equal(size, MINIMAL_SIZE);
    return keep(realloc(bytes, size));
}

/* Opens and checks everything, as `spectool verify` does. */
static enum sp_status verify(const uint8_t *bytes, size_t size, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st = sp_pack_open_bytes(&pack, bytes, size, "x", err);

    for (size_t i = 0; !st && i < sp_pack_n_tensors(pack); i++)
        st = sp_pack_check_tensor(pack, i, err);
    for (size_t i = 0; !st && i < sp_pack_n_sections(pack); i++)
        st = sp_pack_check_section(pack, i, err);
    sp_pack_close(pack);
    return st;
}

/* Returns the content of a section; kept. */
static struct sp_text section_text(struct sp_pack *pack, enum sp_part part, enum sp_section section)
{
    struct sp_text text;

    assert_ok(sp_pack_read_section(pack, part, section, &text, why));
    keep(text.at);
    return text;
}

static void assert_tensor(const struct sp_pack_tensor *t, const char *name, enum sp_part part,
                          enum sp_dtype dtype, enum sp_layout layout, unsigned rank)
{
    assert_string_equal(t->name, name);
    assert_int_equal(t->part, part);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->layout, layout);
    assert_int_equal(t->rank, rank);
}

TEST(test_hand_made_file_is_read)
{
    uint8_t *bytes = minimal();
    struct sp_pack *pack = NULL;
    struct sp_part_digests digests;

    assert_ok(sp_pack_open_bytes(&pack, bytes, MINIMAL_SIZE, "minimal", why));
    assert_int_equal(sp_pack_n_tensors(pack), 3);
    assert_tensor(sp_pack_tensor(pack, 0), "a.weight", SP_PART_TARGET, SP_BF16, SP_PANEL, 2);
    assert_tensor(sp_pack_tensor(pack, 1), "b.norm", SP_PART_TARGET, SP_F32, SP_PLAIN, 1);
    assert_tensor(sp_pack_tensor(pack, 2), "\xC3\xA4", SP_PART_DRAFT, SP_F16, SP_PLAIN, 0);
    assert_int_equal(sp_pack_tensor(pack, 0)->shape[0], 2);
    assert_int_equal(sp_pack_tensor(pack, 0)->shape[1], 3);
    assert_int_equal(sp_pack_tensor(pack, 0)->size, 128);
    assert_ptr_equal(sp_pack_tensor(pack, 0)->data, bytes + 4096);
    assert_ptr_equal(sp_pack_tensor(pack, 1)->data, bytes + 4224);
    assert_ptr_equal(sp_pack_tensor(pack, 2)->data, bytes + 8192);
    assert_ptr_equal(sp_pack_find(pack, SP_PART_TARGET, "b.norm"), sp_pack_tensor(pack, 1));
    assert_null(sp_pack_find(pack, SP_PART_DRAFT, "b.norm"));
    assert_null(sp_pack_find(pack, SP_PART_TARGET, "c"));

    assert_int_equal(sp_pack_n_sections(pack), 3);
    struct sp_text text = section_text(pack, SP_PART_FILE, SP_SECTION_MODELFILE);
    assert_string_equal(text.at, "PARAMETER seed 1\n");
    assert_int_equal(text.size, 17);
    text = section_text(pack, SP_PART_TARGET, SP_SECTION_CONFIG);
    assert_string_equal(text.at, "{}");
    text = section_text(pack, SP_PART_DRAFT, SP_SECTION_CONFIG);
    assert_null(text.at);
    assert_memory_equal(sp_pack_find_section(pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_MAP)->data,
                        "\x01\x02\x03\x04", 4);

    assert_ok(sp_pack_part_digests(&digests, pack, why));
    assert_true(digests.target == 0xd3ab03de73808528u);
    sp_pack_close(pack);
    assert_ok(verify(bytes, MINIMAL_SIZE, why));
}

TEST(test_every_flipped_byte_is_detected)
{
    uint8_t *bytes = minimal();

    for (size_t i = 0; i < MINIMAL_SIZE; i++) {
        static const uint8_t flips[] = {0x01, 0x80, 0xFF};

        for (size_t k = 0; k < sizeof flips; k++) {
            bytes[i] ^= flips[k];
            if (verify(bytes, MINIMAL_SIZE, NULL) == SP_OK) fail_msg("byte %zu unnoticed", i);
            bytes[i] ^= flips[k];
        }
    }
    assert_ok(verify(bytes, MINIMAL_SIZE, NULL));
}

TEST(test_every_other_length_is_refused)
{
    uint8_t *bytes = minimal();

    for (size_t n = 0; n <= MINIMAL_SIZE + 64; n++) {
        uint8_t *copy = calloc(n ? n : 1, 1);

        if (n == MINIMAL_SIZE) {
            free(copy);
            continue;
        }
        assert_non_null(copy);
        memcpy(copy, bytes, n < MINIMAL_SIZE ? n : MINIMAL_SIZE);
        if (verify(copy, n, NULL) != SP_E_INPUT) fail_msg("length %zu accepted", n);
        free(copy);
    }
}

/* A changed number in the handmade file. The digests over it are corrected. */
struct inconsistency {
    size_t offset;
    unsigned width; /* 1, 2, 4 or 8 bytes */
    uint64_t value;
    enum sp_status status;
    const char *message; /* part of the error message */
};

static const struct inconsistency inconsistencies[] = {
    {0, 1, 0x88, SP_E_INPUT, "not a packed file"},
    {8, 2, 2, SP_E_UNSUPPORTED, "format version 2.0 is newer than 1.5"},
    {8, 2, 0, SP_E_INPUT, "format version 0.0 does not exist"},
    {12, 4, 64, SP_E_INPUT, "reserved bytes of the header"},
    {16, 8, 12812, SP_E_INPUT, "12811 bytes, but the header says 12812"},
    {24, 8, 12544, SP_E_INPUT, "does not end a file"},
    {24, 8, UINT64_MAX, SP_E_INPUT, "does not end a file"},
    {32, 8, UINT64_MAX, SP_E_INPUT, "directory of"},
    {48, 4, 2, SP_E_INPUT, "take 267"},
    {48, 4, UINT32_MAX, SP_E_INPUT, "directory of 331 bytes"},
    {52, 4, UINT32_MAX, SP_E_INPUT, "directory of 331 bytes"},
    {56, 4, UINT32_MAX, SP_E_INPUT, "directory of 331 bytes"},
    {60, 1, 1, SP_E_INPUT, "reserved bytes of the header"},
    {119, 1, 1, SP_E_INPUT, "reserved bytes of the header"},
    {128, 1, 1, SP_E_INPUT, "between the header and offset 4096"},
    {4095, 1, 1, SP_E_INPUT, "between the header and offset 4096"},
    {MINIMAL_DIRECTORY + 0, 2, 7, SP_E_INPUT, "its name is not among"},
    {MINIMAL_DIRECTORY + 0, 2, 60000, SP_E_INPUT, "its name is not among"},
    {MINIMAL_DIRECTORY + 2, 1, 2, SP_E_INPUT, "not after"},
    {MINIMAL_DIRECTORY + 2, 1, 0, SP_E_INPUT, "part 0, expected 1"},
    {MINIMAL_DIRECTORY + 3, 1, 5, SP_E_UNSUPPORTED, "type number 5 is not known"},
    {MINIMAL_DIRECTORY + 3, 1, 42, SP_E_UNSUPPORTED, "type number 42 is not known"},
    {MINIMAL_DIRECTORY + 3, 1, 0, SP_E_UNSUPPORTED, "type number 0 is not known"},
    {MINIMAL_DIRECTORY + 3, 1, 64, SP_E_UNSUPPORTED, "type number 64 is not known"},
    {MINIMAL_DIRECTORY + 3, 1, 1, SP_E_INPUT, "128 bytes, but its type and shape need 192"},
    {MINIMAL_DIRECTORY + 3, 1, 6, SP_E_INPUT, "its shape is impossible"},
    {MINIMAL_DIRECTORY + 4, 1, 2, SP_E_UNSUPPORTED, "layout number 2"},
    {MINIMAL_DIRECTORY + 5, 1, 5, SP_E_INPUT, "rank 5"},
    {MINIMAL_DIRECTORY + 5, 1, 1, SP_E_INPUT, "dimension 1 is 3 in a shape of rank 1"},
    {MINIMAL_DIRECTORY + 5, 1, 3, SP_E_INPUT, "dimension 2 is 0 in a shape of rank 3"},
    {MINIMAL_DIRECTORY + 6, 2, 1, SP_E_INPUT, "reserved bytes are not zero"},
    {MINIMAL_DIRECTORY + 8, 8, UINT64_MAX, SP_E_INPUT, "its shape is impossible"},
    {MINIMAL_DIRECTORY + 8, 8, 17, SP_E_INPUT, "need 256"},
    {MINIMAL_DIRECTORY + 40, 8, 8192, SP_E_INPUT, "a.weight: offset 8192, expected 4096"},
    {MINIMAL_DIRECTORY + 48, 8, UINT64_MAX, SP_E_INPUT, "but its type and shape need 128"},
    {MINIMAL_DIRECTORY + 64 + 40, 8, 4096, SP_E_INPUT, "b.norm: offset 4096, expected 4224"},
    {MINIMAL_DIRECTORY + 128 + 40, 8, 4288, SP_E_INPUT, "offset 4288, expected 8192"},
    {MINIMAL_DIRECTORY + 192, 2, 15, SP_E_UNSUPPORTED, "section kind 15 is not known"},
    {MINIMAL_DIRECTORY + 192, 2, 13, SP_E_INPUT, "a smoothing section cannot belong to part 0"},
    {MINIMAL_DIRECTORY + 192, 2, 12, SP_E_INPUT,
     "section receipts in a file of format version 1.0"},
    {MINIMAL_DIRECTORY + 192, 2, 10, SP_E_INPUT,
     "a merged adapters section cannot belong to part 0"},
    {MINIMAL_DIRECTORY + 192, 2, 0, SP_E_UNSUPPORTED, "section kind 0 is not known"},
    {MINIMAL_DIRECTORY + 192, 2, 3, SP_E_INPUT, "cannot belong to part 0"},
    {MINIMAL_DIRECTORY + 194, 1, 3, SP_E_INPUT, "cannot belong to part 3"},
    {MINIMAL_DIRECTORY + 195, 1, 2, SP_E_INPUT, "encoding 2"},
    {MINIMAL_DIRECTORY + 272 + 3, 1, 1, SP_E_INPUT, "encoding 1 of the compiled tokenizer"},
    {MINIMAL_DIRECTORY + 196, 4, 1, SP_E_INPUT, "reserved bytes of the Modelfile section"},
    {MINIMAL_DIRECTORY + 200, 8, 4096, SP_E_INPUT, "offset 4096, expected 12288"},
    {MINIMAL_DIRECTORY + 208, 8, 0, SP_E_INPUT, "cannot hold 17 bytes in 0"},
    {MINIMAL_DIRECTORY + 216, 8, 18, SP_E_INPUT, "cannot hold 18 bytes in 17"},
    {MINIMAL_DIRECTORY + 232 + 16, 8, 100000, SP_E_INPUT, "reach beyond offset 12480"},
    {MINIMAL_DIRECTORY + 232 + 24, 8, 1 << 20, SP_E_INPUT, "cannot hold 1048576 bytes in 11"},
    {MINIMAL_DIRECTORY + 216, 8, (16 << 20) + 1, SP_E_INPUT,
     "the Modelfile section has 16777217 bytes, expected at most 16777216"},
    {MINIMAL_DIRECTORY + 232 + 24, 8, (4 << 20) + 1, SP_E_INPUT,
     "the config.json section has 4194305 bytes, expected at most 4194304"},
    {MINIMAL_DIRECTORY + 232 + 24, 8, 3, SP_E_INPUT, "config.json of the target"},
    {MINIMAL_DIRECTORY + 232, 2, 8, SP_E_INPUT, "encoding 1"},
    {MINIMAL_DIRECTORY + 232, 2, 2, SP_E_INPUT, "cannot belong to part 1"},
    {MINIMAL_DIRECTORY + 232, 2, 9, SP_E_INPUT, "cannot belong to part 1"},
    {MINIMAL_DIRECTORY + 272, 2, 3, SP_E_INPUT, "not after"},
    {MINIMAL_DIRECTORY + 312, 1, 'c', SP_E_INPUT, "not after"},
    {MINIMAL_DIRECTORY + 312, 1, '\n', SP_E_INPUT, "printable UTF-8"},
    {MINIMAL_DIRECTORY + 312, 1, 0x80, SP_E_INPUT, "printable UTF-8"},
    {MINIMAL_DIRECTORY + 320, 1, 'x', SP_E_INPUT, "its name is not among"},
    {MINIMAL_DIRECTORY + 330, 1, 'x', SP_E_INPUT, "its name is not among"},
    {4230, 1, 1, SP_E_INPUT, "b.norm of the target does not match its digest"},
    {4232, 1, 1, SP_E_INPUT, "byte 4232 is not zero"},
    {12287, 1, 1, SP_E_INPUT, "byte 12287 is not zero"},
    {12420, 1, 1, SP_E_INPUT, "byte 12420 is not zero"},
};

/* Sets the digests of header and directory to those of their bytes. */
static void correct_digests(uint8_t *bytes, uint64_t directory, size_t size)
{
    sp_put64(bytes + 40, sp_hash64(bytes + directory, size - directory));
    sp_put64(bytes + 120, sp_hash64(bytes, SP_PACK_HEADER_DIGESTED));
}

static void apply(uint8_t *bytes, const struct inconsistency *inconsistency)
{
    for (unsigned i = 0; i < inconsistency->width; i++)
        bytes[inconsistency->offset + i] = (uint8_t)(inconsistency->value >> 8 * i);
    correct_digests(bytes, MINIMAL_DIRECTORY, MINIMAL_SIZE);
}

TEST(test_inconsistent_fields_are_named)
{
    for (size_t i = 0; i < sizeof inconsistencies / sizeof inconsistencies[0]; i++) {
        uint8_t *bytes = minimal();
        apply(bytes, &inconsistencies[i]);
        assert_fails(verify(bytes, MINIMAL_SIZE, why), inconsistencies[i].status,
                     inconsistencies[i].message);
    }
}

/* Content of up to 1 MiB may shrink to a thousandth, larger content to a 64th. */
TEST(test_content_is_bounded)
{
    assert_int_equal(sp_pack_content_limit(1), 2047);
    assert_int_equal(sp_pack_content_limit(11), 12287);
    assert_int_equal(sp_pack_content_limit(1024), 1 << 20);
    assert_int_equal(sp_pack_content_limit(16384), 1 << 20);
    assert_int_equal(sp_pack_content_limit(16385), (1 << 20) + 64);
    assert_true(sp_pack_content_limit(UINT64_MAX / 2) == UINT64_MAX);
    for (int kind = 1; kind < SP_N_SECTIONS; kind++)
        assert_in_range(sp_pack_section_limit((enum sp_section)kind), 1 << 20, 1 << 30);
}

TEST(test_names_are_utf8)
{
    static const char *const good[] = {"a", "layers.0.x_y-z", "\xC3\xA4", "\xE4\xBD\xA0",
                                       "\xF0\x9F\x91\x8B"};
    static const char *const bad[] = {"",
                                      "\n",
                                      "a\x7F",
                                      "\x80",
                                      "\xC3",
                                      "\xC0\xAF",
                                      "\xE0\x80\xAF",
                                      "\xED\xA0\x80",
                                      "\xC2\x85",
                                      "\xF4\x90\x80\x80",
                                      "\xF8\x88\x80\x80\x80"};
    char longest[257];

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(sp_pack_name_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (sp_pack_name_valid(bad[i], strlen(bad[i]))) fail_msg("bad name %zu accepted", i);
    memset(longest, 'a', sizeof longest);
    assert_true(sp_pack_name_valid(longest, 255));
    assert_false(sp_pack_name_valid(longest, 256));
}

/* ---- the writer ---- */

struct folder {
    char path[64];
    char file[96];
};

static int make_folder(void **state)
{
    struct folder *f = calloc(1, sizeof *f);

    if (f == NULL) return -1;
    strcpy(f->path, "/tmp/spectool-test-XXXXXX");
    if (mkdtemp(f->path) == NULL) return -1;
    snprintf(f->file, sizeof f->file, "%s/x.bin", f->path);
    *state = f;
    return 0;
}

/* Fails if a test left more than its output behind. */
static int remove_folder(void **state)
{
    struct folder *f = *state;

    unlink(f->file);
    int left = rmdir(f->path);
    free(f);
    return left;
}

static const struct sp_pack_tensor three[] = {
    {.name = "\xC3\xA4", .part = SP_PART_DRAFT, .dtype = SP_F16, .layout = SP_PLAIN, .rank = 0},
    {.name = "b.norm",
     .part = SP_PART_TARGET,
     .dtype = SP_F32,
     .layout = SP_PLAIN,
     .rank = 1,
     .shape = {2}},
    {.name = "a.weight",
     .part = SP_PART_TARGET,
     .dtype = SP_BF16,
     .layout = SP_PANEL,
     .rank = 2,
     .shape = {2, 3}},
};

/* Writes the tensors and text sections of the handmade file. order[i]: index of the i-th tensor
 * that is written. */
static void write_minimal(const char *path, const size_t order[3], const uint8_t *bytes)
{
    static const size_t where[] = {8192, 4224, 4096}, size[] = {2, 8, 128};
    struct sp_pack_tensor tensors[3];
    struct sp_pack_writer *w = NULL;
    struct sp_part_digests digests;

    for (size_t i = 0; i < 3; i++)
        tensors[i] = three[order[i]];
    assert_ok(sp_pack_writer_open(&w, path, true, tensors, 3, NULL));
    assert_ok(sp_pack_writer_section(w, order[0] ? SP_PART_TARGET : SP_PART_FILE,
                                     order[0] ? SP_SECTION_CONFIG : SP_SECTION_MODELFILE,
                                     order[0] ? "{}" : "PARAMETER seed 1\n", order[0] ? 2 : 17,
                                     NULL));
    assert_ok(sp_pack_writer_section(w, order[0] ? SP_PART_FILE : SP_PART_TARGET,
                                     order[0] ? SP_SECTION_MODELFILE : SP_SECTION_CONFIG,
                                     order[0] ? "PARAMETER seed 1\n" : "{}", order[0] ? 17 : 2,
                                     NULL));
    assert_ok(sp_pack_writer_section(w, SP_PART_TARGET, SP_SECTION_TOKENIZER_MAP,
                                     "\x01\x02\x03\x04", 4, NULL));
    for (size_t i = 0; i < 3; i++) {
        size_t half = size[order[i]] / 2;

        assert_ok(sp_pack_writer_put(w, i, bytes + where[order[i]], half, NULL));
        assert_ok(sp_pack_writer_put(w, i, bytes + where[order[i]] + half, half, NULL));
    }
    assert_ok(sp_pack_writer_part_digests(&digests, w, NULL));
    assert_true(digests.target == 0xd3ab03de73808528u);
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
}

TEST(test_writer_makes_the_hand_made_file)
{
    struct folder *f = *state;
    static const size_t orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
    uint8_t *bytes = minimal();
    struct sp_text first = {0}, text;
    struct sp_pack *pack = NULL;

    for (size_t i = 0; i < 3; i++) {
        write_minimal(f->file, orders[i], bytes);
        assert_ok(sp_file_read_text(&text, f->file, 1 << 20, NULL));
        if (i == 0) first = text;
        assert_int_equal(text.size, first.size);
        assert_memory_equal(keep(text.at), first.at, text.size);
    }
    /* The files are equal except for the compressed sections, which depend on zstd's version. */
    assert_ok(verify((const uint8_t *)first.at, first.size, NULL));
    assert_memory_equal(first.at + 128, bytes + 128, 12288 - 128);
    assert_ok(sp_pack_open(&pack, f->file, NULL));
    assert_int_equal(sp_pack_size(pack), first.size);
    assert_memory_equal(first.at + sp_get64((const uint8_t *)first.at + 24),
                        bytes + MINIMAL_DIRECTORY, 3 * SP_PACK_TENSOR_ENTRY);
    text = section_text(pack, SP_PART_TARGET, SP_SECTION_CONFIG);
    assert_string_equal(text.at, "{}");
    sp_pack_close(pack);
}

/* Writes tensors smaller and larger than the writer's buffer, in several orders and in pieces of
 * several sizes. */
TEST(test_writer_buffers_pieces)
{
    enum { N = 5 };
    static const uint64_t lens[N] = {1, 1300000, 7, 3200000, 1048576};
    static const char *const names[N] = {"a", "b", "c", "d", "e"};
    static const size_t orders[][N] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {1, 3, 0, 4, 2}};
    static const size_t spans[] = {SIZE_MAX, 4 << 20, 777777};
    struct folder *f = *state;
    struct sp_pack_tensor tensors[N];
    float *numbers = keep(malloc(lens[3] * sizeof *numbers));

    assert_non_null(numbers);
    for (size_t i = 0; i < lens[3]; i++)
        numbers[i] = (float)i;
    for (size_t i = 0; i < N; i++) {
        tensors[i] = three[1];
        tensors[i].name = names[i];
        tensors[i].shape[0] = lens[i];
    }
    for (size_t run = 0; run < 9; run++) {
        struct sp_pack_writer *w = NULL;
        struct sp_pack *pack = NULL;

        assert_ok(sp_pack_writer_open(&w, f->file, true, tensors, N, NULL));
        for (size_t i = 0; i < N; i++) {
            size_t t = orders[run / 3][i], size = lens[t] * 4;

            for (size_t done = 0; done < size;) {
                size_t n = size - done < spans[run % 3] ? size - done : spans[run % 3];

                assert_ok(sp_pack_writer_put(w, t, (const uint8_t *)numbers + done, n, NULL));
                done += n;
            }
        }
        assert_ok(sp_pack_writer_finish(w, NULL, NULL));
        sp_pack_writer_close(w);
        assert_ok(sp_pack_open(&pack, f->file, NULL));
        for (size_t i = 0; i < N; i++) {
            assert_memory_equal(sp_pack_find(pack, SP_PART_TARGET, names[i])->data, numbers,
                                lens[i] * 4);
            assert_ok(sp_pack_check_tensor(pack, i, NULL));
        }
        sp_pack_close(pack);
    }
}

/* What is put as it is mapped by another packed file is copied, also from a file whose name another
 * one has taken. */
TEST(test_writer_copies)
{
    enum { N = 3 };
    static const size_t lens[N] = {5000, 3200000, 1300000};
    struct folder *f = *state;
    struct sp_pack_tensor tensors[N];
    struct sp_pack *packs[4] = {NULL};
    float *numbers = keep(malloc(lens[1] * sizeof *numbers));

    assert_non_null(numbers);
    for (size_t i = 0; i < N; i++) {
        tensors[i] = three[1];
        tensors[i].name = (const char *[]){"a", "b", "c"}[i];
        tensors[i].shape[0] = lens[i];
    }
    for (size_t run = 0; run < 4; run++) { /* numbers, a copy, others, a copy of the first */
        const struct sp_pack *from = run == 1 || run == 3 ? packs[0] : NULL;
        struct sp_pack_writer *w = NULL;

        for (size_t i = 0; i < lens[1]; i++)
            numbers[i] = (float)(i + run / 2);
        assert_ok(sp_pack_writer_open(&w, f->file, true, tensors, N, NULL));
        if (from) sp_pack_writer_copies(w, from);
        for (size_t i = 0; i < N; i++) {
            const void *bytes = from ? (const void *)sp_pack_tensor(from, i)->data : numbers;
            assert_ok(sp_pack_writer_put(w, i, bytes, lens[i] * 4, NULL));
        }
        assert_ok(sp_pack_writer_finish(w, NULL, NULL));
        sp_pack_writer_close(w);
        assert_ok(sp_pack_open(&packs[run], f->file, NULL));
        for (size_t i = 0; i < N; i++)
            assert_ok(sp_pack_check_tensor(packs[run], i, NULL));
    }
    for (size_t run = 4; run-- > 0;) { /* the first is compared with all, so it closes last */
        assert_int_equal(
            sp_pack_tensor(packs[run], 1)->digest != sp_pack_tensor(packs[0], 1)->digest, run == 2);
        sp_pack_close(packs[run]);
    }
}

TEST(test_writer_of_no_tensors)
{
    struct folder *f = *state;
    struct sp_pack_writer *w = NULL;
    struct sp_pack *pack = NULL;

    assert_ok(sp_pack_writer_open(&w, f->file, false, NULL, 0, NULL));
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
    assert_ok(sp_pack_open(&pack, f->file, NULL));
    assert_int_equal(sp_pack_size(pack), 4096);
    sp_pack_close(pack);
}

TEST(test_writer_leaves_nothing_unfinished)
{
    struct folder *f = *state;
    struct sp_pack_writer *w = NULL;

    assert_ok(sp_pack_writer_open(&w, f->file, false, three, 3, why));
    assert_ok(sp_pack_writer_put(w, 1, "12345678", 8, why));
    assert_fails(sp_pack_writer_put(w, 1, "9", 1, why), SP_E_BUG, "");
    assert_int_equal(sp_pack_writer_finish(w, NULL, NULL), SP_E_BUG);
    sp_pack_writer_close(w);
    assert_false(sp_file_exists(f->file));
}

TEST(test_writer_refuses)
{
    struct folder *f = *state;
    struct sp_pack_tensor t[2] = {three[1], three[1]};
    struct sp_pack_writer *w = NULL;
    uint8_t *bytes = minimal();

    assert_fails(sp_pack_writer_open(&w, f->file, false, t, 2, why), SP_E_INPUT,
                 "b.norm occurs twice");
    t[1].name = "bad\n";
    assert_int_equal(sp_pack_writer_open(&w, f->file, false, t, 2, NULL), SP_E_INPUT);
    t[1] = three[2];
    t[1].dtype = SP_Q4; /* three columns cannot form a block */
    assert_int_equal(sp_pack_writer_open(&w, f->file, false, t, 2, NULL), SP_E_UNSUPPORTED);
    t[1] = three[2];
    t[1].shape[0] = 0;
    assert_int_equal(sp_pack_writer_open(&w, f->file, false, t, 2, NULL), SP_E_UNSUPPORTED);
    assert_null(w);
    write_minimal(f->file, (const size_t[]){0, 1, 2}, bytes);
    assert_int_equal(sp_pack_writer_open(&w, f->file, false, three, 3, NULL), SP_E_USAGE);
    assert_null(w);
}

/* Writes a file of one matrix of zero bytes and returns its bytes. */
static uint8_t *write_matrix(const char *path, enum sp_dtype dtype, size_t *size)
{
    static const uint8_t zeros[1024];
    struct sp_pack_tensor t = three[2];
    struct sp_pack_writer *w = NULL;
    size_t panel_size = 0;

    t.dtype = dtype;
    t.shape[1] = 32;
    assert_true(sp_panel_size(&panel_size, dtype, 32) && panel_size <= sizeof zeros);
    assert_ok(sp_pack_writer_open(&w, path, true, &t, 1, NULL));
    assert_ok(sp_pack_writer_put(w, 0, zeros, panel_size, NULL));
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
    return (uint8_t *)scratch_read(path, size);
}

/* A file has minor version 1 if it holds q2, q3, q5 or q6, and 4 if it keeps the codes of a source.
 * The reader refuses these types in a file of minor version 0, and names the version if a newer one
 * has a type that it does not know. */
TEST(test_minor_version)
{
    static const enum sp_dtype types[] = {SP_Q8, SP_Q4, SP_Q2,    SP_Q3,
                                          SP_Q5, SP_Q6, SP_I4G32, SP_NVFP4};
    struct folder *f = *state;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t size;
        uint8_t *bytes = write_matrix(f->file, types[i], &size);
        uint64_t directory = sp_get64(bytes + 24);

        assert_int_equal(sp_get16(bytes + 10), i < 2 ? 0 : i < 6 ? 1 : 4);
        assert_ok(verify(bytes, size, why));
        sp_put16(bytes + 10, 0);
        correct_digests(bytes, directory, size);
        assert_fails(verify(bytes, size, why), i < 2 ? SP_OK : SP_E_INPUT,
                     i < 2 ? "" : "in a file of format version 1.0");
        sp_put16(bytes + 10, SP_PACK_MINOR + 1);
        correct_digests(bytes, directory, size);
        assert_ok(verify(bytes, size, why));
        bytes[directory + 3] = SP_N_PACKED_DTYPES;
        correct_digests(bytes, directory, size);
        assert_fails(verify(bytes, size, why), SP_E_UNSUPPORTED,
                     "format version 1.6 is newer than 1.5: ");
        assert_fails(verify(bytes, size, why), SP_E_UNSUPPORTED, "type number 42 is not known");
    }
}

TEST(test_extreme_sections_are_stored)
{
    struct folder *f = *state;
    struct sp_pack_writer *w = NULL;
    struct sp_pack *pack = NULL;
    size_t n = 4 << 20;
    char *zeros = keep(calloc(n, 1));

    assert_ok(sp_pack_writer_open(&w, f->file, false, NULL, 0, NULL));
    assert_int_equal(sp_pack_writer_section(w, SP_PART_TARGET, SP_SECTION_TEMPLATE, zeros, n, NULL),
                     SP_E_UNSUPPORTED);
    assert_ok(sp_pack_writer_section(w, SP_PART_TARGET, SP_SECTION_TOKENIZER, zeros, n, NULL));
    assert_ok(sp_pack_writer_section(w, SP_PART_TARGET, SP_SECTION_CONFIG, "", 0, NULL));
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
    assert_ok(sp_pack_open(&pack, f->file, NULL));
    struct sp_text text = section_text(pack, SP_PART_TARGET, SP_SECTION_TOKENIZER);
    assert_int_equal(text.size, n);
    assert_memory_equal(text.at, zeros, n);
    text = section_text(pack, SP_PART_TARGET, SP_SECTION_CONFIG);
    assert_int_equal(text.size, 0);
    assert_non_null(text.at);
    sp_pack_close(pack);
}

TEST_FIXTURE(make_folder, remove_folder);
