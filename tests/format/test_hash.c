/* format/base/hash.h and format/base/compress.h. Digests equal published test values of XXH3.
 * Frames decompress to their content, and anything other than one whole frame of the stated size is
 * refused. */
#include "format/base/compress.h"
#include "format/base/hash.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* Values written by the Python package xxhash: xxh3_64_hexdigest(bytes(i * 31 % 251 for i in
 * range(n))). */
TEST(digests)
{
    static const struct {
        size_t size;
        uint64_t digest;
    } cases[] = {
        {0, UINT64_C(0x2d06800538d394c2)},    {1, UINT64_C(0xc44bdff4074eecdb)},
        {3, UINT64_C(0x3698b80191e625f9)},    {8, UINT64_C(0x60e1baa91347a1f2)},
        {16, UINT64_C(0x8626370b70d8ac70)},   {17, UINT64_C(0xaa7a5f479409a664)},
        {128, UINT64_C(0x040e97756280237a)},  {129, UINT64_C(0xf0f4dc98ce461dfd)},
        {240, UINT64_C(0x8acecb90be72b9c3)},  {241, UINT64_C(0x82d3ebf50a3e9c42)},
        {1024, UINT64_C(0xcbdff56b050f2c1c)}, {1025, UINT64_C(0x9babf50235cea0a0)},
        {5000, UINT64_C(0xa092d73116291201)},
    };
    uint8_t bytes[5000];
    struct sp_hash *hash = NULL;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 % 251);
    assert_ok(sp_hash_new(&hash, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(sp_hash64(bytes, cases[i].size) == cases[i].digest);
        sp_hash_reset(hash);
        for (size_t at = 0, n = 1; at < cases[i].size; at += n, n = n * 2 + 1) {
            if (n > cases[i].size - at) n = cases[i].size - at;
            sp_hash_update(hash, bytes + at, n);
            (void)sp_hash_digest(hash);
        }
        assert_true(sp_hash_digest(hash) == cases[i].digest);
    }
    assert_true(sp_hash64(NULL, 0) == cases[0].digest);
    sp_hash_free(hash);
    sp_hash_free(NULL);
}

/* Values printed by `xxhsum -H2` for the same bytes. */
TEST(long_digests)
{
    uint8_t bytes[5000];
    char text[SP_HASH128_TEXT];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 % 251);
    sp_hash128_text(text, NULL, 0);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
    sp_hash128_text(text, "abc", 3);
    assert_string_equal(text, "06b05ab6733a618578af5f94892f3950");
    sp_hash128_text(text, bytes, sizeof bytes);
    assert_string_equal(text, "5f50ca3aad5b935da092d73116291201");
}

TEST(content_comes_back)
{
    size_t sizes[] = {0, 1, 100, 300000};
    uint8_t *content = keep(malloc(300000)), *back = keep(malloc(300000)), *frame, *again;
    size_t n, n_again;

    for (size_t i = 0; i < 300000; i++)
        content[i] = (uint8_t)(i / 3 % 200);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(sp_compress(&frame, &n, content, sizes[i], NULL));
        assert_ok(sp_compress(&again, &n_again, content, sizes[i], NULL));
        assert_int_equal(n, n_again);
        assert_memory_equal(frame, again, n);
        assert_ok(sp_decompress(back, sizes[i], frame, n, NULL));
        if (sizes[i]) assert_memory_equal(back, content, sizes[i]);
        if (sizes[i] > 1000) assert_true(n < sizes[i] / 10);
        free(frame);
        free(again);
    }
}

TEST(wrong_frames_are_refused)
{
    /* A skippable frame of no bytes has no content, but it is not a frame of empty content. */
    static const uint8_t skippable[] = {0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0};
    uint8_t content[1000], back[1001], *frame, twice[2000];
    size_t n;

    memset(content, 'x', sizeof content);
    back[1000] = 77;
    assert_ok(sp_compress(&frame, &n, content, sizeof content, NULL));
    assert_fails_as(sp_decompress(back, 999, frame, n, why), SP_E_INPUT,
                    "compressed data: states 1000 bytes of content, expected 999");
    assert_int_equal(sp_decompress(back, 1001, frame, n, NULL), SP_E_INPUT);
    assert_int_equal(sp_decompress(back, 1000, frame, n - 1, NULL), SP_E_INPUT);
    assert_int_equal(sp_decompress(back, 1000, frame, 0, NULL), SP_E_INPUT);
    memcpy(twice, frame, n);
    memcpy(twice + n, frame, n);
    assert_int_equal(sp_decompress(back, 1000, twice, 2 * n, NULL), SP_E_INPUT);
    assert_int_equal(sp_decompress(back, 0, skippable, sizeof skippable, NULL), SP_E_INPUT);
    for (size_t i = 0; i < n; i++) {
        memcpy(twice, frame, n);
        twice[i] ^= 0x10;
        (void)!sp_decompress(back, 1000, twice, n, NULL);
    }
    frame[n - 1] ^= 1; /* the frame's own checksum */
    assert_int_equal(sp_decompress(back, 1000, frame, n, NULL), SP_E_INPUT);
    assert_int_equal(back[1000], 77);
    free(frame);
}
