/* The layout of sums and factors, and the decomposition that turns sums into factors: see
 * gptq.h. */
#include "quantize/gptq.h"

#include "format/base/mem.h"
#include "format/model/smoothing.h"

#include <string.h>

enum { N = SP_GPTQ_GROUP };

/* ---- layout ---- */

/* Floats of one block of `width` columns. Each group has N columns fewer than the one before. */
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

/* ---- solving ---- */

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

static void store_block(float *factors, const double *a, size_t width)
{
    for (size_t first = 0; first < width; first += N) {
        double largest = 0;

        for (size_t i = first; i < first + N; i++) {
            double d = a[i * SP_GPTQ_BLOCK + i];
            largest = d > largest ? d : largest;
        }
        for (size_t j = first; j < width; j++, factors += N) {
            memset(factors, 0, N * sizeof *factors);
            for (size_t i = 0; i < N && first + i <= j; i++) {
                double m = a[j * SP_GPTQ_BLOCK + first + i];
                factors[i] = (float)(first + i == j ? m / largest : m);
            }
        }
    }
}

/* The diagonal grows by OWN_DAMPING of itself and by MEAN_DAMPING of the block's mean. */
static const double OWN_DAMPING = 0.3, MEAN_DAMPING = 1e-4;

/* Increases the diagonal; returns the smallest possible element of D, which is 1 for inputs that
 * were always zero. */
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

/* H = (I + M) D (I + M)', from the last column to the first: before column k is divided, the terms
 * of the later columns were subtracted. a[j][i], i <= j, is H[i][j] before, M[i][j] after. */
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

void sp_gptq_solve(float *sums, size_t cols, size_t block, double *workspace)
{
    size_t first = block * SP_GPTQ_BLOCK;
    size_t width = sp_gptq_block_end(cols, first) - first;

    sums += sp_gptq_offset(cols, first / N);
    load_block(workspace, sums, width);
    decompose(workspace, width, damp(workspace, width));
    store_block(sums, workspace, width);
}

/* ---- smoothing ---- */

/* D stays relative to the largest of its group. */
static void smooth_diagonal(float *group, const float *down)
{
    float largest = 0;

    for (size_t i = 0; i < N; i++) {
        float *d = &group[i * N + i];

        *d *= down[i] * down[i];
        if (*d > largest) largest = *d;
    }
    for (size_t i = 0; i < N; i++)
        group[i * N + i] /= largest;
}

void sp_gptq_smooth(float *out, const float *factors, size_t cols, const int8_t *exponents)
{
    for (size_t first = 0; first < cols; first += N) {
        float *group = out, down[N];

        for (size_t i = 0; i < N; i++)
            down[i] = sp_power_of_two(-exponents[first + i]);
        for (size_t j = first; j < sp_gptq_block_end(cols, first); j++, out += N, factors += N) {
            float up = sp_power_of_two(exponents[j]);

            for (size_t i = 0; i < N; i++)
                out[i] = first + i == j ? factors[i] : factors[i] * up * down[i];
        }
        smooth_diagonal(group, down);
    }
}

void sp_gptq_diagonal(float *out, const float *sums, size_t cols)
{
    for (size_t k = 0; k < cols; k++) {
        size_t g = k / N;

        out[k] = sums[sp_gptq_offset(cols, g) + (k - g * N) * N + k % N];
    }
}

void sp_gptq_of_squares(float *factors, const float *squares, size_t cols)
{
    double mean = 0;

    for (size_t k = 0; k < cols; k++)
        mean += (double)squares[k] / (double)cols;
    for (size_t first = 0; first < cols; first += N) {
        double d[N], largest = 0;

        for (size_t i = 0; i < N; i++) {
            d[i] = mean > 0 ? (double)squares[first + i] + mean / 10 : 1;
            largest = d[i] > largest ? d[i] : largest;
        }
        for (size_t j = first; j < sp_gptq_block_end(cols, first); j++, factors += N) {
            memset(factors, 0, N * sizeof *factors);
            if (j < first + N) factors[j - first] = (float)(d[j - first] / largest);
        }
    }
}

bool sp_gptq_is_sound(const float *factors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(factors[i] > -1e6f && factors[i] < 1e6f)) return false;
    }
    return true;
}
