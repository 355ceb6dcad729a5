/* Tests the kv cache: sizes, refusals, the slots of a ring buffer, and digests, which depend on the
 * stored rows alone. */
#include "runtime/backend/kv.h"
#include "tests/support/cache_digest.h"
#include "tests/support/kv_rows.h"
#include "tests/support/unit_test.h"

enum { N_HEADS = 2, DIM = 32, LD = N_HEADS * DIM + 5 };

static void init(struct sp_kv *kv, enum sp_cache_type type, size_t n_positions, size_t window,
                 size_t max_rows)
{
    assert_ok(sp_kv_init(kv, type, (struct sp_kv_shape){N_HEADS, DIM, 0}, n_positions, window,
                         max_rows, NULL));
    assert_ok(sp_kv_grow(kv, SIZE_MAX, NULL));
}

/* Stores one row whose numbers encode its position and `mark`, the value of this write. */
static void put(struct sp_kv *kv, size_t pos, float tag)
{
    float k[LD], v[LD];

    for (size_t i = 0; i < LD; i++) {
        k[i] = (float)pos + (float)i / 128 + tag;
        v[i] = -k[i];
    }
    put_rows(kv, sp_vector_find("scalar"), pos, 1, k, v, LD);
}

TEST(test_slots)
{
    static const struct {
        size_t n_positions, window, max_rows, want;
    } cases[] = {
        {4096, 0, 512, 4096}, {4097, 0, 1, 4352},   {1, 0, 1, 256},      {0, 0, 1, 256},
        {4096, 128, 16, 256}, {4096, 240, 17, 512}, {100, 512, 16, 256}, {4096, 9999, 1, 4096},
    };
    struct sp_kv kv;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        init(&kv, SP_CACHE_F16, cases[i].n_positions, cases[i].window, cases[i].max_rows);
        assert_int_equal(kv.n_slots, cases[i].want);
        assert_int_equal(sp_kv_size(&kv, SIZE_MAX), cases[i].want * N_HEADS * DIM * 2 * 2);
        sp_kv_release(&kv);
    }
    init(&kv, SP_CACHE_Q8, 256, 0, 1);
    assert_int_equal(sp_kv_size(&kv, SIZE_MAX), 256 * N_HEADS * (DIM + 4) * 2);
    sp_kv_release(&kv);
    sp_kv_release(&kv); /* released stays released */
    assert_ok(sp_kv_init(&kv, SP_CACHE_F16, (struct sp_kv_shape){1, 48, 32}, 256, 0, 1, NULL));
    assert_ok(sp_kv_grow(&kv, SIZE_MAX, NULL));
    assert_int_equal(sp_kv_size(&kv, SIZE_MAX), 256 * (48 + 32) * 2);
    sp_kv_release(&kv);
}

TEST(test_refusals)
{
    struct sp_kv kv = {0};

    assert_fails(sp_kv_init(&kv, SP_CACHE_Q8, (struct sp_kv_shape){1, 40, 0}, 256, 0, 1, why),
                 SP_E_UNSUPPORTED, "40 dims");
    assert_fails(sp_kv_init(&kv, SP_CACHE_F32, (struct sp_kv_shape){1, 2048, 0}, 256, 0, 1, why),
                 SP_E_UNSUPPORTED, "");
    assert_int_equal(sp_kv_init(&kv, SP_CACHE_F32, (struct sp_kv_shape){1, 0, 0}, 256, 0, 1, NULL),
                     SP_E_UNSUPPORTED);
    assert_int_equal(
        sp_kv_init(&kv, SP_CACHE_F32, (struct sp_kv_shape){64, 128, 0}, SIZE_MAX / 2, 0, 1, NULL),
        SP_E_NOMEM);
    assert_int_equal(
        sp_kv_init(&kv, SP_CACHE_F32, (struct sp_kv_shape){64, 128, 0}, SIZE_MAX, 0, 1, NULL),
        SP_E_NOMEM);
    assert_null(kv.keys);
}

/* A rejected draft token does not change the digest. A ring buffer drops exactly the overwritten
 * positions. */
TEST(test_digest)
{
    struct sp_kv plain, drafted;

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        init(&plain, (enum sp_cache_type)type, 4096, 100, 16);
        init(&drafted, (enum sp_cache_type)type, 4096, 100, 16);
        for (size_t pos = 0; pos < 600; pos++) {
            for (size_t ahead = 0; ahead < pos % 16; ahead++)
                put(&drafted, pos + ahead, 0.5f);
            put(&plain, pos, 0);
            put(&drafted, pos, 0);
        }
        uint64_t digest = kv_digest(&plain, 500, 600);
        assert_true(kv_digest(&drafted, 500, 600) == digest);
        assert_true(kv_digest(&drafted, 500, 599) != digest);
        put(&drafted, 600, 0.5f); /* outside of the digested range */
        assert_true(kv_digest(&drafted, 500, 600) == digest);
        put(&drafted, 599, 0.5f);
        assert_true(kv_digest(&drafted, 500, 600) != digest);
        sp_kv_release(&plain);
        sp_kv_release(&drafted);
    }
}

/* A copied position has the digest of the original at the same place. */
TEST(test_copy)
{
    struct sp_kv from, to, same;

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        init(&from, (enum sp_cache_type)type, 512, 0, 1);
        init(&to, (enum sp_cache_type)type, 256, 0, 1);
        init(&same, (enum sp_cache_type)type, 256, 0, 1);
        put(&from, 300, 0.25f);
        put(&from, 301, 0.5f);
        for (size_t head = 0; head < from.n_heads; head++)
            sp_kv_copy(&to, 5, &from, 301, head);
        put(&same, 5, 0.5f + 296);
        for (size_t lane = 0; lane < 2; lane++)
            assert_true(kv_digest(&to, 5 - lane, 6) == kv_digest(&same, 5 - lane, 6));
        sp_kv_release(&from);
        sp_kv_release(&to);
        sp_kv_release(&same);
    }
}

/* Changing a single number of any key or value of either head changes the digest. */
TEST(test_digest_covers_every_number)
{
    float row[LD] = {0}, other[LD];
    struct sp_kv kv;

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        init(&kv, (enum sp_cache_type)type, 256, 0, 1);
        put_rows(&kv, sp_vector_find("scalar"), 7, 1, row, row, LD);
        uint64_t digest = kv_digest(&kv, 7, 8);
        for (size_t i = 0; i < 2 * N_HEADS * DIM; i++) {
            memcpy(other, row, sizeof row);
            other[i / 2] = 1;
            put_rows(&kv, sp_vector_find("scalar"), 7, 1, i % 2 ? row : other, i % 2 ? other : row,
                     LD);
            assert_true(kv_digest(&kv, 7, 8) != digest);
        }
        sp_kv_release(&kv);
    }
}

/* The digest of the same positions does not depend on their slots in the ring buffer. */
TEST(test_digest_ignores_slots)
{
    struct sp_kv ring, full;

    init(&ring, SP_CACHE_F16, 4096, 100, 16);
    init(&full, SP_CACHE_F16, 4096, 0, 16);
    for (size_t pos = 0; pos < 1000; pos++) {
        put(&ring, pos, 0);
        put(&full, pos, 0);
    }
    assert_true(kv_digest(&ring, 800, 1000) == kv_digest(&full, 800, 1000));
    sp_kv_release(&ring);
    sp_kv_release(&full);
}

TEST(test_many_rows_at_once)
{
    float k[20 * LD], v[20 * LD];
    struct sp_kv one, all;

    for (size_t i = 0; i < 20 * LD; i++) {
        k[i] = (float)(i % 97) - 48;
        v[i] = (float)(i % 89);
    }
    init(&one, SP_CACHE_Q8, 512, 0, 20);
    init(&all, SP_CACHE_Q8, 512, 0, 20);
    put_rows(&all, sp_vector_find("scalar"), 250, 20, k, v, LD);
    for (size_t t = 0; t < 20; t++)
        put_rows(&one, sp_vector_find("scalar"), 250 + t, 1, k + t * LD, v + t * LD, LD);
    assert_true(kv_digest(&one, 250, 270) == kv_digest(&all, 250, 270));
    sp_kv_release(&one);
    sp_kv_release(&all);
}

/* Every block of every head has its own memory, and the blocks of a span are contiguous. */
TEST(test_blocks_do_not_overlap)
{
    enum { HEADS = 3, N_BLOCKS = 3 * SP_SPAN / SP_KV_BLOCK };
    bool taken[HEADS * N_BLOCKS] = {false};
    struct sp_kv kv = {0};

    assert_ok(
        sp_kv_init(&kv, SP_CACHE_F16, (struct sp_kv_shape){HEADS, 32, 0}, 3 * SP_SPAN, 0, 1, NULL));
    assert_ok(sp_kv_grow(&kv, SIZE_MAX, NULL));
    for (size_t h = 0; h < HEADS; h++) {
        for (size_t b = 0; b < N_BLOCKS; b++) {
            const uint8_t *keys = sp_kv_keys(&kv, h, b * SP_KV_BLOCK);
            size_t place = (size_t)(keys - kv.keys) / kv.key_block_size;
            assert_true(place < HEADS * N_BLOCKS);
            assert_false(taken[place]);
            taken[place] = true;
            assert_ptr_equal(sp_kv_values(&kv, h, b * SP_KV_BLOCK),
                             kv.values + place * kv.value_block_size);
            if (b * SP_KV_BLOCK % SP_SPAN == 0) continue;
            assert_ptr_equal(keys, sp_kv_keys(&kv, h, (b - 1) * SP_KV_BLOCK) + kv.key_block_size);
        }
    }
    sp_kv_release(&kv);
}

/* What is transferred of a span of tokens has the positions that are completed in it, also where
 * they are few, or begin within a block. */
TEST(test_spans_of_strides)
{
    static const size_t strides[] = {1, 4, 16, 100, 128, 300};
    enum { N_SPANS = 12 };

    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        size_t stride = strides[i];
        struct sp_kv kv;
        assert_ok(sp_kv_init(&kv, SP_CACHE_F16, (struct sp_kv_shape){1, DIM, 0},
                             N_SPANS * SP_SPAN / stride + 1, 0, 1, NULL));
        kv.stride = stride;
        assert_ok(sp_kv_grow(&kv, N_SPANS * SP_SPAN, NULL));
        for (size_t span = 0; span < N_SPANS; span++) {
            size_t size;
            const uint8_t *keys = sp_kv_span(&kv, span, false, &size);
            assert_true(size <= (SP_SPAN / SP_KV_BLOCK / stride + 2) * kv.key_block_size);
            for (size_t token = span * SP_SPAN; token < (span + 1) * SP_SPAN; token++) {
                const uint8_t *key = sp_kv_keys(&kv, 0, token / stride);
                if ((token + 1) % stride != 0) continue;
                assert_true(key >= keys && key < keys + size);
            }
        }
        sp_kv_release(&kv);
    }
}
