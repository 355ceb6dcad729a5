/* The search for q4's scale bytes and codes in plain C: the specification; and the lookup tables of
 * all versions. */
#include "quantize/types/microscale_fit.h"
#include "format/base/bytes.h"
#include "format/dtype.h"
#include "quantize/types/microscale.h"

#include <assert.h>

/* With these 16 tries the error is within 0.7 % of the error with the best of all 255 bytes, on
 * Gaussian rows and heavier-tailed ones. */
const float sp_q4_ratios[SP_Q4_N_RATIOS] = {1.015f, 0.835f, 1.068f, 0.964f};

/* Fills the tables for all x in ascending order; n is the index of the entry nearest to x / 2. */
static void fill_lookups(struct sp_q4_tables *tables, const int8_t *entries, int t)
{
    int n = 0;

    for (int x = -128; x < 128; x++) {
        int bin = (x & 0xff) >> 4;
        while (n < 15 && x > entries[n] + entries[n + 1])
            n++;
        if (x % 16 == 0) tables->index[t][bin] = (int8_t)n;
        assert(n <= tables->index[t][bin] + 2);
        if (n == tables->index[t][bin]) tables->first[t][bin] = (int8_t)x;
        if (n <= tables->index[t][bin] + 1) tables->second[t][bin] = (int8_t)x;
        tables->nearest[t][x & 0xff] = entries[n];
    }
}

void sp_q4_tables_init(struct sp_q4_tables *tables)
{
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        const int8_t *entries = sp_microscale_of(SP_Q4)->entries + 16 * t;
        memcpy(tables->entries[t], entries, sizeof tables->entries[t]);
        tables->high[t] = 1.0f / (float)entries[15];
        tables->low[t] = 1.0f / (float)entries[0];
        for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++)
            tables->sums[i][t] = entries[i] + entries[i + 1];
        fill_lookups(tables, entries, t);
    }
}

static int byte_near(float scale, int t)
{
    /* Adding 1.5 * 2^23 leaves the integer, rounded to even, in the low bits. */
    float n = (scale - (float)t) * 0.25f + 12582912.0f;
    int count = (int)(sp_bits_of_float(n) - 0x4b400000u);
    int least = t ? 0 : 1;

    count = count < least ? least : count > 63 ? 63 : count;
    return 4 * count + t;
}

/* Returns the gain of the best byte of codebook t for the entries nearest to v * multiplier. No
 * entry is 0, so neither is q. */
static float try_multiplier(int *byte, const int16_t *v, int multiplier, int t,
                            const struct sp_q4_tables *tables)
{
    int p = 0, q = 0;

    for (int k = 0; k < SP_MICROSCALE_HALF; k++) {
        int x = (v[k] * multiplier + 16384) >> 15;
        int c = tables->nearest[t][(x < -128 ? -128 : x > 127 ? 127 : x) & 0xff];
        p += v[k] * c;
        q += c * c;
    }
    *byte = byte_near((float)p / (float)q, t);
    return (float)*byte * (2.0f * (float)p - (float)*byte * (float)q);
}

/* The best scale byte for v[16]. */
static uint8_t search(const int16_t *v, const struct sp_q4_tables *tables)
{
    float best_gain = 0;
    int best = 0, max = v[0], min = v[0];

    for (int k = 1; k < SP_MICROSCALE_HALF; k++) {
        max = v[k] > max ? v[k] : max;
        min = v[k] < min ? v[k] : min;
    }
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        float up = (float)max * tables->high[t], down = (float)min * tables->low[t];
        float inverse = 65536.0f / (up > down ? up : down);
        for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
            float m = inverse * sp_q4_ratios[r], gain;
            int byte;
            m = m > 128.0f ? m : 128.0f;
            m = m < 32767.0f ? m : 32767.0f;
            gain = try_multiplier(&byte, v, (int)m, t, tables);
            if (gain > best_gain) {
                best_gain = gain;
                best = byte;
            }
        }
    }
    return (uint8_t)best;
}

static unsigned code_of(int v, uint8_t byte, const struct sp_q4_tables *tables)
{
    unsigned code = 0;

    for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++)
        code += v > (byte * tables->sums[i][byte & 3]) >> 1;
    return code;
}

void sp_q4_fit_ref(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables)
{
    for (size_t half = 0; half < 2 * SP_PANEL_ROWS; half++) {
        size_t h = half / SP_PANEL_ROWS, row = half % SP_PANEL_ROWS;
        uint8_t *codes = block + 128 * h + 4 * row;
        int16_t w[SP_MICROSCALE_HALF];
        uint8_t byte;
        for (size_t k = 0; k < SP_MICROSCALE_HALF; k++)
            w[k] = v[sp_q4_place(row, h * SP_MICROSCALE_HALF + k)];
        byte = search(w, tables);
        for (size_t k = 0; k < SP_MICROSCALE_HALF / 2; k++) {
            unsigned low = code_of(w[k], byte, tables), high = code_of(w[k + 8], byte, tables);
            codes[64 * (k / 4) + k % 4] = (uint8_t)(low | high << 4);
        }
        block[256 + half] = byte;
    }
}
