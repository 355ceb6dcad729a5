/* format/base/mem.h and format/base/bytes.h: sizes that overflow are failures, and numbers are
 * little-endian. */
#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "quantize/kernels/kernels.h"
#include "tests/support/unit_test.h"

TEST(sums_and_products_are_checked)
{
    size_t r = 5;

    assert_true(sp_mul(&r, 6, 7));
    assert_int_equal(r, 42);
    assert_true(sp_mul(&r, SIZE_MAX, 0));
    assert_int_equal(r, 0);
    r = 5;
    assert_false(sp_mul(&r, SIZE_MAX / 2 + 1, 2));
    assert_false(sp_add(&r, SIZE_MAX, 1));
    assert_int_equal(r, 5);
    assert_true(sp_add(&r, SIZE_MAX - 1, 1));
    assert_true(r == SIZE_MAX);
    assert_int_equal(sp_round_up(0, 64), 0);
    assert_int_equal(sp_round_up(1, 64), 64);
    assert_int_equal(sp_round_up(64, 64), 64);
    assert_int_equal(sp_round_up(65, 64), 128);
}

TEST(new_memory)
{
    struct sp_err err = {0};
    unsigned char *p = NULL;
    float *row = NULL;

    assert_ok(sp_new(&p, 3, 5, &err));
    for (int i = 0; i < 15; i++)
        assert_int_equal(p[i], 0);
    free(p);
    assert_ok(sp_new(&p, 0, 5, &err));
    assert_non_null(p);
    free(p);
    assert_ok(sp_new_aligned(&row, 3, sizeof *row, &err));
    assert_int_equal((uintptr_t)row % 64, 0);
    free(row);
    assert_ok(sp_new_rows(&row, 3, 5, &err));
    assert_int_equal((uintptr_t)row % 64, 0);
    for (size_t i = 0; i < 15; i++)
        assert_true(row[i] == 0);
    free(row);
    row = NULL;
    assert_int_equal(sp_new_rows(&row, SIZE_MAX / 2, 3, NULL), SP_E_NOMEM);
    assert_null(row);
    p = NULL;
    assert_int_equal(sp_new(&p, SIZE_MAX / 2, 4, &err), SP_E_NOMEM);
    assert_null(p);
    assert_non_null(strstr(err.text, "x 4 bytes"));
    assert_int_equal(sp_new_aligned(&p, SIZE_MAX / 2, 4, NULL), SP_E_NOMEM);
    assert_int_equal(sp_new_aligned(&p, SIZE_MAX - 5, 1, NULL), SP_E_NOMEM);
    assert_null(p);
}

TEST(arrays_grow)
{
    uint32_t *array = NULL;
    size_t cap = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        assert_ok(sp_grow(&array, &cap, i + 1, sizeof *array, NULL));
        assert_true(cap > i);
        array[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(array[i], i);
    assert_int_equal(sp_grow(&array, &cap, SIZE_MAX / 2, sizeof *array, NULL), SP_E_NOMEM);
    assert_int_equal(array[999], 999);
    free(array);
}

/* Memory that the arena cannot list is free, and nobody has it. */
TEST(full_arena)
{
    struct sp_arena arena = {.n = SIZE_MAX / 2, .cap = SIZE_MAX / 2};
    struct sp_err err = {0};

    assert_ok(sp_arena_check(&arena, NULL));
    assert_null(sp_arena_rows(&arena, 3, 5));
    assert_null(sp_arena_acts(&arena, 1, 32).x);
    assert_int_equal(sp_arena_check(&arena, &err), SP_E_NOMEM);
    assert_string_equal(err.text, "out of memory: 3 x 20 bytes were requested");
    arena.n = arena.cap = 0; /* nothing is allocated after a failure */
    assert_null(sp_arena_new(&arena, 1, 1));
}

/* Rows without numbers lack memory like others. */
TEST(empty_rows_lack_memory)
{
    struct sp_arena arena = {0};

    assert_null(sp_arena_keep(&arena, NULL, 3, 0));
    assert_int_equal(sp_arena_check(&arena, NULL), SP_E_NOMEM);
    assert_null(sp_arena_new(&arena, 1, 1));
}

TEST(text_is_copied_with_its_end)
{
    char *copy = NULL;

    assert_ok(sp_copy_text(&copy, "abcdef", 3, NULL));
    assert_string_equal(copy, "abc");
    free(copy);
    assert_ok(sp_copy_text(&copy, NULL, 0, NULL));
    assert_string_equal(copy, "");
    free(copy);
    assert_int_equal(sp_copy_text(&copy, "x", SIZE_MAX, NULL), SP_E_NOMEM);
}

/* A stream of open_memstream that finds no memory may be closed with success and without a text. */
TEST(closed_text_is_missing)
{
    FILE *stream = tmpfile();
    char *text = NULL;

    assert_non_null(stream);
    assert_int_equal(sp_close_text(stream, &text, NULL), SP_E_NOMEM);
}

TEST(numbers_are_little_endian)
{
    static const uint8_t bytes[] = {0xFF, 0x01, 0x02, 0x83, 0x04, 0x05, 0x06, 0x07, 0x88};
    uint8_t out[9] = {0xFF};

    assert_int_equal(sp_get16(bytes + 1), 0x0201);
    assert_int_equal(sp_get32(bytes + 1), 0x04830201);
    assert_true(sp_get64(bytes + 1) == UINT64_C(0x8807060504830201));
    sp_put64(out + 1, UINT64_C(0x8807060504830201));
    assert_memory_equal(out, bytes, sizeof out);
    assert_true(sp_float_of_bits(0x3FC00000) == 1.5f);
    assert_int_equal(sp_bits_of_float(-2.0f), 0xC0000000);
}
