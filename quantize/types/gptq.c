/* The layout of sums and factors, what surrounds the decomposition of kernels_gptq.h - the order of
 * the groups and the damping -, and the checks of foreign factors: see gptq.h. */
#include "quantize/types/gptq.h"

#include "format/base/mem.h"
#include "format/weights/smoothing.h"
#include "quantize/types/float_cast.h"

#include <stdlib.h>
#include <string.h>

enum { N = SP_GPTQ_GROUP, MAX_GROUPS = SP_GPTQ_BLOCK / N };

/* ---- layout ---- */

/* Floats of one block of `width` columns. Each group has N columns fewer than the one before. */
static size_t block_size(size_t width)
{
    size_t groups = sp_gptq_n_groups(width);

    return groups + N * (groups * width - N * (groups * (groups - 1) / 2));
}

static size_t n_blocks(size_t cols)
{
    return (cols + SP_GPTQ_BLOCK - 1) / SP_GPTQ_BLOCK;
}

static size_t width_of(size_t cols, size_t block)
{
    size_t first = block * SP_GPTQ_BLOCK;

    return sp_gptq_block_end(cols, first) - first;
}

bool sp_gptq_size(size_t *out, size_t cols)
{
    size_t full = cols / SP_GPTQ_BLOCK, size;

    if (!sp_mul(&size, full, block_size(SP_GPTQ_BLOCK))) return false;
    return sp_add(out, size, block_size(cols % SP_GPTQ_BLOCK));
}

size_t sp_gptq_cols(size_t n)
{
    size_t full = n / block_size(SP_GPTQ_BLOCK), rest = n % block_size(SP_GPTQ_BLOCK), width = 0;

    while (block_size(width) < rest)
        width += N;
    return block_size(width) == rest ? full * SP_GPTQ_BLOCK + width : 0;
}

size_t sp_gptq_block_offset(size_t block)
{
    return block * block_size(SP_GPTQ_BLOCK);
}

size_t sp_gptq_offset(size_t cols, size_t g)
{
    size_t block = g * N / SP_GPTQ_BLOCK, width = width_of(cols, block);
    size_t before = g - block * SP_GPTQ_BLOCK / N;

    return sp_gptq_block_offset(block) + sp_gptq_n_groups(width) +
           N * (before * width - N * (before * (before - 1) / 2));
}

/* ---- solving ---- */

/* The groups of a block by the sums of their squares, the largest first. */
struct order {
    size_t groups[MAX_GROUPS]; /* by place */
    size_t places[MAX_GROUPS]; /* by group */
};

/* sums: those of the block's pairs. */
static void find_order(struct order *order, const float *sums, size_t width)
{
    double squares[MAX_GROUPS] = {0};

    for (size_t g = 0; g < width / N; g++) {
        size_t place = g;
        for (size_t i = 0; i < N; i++)
            squares[g] += (double)sums[i * N + i];
        for (; place > 0 && squares[g] > squares[order->groups[place - 1]]; place--)
            order->groups[place] = order->groups[place - 1];
        order->groups[place] = g;
        sums += (width - g * N) * N;
    }
    for (size_t place = 0; place < width / N; place++)
        order->places[order->groups[place]] = place;
}

/* a[j][i] = sums of (i, j), i <= j, in the new order: the block's lower triangle. Within a group
 * the sums of (i, j) and of (j, i) are there, of which one is enough. */
static void load_block(double *a, const float *sums, size_t width, const struct order *order)
{
    for (size_t first = 0; first < width; first += N) {
        size_t to = order->places[first / N] * N;
        for (size_t j = first; j < width; j++, sums += N) {
            size_t k = order->places[j / N] * N + j % N;
            for (size_t i = 0; i < N; i++)
                if (to + i <= k)
                    a[k * SP_GPTQ_BLOCK + to + i] = (double)sums[i];
                else if (first + i <= j)
                    a[(to + i) * SP_GPTQ_BLOCK + k] = (double)sums[i];
        }
    }
}

static void store_block(float *factors, const double *a, size_t width, const struct order *order)
{
    for (size_t place = 0; place < width / N; place++)
        *factors++ = (float)order->groups[place];
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

static void solve_block(float *numbers, size_t width, double *workspace,
                        const struct sp_gptq_kernels *kernels)
{
    const float *sums = numbers + sp_gptq_n_groups(width);
    struct order order;

    find_order(&order, sums, width);
    load_block(workspace, sums, width, &order);
    kernels->decompose(workspace, width, damp(workspace, width));
    store_block(numbers, workspace, width, &order);
}

void sp_gptq_solve(float *sums, size_t cols, double *workspace,
                   const struct sp_gptq_kernels *kernels)
{
    for (size_t block = 0; block < n_blocks(cols); block++)
        solve_block(sums + sp_gptq_block_offset(block), width_of(cols, block), workspace, kernels);
}

/* ---- use ---- */

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

/* exponents: of the block's columns. Returns what follows the block. */
static float *smooth_block(float *factors, size_t width, const int8_t *exponents)
{
    const float *order = factors;

    factors += sp_gptq_n_groups(width);
    for (size_t first = 0; first < width; first += N) {
        const int8_t *own = exponents + (size_t)order[first / N] * N;
        float *group = factors, down[N];
        for (size_t i = 0; i < N; i++)
            down[i] = sp_power_of_two(-own[i]);
        for (size_t j = first; j < width; j++, factors += N) {
            float up = sp_power_of_two(exponents[(size_t)order[j / N] * N + j % N]);
            for (size_t i = 0; i < N && first + i < j; i++)
                factors[i] *= up * down[i];
        }
        smooth_diagonal(group, down);
    }
    return factors;
}

void sp_gptq_smooth(float *factors, size_t cols, const int8_t *exponents)
{
    for (size_t first = 0; first < cols; first += SP_GPTQ_BLOCK)
        factors = smooth_block(factors, sp_gptq_block_end(cols, first) - first, exponents + first);
}

void sp_gptq_diagonal(float *out, const float *sums, size_t cols)
{
    for (size_t k = 0; k < cols; k++) {
        size_t g = k / N;
        out[k] = sums[sp_gptq_offset(cols, g) + (k - g * N) * N + k % N];
    }
}

static void set_by_squares(float *factors, const float *squares, size_t cols)
{
    double mean = 0;

    for (size_t k = 0; k < cols; k++)
        mean += (double)squares[k] / (double)cols;
    for (size_t first = 0; first < cols; first += N) {
        double d[N], largest = 0;
        if (first % SP_GPTQ_BLOCK == 0)
            for (size_t g = 0; g < width_of(cols, first / SP_GPTQ_BLOCK) / N; g++)
                *factors++ = (float)g;
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

void sp_gptq_factors(float *out, struct sp_gptq_weights weights, size_t matrix, size_t cols,
                     const int8_t *exponents)
{
    size_t n = 0;

    if (weights.squares) {
        set_by_squares(out, weights.squares + matrix * cols, cols);
        return;
    }
    sp_gptq_size(&n, cols);
    sp_read_bf16(out, weights.factors, n);
    if (exponents) sp_gptq_smooth(out, cols, exponents);
}

enum sp_status sp_gptq_prepare(const float **factors, struct sp_gptq_room *room,
                               struct sp_gptq_weights weights, size_t matrix, size_t cols,
                               const int8_t *exponents, struct sp_err *err)
{
    const void *made_of = weights.factors;
    size_t n, panel;
    enum sp_status st;

    *factors = NULL;
    if (!sp_gptq_is_weighed(weights)) return SP_OK;
    if (!sp_gptq_size(&n, cols) || !sp_mul(&panel, cols, SP_PANEL_ROWS))
        return sp_fail(err, SP_E_UNSUPPORTED, "a panel of %zu columns is too large", cols);
    if ((st = sp_reserve(&room->workspace, &room->workspace_cap, panel, sizeof(float), err)))
        return st;
    if ((st = sp_reserve(&room->factors, &room->factors_cap, n, sizeof(float), err))) return st;
    *factors = room->factors;
    if (weights.squares) made_of = weights.squares + matrix * cols;
    if (room->made_of == made_of && room->exponents == exponents) return SP_OK;
    sp_gptq_factors(room->factors, weights, matrix, cols, exponents);
    room->made_of = made_of;
    room->exponents = exponents;
    return SP_OK;
}

void sp_gptq_room_release(struct sp_gptq_room *room)
{
    free(room->factors);
    free(room->workspace);
}

bool sp_gptq_are_squares(const float *squares, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(squares[i] >= 0 && squares[i] <= 1)) return false;
    return true;
}

/* Whether the n groups of a block have n different places. */
static bool is_order(const float *groups, size_t n)
{
    bool seen[MAX_GROUPS] = {false};

    for (size_t i = 0; i < n; i++) {
        size_t g;
        if (!(groups[i] >= 0 && groups[i] < (float)n)) return false;
        g = (size_t)groups[i];
        if (groups[i] != (float)g || seen[g]) return false;
        seen[g] = true;
    }
    return true;
}

static bool are_sound(const uint8_t *factors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = sp_f32_of_bf16(sp_get16(factors + 2 * i));
        if (!(x > -1e6f && x < 1e6f)) return false;
    }
    return true;
}

bool sp_gptq_is_sound(const uint8_t *factors, size_t cols)
{
    for (size_t block = 0; block < n_blocks(cols); block++) {
        size_t width = width_of(cols, block), n = sp_gptq_n_groups(width);
        float groups[MAX_GROUPS];
        sp_read_bf16(groups, factors, n);
        if (!is_order(groups, n) || !are_sound(factors, block_size(width))) return false;
        factors += 2 * block_size(width);
    }
    return true;
}
