/* The functions of struct sp_vector that are not in vector_each.h, with the primitives of
 * quantize/simd/simd.h, bit-equal to vector_ref.c: an element is a lane, and the 16 running sums of
 * the contract are N_SUMS registers. The file of an instruction set includes its primitives first;
 * without them this file is empty. Attention is in vector_kv_loops.h and vector_q8_loops.h. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_LOOPS_H
#define SP_RUNTIME_VECTOR_VECTOR_LOOPS_H

#include "quantize/simd/simd.h"
#include "runtime/vector/fmath.h"
#include "runtime/vector/vector_each.h"
#include "runtime/vector/vector_tables.h"

#include <assert.h>

#ifdef REGISTER

INLINE size_t above(size_t n, size_t subtracted)
{
    return n > subtracted ? n - subtracted : 0;
}

/* A mask of the lanes of the vector at i that are in first..last-1. */
INLINE mask lanes_between(size_t i, size_t first, size_t last)
{
    return (mask)(first_lanes(above(last, i)) & ~first_lanes(above(first, i)));
}

/* ---- sp_expf, lane by lane ---- */

/* Returns p * x + c, a step of a polynomial. */
INLINE floats step(floats p, floats x, float c)
{
    return fmadd(p, x, splat(c));
}

INLINE floats exp_of(floats x)
{
    floats c = at_least(SP_EXP_LOW, at_most(SP_EXP_HIGH, x));
    floats t = step(c, splat(SP_EXP_LOG2E), SP_EXP_ROUND), n = t - SP_EXP_ROUND;
    floats r = fmadd(n, splat(-SP_EXP_LN2_HIGH), c);
    r = fmadd(n, splat(-SP_EXP_LN2_LOW), r);
    floats p = step(splat(SP_EXP_C6), r, SP_EXP_C5);
    p = step(p, r, SP_EXP_C4);
    p = step(p, r, SP_EXP_C3);
    p = step(p, r, SP_EXP_C2);
    p = step(p, r, 1);
    p = step(p, r, 1);
    uints u = (uints)t - (SP_EXP_ROUND_BITS - 254), half = u >> 1;
    return p * (floats)(half << 23) * (floats)((u - half) << 23);
}

/* ---- sums along a row ---- */

/* Returns sum + a * b in the first n lanes, sum in the others. */
INLINE floats add_product(floats sum, floats a, floats b, size_t n)
{
    floats x = fmadd(a, b, sum);

    return n < LANES ? select(first_lanes(n), x, sum) : x;
}

/* s += a * b for n elements, at most 16; a constant 16 removes all branches. */
INLINE void dot_16(floats s[N_SUMS], const float *a, const float *b, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        size_t i = LANES * g, left = above(n, i);
        if (left > 0) s[g] = add_product(s[g], load(a + i, left), load(b + i, left), left);
    }
}

static float dot(const float *a, const float *b, size_t n)
{
    floats s[N_SUMS] = {{0}};
    size_t i = 0;

    for (; n - i >= SUMS; i += SUMS)
        dot_16(s, a + i, b + i, SUMS);
    dot_16(s, a + i, b + i, n - i);
    return tree_sum(s);
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    weigh_row(y, x, w, 1.0f / sqrtf(dot(x, x, n) / (float)n + eps), n);
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    weigh_row(y, x, NULL, factor / sqrtf(dot(x, x, n) + eps), n);
}

/* Not a plain loop of vector_each.h, since rows of a state are short: sixteen numbers in most
 * models. */
static void exp_mul(float *y, const float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store(y + i, n - i, load(y + i, n - i) * exp_of(load(x + i, n - i) * f));
}

/* ---- states of heads --------------------------------------------------------------------------
 *
 * STATE_ROWS rows of the state are stepped at a time, so that their sums do not wait for each
 * other. The functions are inlined with a constant n_rows, STATE_ROWS or 1. */

/* out[r] = the sum of row r. */
INLINE void sum_rows(float *out, const floats sums[STATE_ROWS][N_SUMS], size_t n_rows)
{
    if (n_rows == STATE_ROWS)
        tree_sums(out, sums);
    else
        out[0] = tree_sum(sums[0]);
}

/* sums_r += the decayed rows s_r times k, for n elements, at most 16, as dot_16. */
INLINE void add_decayed(floats sums[STATE_ROWS][N_SUMS], const float *s, const float *k,
                        float decay, size_t dk, size_t n_rows, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        size_t i = LANES * g, left = above(n, i);
        if (left == 0) continue;
        floats ks = load(k + i, left);
        UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            floats x = load(s + r * dk + i, left) * decay;
            sums[r][g] = add_product(sums[r][g], x, ks, left);
        }
    }
}

/* s_r = d_r k + decayed s_r; sums_r += s_r q. */
INLINE void correct(floats sums[STATE_ROWS][N_SUMS], float *s, const float *d, const float *k,
                    const float *q, float decay, size_t dk, size_t n_rows, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        size_t i = LANES * g, left = above(n, i);
        if (left == 0) continue;
        floats ks = load(k + i, left), qs = load(q + i, left);
        UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            floats x = fmadd(ks, splat(d[r]), load(s + r * dk + i, left) * decay);
            sums[r][g] = add_product(sums[r][g], x, qs, left);
            store(s + r * dk + i, left, x);
        }
    }
}

INLINE void correct_rows(float *s, float *out, const float *delta, const float *q, const float *k,
                         float decay, size_t dk, size_t n_rows)
{
    floats sums[STATE_ROWS][N_SUMS] = {{{0}}};
    float d[STATE_ROWS]; /* which a store to s cannot change */
    size_t i = 0;

    memcpy(d, delta, n_rows * sizeof *d);
    for (; dk - i >= SUMS; i += SUMS)
        correct(sums, s + i, d, k + i, q + i, decay, dk, n_rows, SUMS);
    correct(sums, s + i, d, k + i, q + i, decay, dk, n_rows, dk - i);
    sum_rows(out, sums, n_rows);
}

INLINE void step_rows(float *s, float *out, float *delta, const float *q, const float *k,
                      const float *v, float decay, float beta, size_t dk, size_t n_rows)
{
    floats sums[STATE_ROWS][N_SUMS] = {{{0}}};
    float of_rows[STATE_ROWS], d[STATE_ROWS];
    size_t i = 0;

    for (; dk - i >= SUMS; i += SUMS)
        add_decayed(sums, s + i, k + i, decay, dk, n_rows, SUMS);
    add_decayed(sums, s + i, k + i, decay, dk, n_rows, dk - i);
    sum_rows(of_rows, sums, n_rows);
    memcpy(d, v, n_rows * sizeof *d);
    for (size_t r = 0; r < n_rows; r++)
        d[r] = (d[r] - of_rows[r]) * beta;
    memcpy(delta, d, n_rows * sizeof *d);
    correct_rows(s, out, d, q, k, decay, dk, n_rows);
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    size_t j = 0;

    for (; j + STATE_ROWS <= dv; j += STATE_ROWS)
        step_rows(state + j * dk, out + j, delta + j, q, k, v + j, decay, beta, dk, STATE_ROWS);
    for (; j < dv; j++)
        step_rows(state + j * dk, out + j, delta + j, q, k, v + j, decay, beta, dk, 1);
}

static void state_step(float *state, float *out, const float *delta, const float *q, const float *k,
                       float decay, size_t dk, size_t dv)
{
    size_t j = 0;

    for (; j + STATE_ROWS <= dv; j += STATE_ROWS)
        correct_rows(state + j * dk, out + j, delta + j, q, k, decay, dk, STATE_ROWS);
    for (; j < dv; j++)
        correct_rows(state + j * dk, out + j, delta + j, q, k, decay, dk, 1);
}

/* ---- choices ---- */

/* Each of 16 lanes keeps its first maximum; of the lanes with the largest, the one with the lowest
 * index is chosen. x * 0 is NaN if x is not finite. */
struct maxima {
    floats best[N_SUMS], check[N_SUMS];
    uints at[N_SUMS]; /* index / 16 */
};

/* Updates the maxima with n elements, at most 16, from element 16 * at on. */
INLINE void update_maxima(struct maxima *m, const float *x, uint32_t at, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        floats v = load(x + LANES * g, above(n, LANES * g));
        mask more = below(m->best[g], v);
        if (n < SUMS) more = (mask)(more & first_lanes(above(n, LANES * g)));
        m->check[g] = fmadd(v, splat(0), m->check[g]);
        m->best[g] = select(more, v, m->best[g]);
        m->at[g] = (uints)select(more, (floats)splat_int((int32_t)at), (floats)m->at[g]);
    }
}

static size_t argmax(const float *x, size_t n)
{
    struct maxima m;
    float values[SUMS], checks[SUMS];
    uint32_t where[SUMS];
    size_t i = 0, winner = 0;

    assert(n <= UINT32_MAX);
    for (size_t g = 0; g < N_SUMS; g++) {
        m.best[g] = splat(-INFINITY);
        m.check[g] = splat(0);
        m.at[g] = (uints){0};
    }
    for (; n - i >= SUMS; i += SUMS)
        update_maxima(&m, x + i, (uint32_t)(i / SUMS), SUMS);
    if (i < n) update_maxima(&m, x + i, (uint32_t)(i / SUMS), n - i);
    memcpy(values, m.best, sizeof values);
    memcpy(checks, m.check, sizeof checks);
    memcpy(where, m.at, sizeof where);
    for (size_t j = 0; j < SUMS; j++) {
        bool earlier = where[j] < where[winner];
        if (checks[j] != 0) return SIZE_MAX;
        if (values[j] > values[winner] || (values[j] == values[winner] && earlier)) winner = j;
    }
    return n ? (size_t)where[winner] * SUMS + winner : SIZE_MAX;
}

/* The maximum of s[first..last-1], without NaN; start: first, rounded down to a multiple of 16. */
INLINE float maximum(const float *s, size_t start, size_t first, size_t last)
{
    floats most[N_SUMS];

    for (size_t g = 0; g < N_SUMS; g++)
        most[g] = splat(-INFINITY);
    for (size_t i = start; i < last; i += SUMS) {
        UNROLL
        for (size_t g = 0; g < N_SUMS; g++) {
            floats v = load(s + i + LANES * g, LANES);
            mask inside = lanes_between(i + LANES * g, first, last);
            most[g] = select(inside, larger(v, most[g]), most[g]);
        }
    }
    for (size_t g = 1; g < N_SUMS; g++)
        most[0] = larger(most[g], most[0]);
    return largest_lane(most[0]);
}

static void softmax(float *s, size_t first, size_t last, float *max, float *sum)
{
    const size_t start = first - first % SUMS;
    const float m = maximum(s, start, first, last) + 0.0f;
    floats sums[N_SUMS] = {{0}};

    for (size_t i = start; i < last; i += SUMS) {
        UNROLL
        for (size_t g = 0; g < N_SUMS; g++) {
            float *at = s + i + LANES * g;
            mask inside = lanes_between(i + LANES * g, first, last);
            floats v = load(at, LANES), e = exp_of(v - m);
            sums[g] += select(inside, e, splat(0));
            store(at, LANES, select(inside, e, v));
        }
    }
    *max = m;
    *sum = tree_sum(sums);
}

#endif

#endif
