/* Fuzzes calibration files: the bytes are refused with a message, or weights can be quantized with
 * them. Each input is tried unchanged and with corrected digests. */
#include "convert/create/calibration.h"
#include "format/pack_contents.h"
#include "quantize/types/gptq.h"
#include "quantize/types/microscale.h"
#include "tests/support/repair_digests.h"
#include "tests/fuzz/fuzz.h"

enum { ROWS = 16, WIDE = 64, N_STACKED = 2, N_ITEMS = 3 };

/* Encodes arbitrary weights. */
static void encode(const float *numbers, size_t cols)
{
    static float rows[ROWS * WIDE], room[WIDE * ROWS], scales[ROWS];
    static uint8_t blocks[WIDE * ROWS];
    static const enum sp_dtype types[] = {SP_Q2, SP_Q3, SP_Q4, SP_Q5, SP_Q6};
    struct sp_microscale_books books;

    for (size_t i = 0; i < ROWS * cols; i++)
        rows[i] = (float)((int)(i * 7919 % 2001) - 1000) / 1000.0f;
    for (size_t row = 0; row < ROWS; row++)
        scales[row] = row ? 1e-4f : 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        sp_microscale_books_init(&books, sp_microscale_of(types[i]));
        sp_gptq_ref.encode(blocks, rows, ROWS, cols, scales, numbers, room, &books);
    }
}

/* Encodes by the weights of an item with `cols` columns. */
static void encode_item(const struct sp_plan_item *item, size_t cols)
{
    static const int8_t exponents[WIDE] = {1, -2, [20] = 3, [40] = -1};
    static float factors[WIDE * (WIDE + SP_GPTQ_GROUP)];

    if (!sp_gptq_is_weighed(item->weights)) return;
    for (size_t i = 0; i < (item->weights.squares ? N_STACKED : 1); i++) {
        sp_gptq_factors(factors, item->weights, i, cols, NULL);
        encode(factors, cols);
    }
    if (item->weights.squares) return;
    sp_gptq_factors(factors, item->weights, 0, cols, exponents);
    encode(factors, cols);
}

/* Applies the calibration to a model of two matrices and a stack. */
static enum sp_status use(const struct sp_calibration_file *file, struct sp_err *err)
{
    char path[] = "model";
    struct sp_tensor_spec specs[] = {
        {.name = "a.weight", .role = SP_ROLE_MLP, .rank = 2, .shape = {ROWS, 32}},
        {.name = "b.weight", .role = SP_ROLE_MLP, .rank = 2, .shape = {ROWS, WIDE}},
        {.name = "c.weight", .role = SP_ROLE_MLP, .rank = 3, .shape = {N_STACKED, ROWS, 32}},
    };
    struct sp_source source = {.path = path, .specs = {.specs = specs, .n_specs = N_ITEMS}};
    struct sp_plan_item items[] = {
        {.source = &source, .spec = &specs[0], .part = SP_PART_TARGET, .to = SP_Q4},
        {.source = &source, .spec = &specs[1], .part = SP_PART_TARGET, .to = SP_Q4},
        {.source = &source, .spec = &specs[2], .part = SP_PART_TARGET, .to = SP_Q4},
    };
    struct sp_plan plan = {.items = items, .n_items = N_ITEMS};
    size_t n_used, n_without;
    enum sp_status st =
        sp_calibration_apply(file, &plan, &source, SP_PART_TARGET, &n_used, &n_without, err);

    if (st) return st;
    if (n_used + n_without != N_ITEMS) abort();
    for (size_t i = 0; i < N_ITEMS; i++)
        encode_item(&items[i], (size_t)sp_spec_cols(&specs[i]));
    return SP_OK;
}

static void open_one(const uint8_t *data, size_t size)
{
    struct sp_pack *pack = NULL;
    struct sp_calibration_file file = {0};
    struct sp_err err = {0};
    enum sp_status st = sp_pack_open_bytes(&pack, data, size, "fuzz", &err);

    if (st == SP_OK) st = sp_calibration_take(&file, pack, &err);
    if (st == SP_OK) st = use(&file, &err);
    if ((st == SP_OK) != (err.text[0] == 0)) abort();
    sp_calibration_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    if (size == 0) return 0;
    if ((copy = aligned_alloc(64, (size / 64 + 1) * 64)) == NULL) abort();
    memcpy(copy, data, size);
    open_one(copy, size);
    repair_digests(copy, size);
    open_one(copy, size);
    free(copy);
    return 0;
}
