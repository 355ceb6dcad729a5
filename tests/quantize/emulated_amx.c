#include "tests/quantize/emulated_amx.h"

#include <assert.h>
#include <string.h>

enum { N_TILES = 8, MOST_ROWS = 16, MOST_BYTES = 64 };

/* The registers of a thread. */
struct tile {
    unsigned rows, row_bytes; /* 0: not configured */
    uint8_t at[MOST_ROWS][MOST_BYTES];
};
static _Thread_local struct tile tiles[N_TILES];
static _Thread_local size_t n_dots;

static struct tile *tile_at(unsigned i)
{
    assert(i < N_TILES && tiles[i].rows > 0);
    return &tiles[i];
}

void emulated_loadconfig(const void *config)
{
    const uint8_t *c = config;

    assert(c[0] == 1); /* the palette */
    for (size_t i = 1; i < 16; i++)
        assert(c[i] == 0);
    memset(tiles, 0, sizeof tiles);
    for (size_t i = 0; i < 16; i++) {
        unsigned row_bytes = c[16 + 2 * i] + 256u * c[17 + 2 * i], rows = c[48 + i];
        assert(rows <= MOST_ROWS && row_bytes <= MOST_BYTES && (rows == 0) == (row_bytes == 0));
        assert(i < N_TILES || rows == 0);
        if (i < N_TILES) tiles[i] = (struct tile){.rows = rows, .row_bytes = row_bytes};
    }
}

void emulated_release(void)
{
    memset(tiles, 0, sizeof tiles);
}

void emulated_zero(unsigned tile)
{
    memset(tile_at(tile)->at, 0, sizeof tiles[tile].at);
}

void emulated_load(unsigned tile, const void *from, size_t stride)
{
    struct tile *t = tile_at(tile);

    memset(t->at, 0, sizeof t->at);
    for (size_t i = 0; i < t->rows; i++)
        memcpy(t->at[i], (const uint8_t *)from + i * stride, t->row_bytes);
}

void emulated_store(unsigned tile, void *to, size_t stride)
{
    const struct tile *t = tile_at(tile);

    for (size_t i = 0; i < t->rows; i++)
        memcpy((uint8_t *)to + i * stride, t->at[i], t->row_bytes);
}

void emulated_dot(unsigned sums, unsigned signed_bytes, unsigned unsigned_bytes)
{
    struct tile *c = tile_at(sums);
    const struct tile *a = tile_at(signed_bytes), *b = tile_at(unsigned_bytes);

    assert(a != b && a != c && b != c);
    assert(a->row_bytes % 4 == 0 && c->row_bytes % 4 == 0);
    assert(c->rows == a->rows && c->row_bytes == b->row_bytes && a->row_bytes / 4 == b->rows);
    for (size_t m = 0; m < c->rows; m++) {
        for (size_t n = 0; n < c->row_bytes / 4; n++) {
            int32_t sum;
            memcpy(&sum, c->at[m] + 4 * n, sizeof sum);
            for (size_t k = 0; k < a->row_bytes; k++)
                sum += (int8_t)a->at[m][k] * b->at[k / 4][4 * n + k % 4];
            memcpy(c->at[m] + 4 * n, &sum, sizeof sum);
        }
    }
    n_dots++;
}

size_t emulated_dots(void)
{
    return n_dots;
}
