/* Where sums and numbers lie, and how the ones become the others: see feedback.h. */
#include "quantize/gptq.h"

#include "format/base/mem.h"

#include <string.h>

enum { N = SP_GPTQ_GROUP };

/* ---- where things lie -------------------------------------------------------------------------
 */

/* Floats of one block of `width` columns: its groups get shorter by N columns each. */
static size_t block_size(size_t width)
{
    size_t groups = sp_gptq_n_groups(width);

    return N * (groups * width - N * (groups * (groups - 1) / 2));
}

bool sp_gptq_size(size_t *out, size_t cols)
{
    size_t full = cols / SP_GPTQ_BLOCK, size;

    if (!sp_mul(&size, full, block_size(SP_GPTQ_BLOCK))) return false;
    return sp_add(out, size, block_size(cols % SP_GPTQ_BLOCK));
}

size_t sp_gptq_offset(size_t cols, size_t g)
{
    size_t block = g * N / SP_GPTQ_BLOCK, first = block * SP_GPTQ_BLOCK;
    size_t width = cols - first < SP_GPTQ_BLOCK ? cols - first : SP_GPTQ_BLOCK;
    size_t before = g - first / N;

    return block * block_size(SP_GPTQ_BLOCK) +
           N * (before * width - N * (before * (before - 1) / 2));
}

/* ---- solving ----------------------------------------------------------------------------------
 */

/* a[j][i] = sums of (i, j), i <= j: the block's lower triangle. */
static void load_block(double *a, const float *sums, size_t width)
{
    for (size_t first = 0; first < width; first += N) {
        for (size_t j = first; j < width; j++, sums += N) {
            for (size_t i = 0; i < N && first + i <= j; i++)
                a[j * SP_GPTQ_BLOCK + first + i] = (double)sums[i];
        }
    }
}

static void store_block(float *numbers, const double *a, size_t width)
{
    for (size_t first = 0; first < width; first += N) {
        double most = 0;

        for (size_t i = first; i < first + N; i++) {
            double d = a[i * SP_GPTQ_BLOCK + i];
            most = d > most ? d : most;
        }
        for (size_t j = first; j < width; j++, numbers += N) {
            memset(numbers, 0, N * sizeof *numbers);
            for (size_t i = 0; i < N && first + i <= j; i++) {
                double m = a[j * SP_GPTQ_BLOCK + first + i];
                numbers[i] = (float)(first + i == j ? m / most : m);
            }
        }
    }
}

/* What each diagonal element grows by: shares of itself, and of the block's mean. */
static const double OWN_DAMPING = 0.3, MEAN_DAMPING = 1e-4;

/* Returns the least that any element of D can be; the room of an input that was always zero is 1.
 */
static double damp(double *a, size_t width)
{
    double mean = 0, least;

    for (size_t i = 0; i < width; i++)
        mean += a[i * SP_GPTQ_BLOCK + i];
    mean /= (double)width;
    least = mean > 0 ? mean * MEAN_DAMPING : 1;
    for (size_t i = 0; i < width; i++)
        a[i * SP_GPTQ_BLOCK + i] += a[i * SP_GPTQ_BLOCK + i] * OWN_DAMPING + least;
    return least;
}

/* H = (I + M) D (I + M)', from the last column to the first: when column k's turn comes, the parts
 * of the columns behind it are taken off. a[j][i], i <= j, is H[i][j] before, M[i][j] after. */
static void decompose(double *a, size_t width, double least)
{
    for (size_t k = width; k-- > 0;) {
        double *row = a + k * SP_GPTQ_BLOCK, d = row[k] > least ? row[k] : least;

        row[k] = d;
        for (size_t j = 0; j < k; j++) {
            double *to = a + j * SP_GPTQ_BLOCK, m = row[j] / d;

            for (size_t i = 0; i <= j; i++)
                to[i] -= m * row[i];
        }
        for (size_t j = 0; j < k; j++)
            row[j] /= d;
    }
}

void sp_gptq_solve(float *sums, size_t cols, size_t block, double *room)
{
    size_t first = block * SP_GPTQ_BLOCK;
    size_t width = sp_gptq_block_end(cols, first) - first;

    sums += sp_gptq_offset(cols, first / N);
    load_block(room, sums, width);
    decompose(room, width, damp(room, width));
    store_block(sums, room, width);
}

bool sp_gptq_is_sound(const float *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(numbers[i] > -1e6f && numbers[i] < 1e6f)) return false;
    }
    return true;
}
