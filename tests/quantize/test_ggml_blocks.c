/* Blocks of GGUF files against the weights that the gguf package makes of them, bit for bit. */
#include "quantize/ggml_blocks.h"
#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"

#include <math.h>

enum { MOST_BYTES = 210 };

static void check_file(const char *name, size_t n_bytes, size_t n_weights, unsigned n_types)
{
    size_t per_line = 1 + n_bytes + n_weights, n_lines;
    uint64_t *numbers = vector_file_read(name, per_line, &n_lines);
    bool seen[SP_GGML_N_TYPES] = {false};
    unsigned n_seen = 0;

    for (size_t line = 0; line < n_lines; line++) {
        const uint64_t *at = numbers + line * per_line;
        uint32_t type = (uint32_t)at[0];
        uint8_t block[MOST_BYTES];
        float weights[SP_GGML_MAX_BLOCK];
        for (size_t i = 0; i < n_bytes; i++)
            block[i] = (uint8_t)at[1 + i];
        assert_int_equal(sp_ggml_type_info(type)->block, n_weights);
        sp_ggml_decode(weights, type, block, 1);
        for (size_t i = 0; i < n_weights; i++) {
            if (sp_bits_of_float(weights[i]) == at[1 + n_bytes + i]) continue;
            fail_msg("%s line %zu, %s: weight %zu is %.9g", name, line + 1,
                     sp_ggml_type_info(type)->name, i, (double)weights[i]);
        }
        if (!seen[type]) n_seen++;
        seen[type] = true;
    }
    assert_int_equal(n_seen, n_types);
}

TEST(blocks_of_32)
{
    check_file("ggml_32.txt", 34, 32, 7);
}

TEST(blocks_of_64)
{
    check_file("ggml_64.txt", 36, 64, 2);
}

TEST(blocks_of_128)
{
    check_file("ggml_128.txt", 18, 128, 1);
}

TEST(blocks_of_256)
{
    check_file("ggml_256.txt", 210, 256, 8);
}

/* ---- grids ---- */

TEST(grid_blocks)
{
    check_file("ggml_grids.txt", 110, 256, 7);
}

/* The digest of the weights of 1024 blocks, as digest() of gguf_vectors.py computes it. */
static uint64_t digest_of(uint32_t type)
{
    uint64_t random = sp_ggml_type_info(type)->size, digest = 0xcbf29ce484222325u;

    for (unsigned n = 0; n < 1024; n++) {
        uint8_t block[MOST_BYTES];
        float weights[SP_GGML_MAX_BLOCK];
        bool finite = true;
        for (unsigned i = 0; i < sp_ggml_type_info(type)->size; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            block[i] = (uint8_t)(random >> 56);
        }
        sp_ggml_decode(weights, type, block, 1);
        for (unsigned i = 0; i < SP_GGML_MAX_BLOCK; i++)
            finite = finite && isfinite(weights[i]);
        for (unsigned i = 0; i < SP_GGML_MAX_BLOCK && finite; i++)
            digest = (digest ^ sp_bits_of_float(weights[i])) * 0x100000001b3u;
    }
    return digest;
}

TEST(every_point)
{
    size_t n_lines;
    uint64_t *numbers = vector_file_read("ggml_grid_digests.txt", 2, &n_lines);

    assert_int_equal(n_lines, 7);
    for (size_t i = 0; i < n_lines; i++)
        assert_int_equal(digest_of((uint32_t)numbers[2 * i]), numbers[2 * i + 1]);
}

/* Plain floats are blocks of one. */
TEST(floats)
{
    static const uint8_t f32[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
    static const uint8_t f16[4] = {0, 0x3c, 0, 0xc0}, bf16[4] = {0x80, 0x3f, 0, 0xc0};
    static const struct {
        uint32_t type;
        const uint8_t *bytes;
    } cases[] = {{SP_GGML_F32, f32}, {SP_GGML_F16, f16}, {SP_GGML_BF16, bf16}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float out[2];
        sp_ggml_decode(out, cases[i].type, cases[i].bytes, 2);
        assert_float_equal(out[0], 1, 0);
        assert_float_equal(out[1], -2, 0);
    }
}

TEST(sizes)
{
    uint64_t size;

    assert_true(sp_ggml_size(&size, SP_GGML_Q4_K, 3, 512));
    assert_int_equal(size, 3 * 2 * 144);
    assert_false(sp_ggml_size(&size, SP_GGML_Q4_K, 3, 128));
    assert_false(sp_ggml_size(&size, 15, 1, 256)); /* q8_k is not read */
    assert_false(sp_ggml_size(&size, 1000, 1, 256));
    assert_false(sp_ggml_size(&size, SP_GGML_F32, UINT64_MAX / 2, 4));
    assert_string_equal(sp_ggml_type_info(15)->name, "q8_k");
    assert_null(sp_ggml_type_info(1000)->name);
}
