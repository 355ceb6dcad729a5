/* struct sp_vector with 8 lanes, one element each, bit-equal to vector_ref.c. The 16 running sums
 * of the contract are two vectors. Ends of rows go through load8 and store8, which touch no byte
 * outside the row. Attention is in vector_kv_avx2.c and vector_q8_avx2.c. */
#include "runtime/vector/vector_avx2.h"
#include "runtime/vector/vector_each.h"

#include <assert.h>

/* ---- fmath.h, lane by lane ---- */

static __m256 tanh8(__m256 x)
{
    __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1);
    __m256 a = _mm256_andnot_ps(sign, x), z = _mm256_mul_ps(x, x);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(SP_TANH_C11), z, _mm256_set1_ps(SP_TANH_C9));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(SP_TANH_C7));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(SP_TANH_C5));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(SP_TANH_C3));
    __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(p, z), a, a);
    __m256 e = _mm256_add_ps(exp8(_mm256_add_ps(a, a)), one);
    __m256 large = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2), e));
    __m256 is_small = _mm256_cmp_ps(a, _mm256_set1_ps(SP_TANH_LIMIT), _CMP_LT_OQ);
    return _mm256_or_ps(_mm256_blendv_ps(large, small, is_small), _mm256_and_ps(x, sign));
}

/* Returns 1 + e^-x. */
static __m256 one_plus_exp(__m256 x)
{
    __m256 negative = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));

    return _mm256_add_ps(_mm256_set1_ps(1), exp8(negative));
}

static __m256 silu8(__m256 x)
{
    return _mm256_div_ps(x, one_plus_exp(x));
}

static __m256 gelu_tanh8(__m256 x)
{
    __m256 t = _mm256_fmadd_ps(_mm256_set1_ps(SP_GELU_C3), _mm256_mul_ps(x, x),
                               _mm256_set1_ps(SP_GELU_C1));

    return _mm256_div_ps(x, one_plus_exp(_mm256_mul_ps(x, t)));
}

static __m256 gelu_erf8(__m256 x)
{
    __m256 one = _mm256_set1_ps(1), a = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(a, _mm256_set1_ps(SP_PHI_STEP), one));
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(SP_PHI_C9), t, _mm256_set1_ps(SP_PHI_C8));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C7));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C6));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C5));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C4));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C3));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C2));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C1));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(SP_PHI_C0));
    __m256 e = exp8(_mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(-0.5f)));
    __m256 tail = _mm256_mul_ps(_mm256_mul_ps(p, t), e);
    __m256 is_below = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_mul_ps(x, _mm256_blendv_ps(_mm256_sub_ps(one, tail), tail, is_below));
}

/* ---- rows ---- */

static float dot(const float *a, const float *b, size_t n)
{
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();

    for (size_t i = 0; i < n; i += 2 * LANES) {
        size_t left = n - i, right = above(left, LANES);
        low = _mm256_fmadd_ps(load8(a + i, left), load8(b + i, left), low);
        if (right == 0) break;
        high = _mm256_fmadd_ps(load8(a + i + LANES, right), load8(b + i + LANES, right), high);
    }
    return tree_sum(low, high);
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m256 r = _mm256_set1_ps(1.0f / sqrtf(dot(x, x, n) / (float)n + eps));

    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = _mm256_mul_ps(load8(x + i, n - i), r);
        if (w) v = _mm256_mul_ps(v, load8(w + i, n - i));
        store8(y + i, n - i, v);
    }
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store8(y + i, n - i, _mm256_add_ps(load8(y + i, n - i), load8(x + i, n - i)));
}

static void scale(float *y, float factor, size_t n)
{
    __m256 f = _mm256_set1_ps(factor);

    for (size_t i = 0; i < n; i += LANES)
        store8(y + i, n - i, _mm256_mul_ps(load8(y + i, n - i), f));
}

static void fma_row(float *y, const float *x, float f, size_t n)
{
    __m256 factor = _mm256_set1_ps(f);

    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = _mm256_fmadd_ps(load8(x + i, n - i), factor, load8(y + i, n - i));
        store8(y + i, n - i, v);
    }
}

static void mul(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store8(y + i, n - i, _mm256_mul_ps(load8(y + i, n - i), load8(x + i, n - i)));
}

static void silu_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = silu8(load8(y + i, n - i));
        store8(y + i, n - i, _mm256_mul_ps(v, load8(up + i, n - i)));
    }
}

static void gelu_tanh_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = gelu_tanh8(load8(y + i, n - i));
        store8(y + i, n - i, _mm256_mul_ps(v, load8(up + i, n - i)));
    }
}

static void gelu_erf_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = gelu_erf8(load8(y + i, n - i));
        store8(y + i, n - i, _mm256_mul_ps(v, load8(up + i, n - i)));
    }
}

static void relu2_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 r = _mm256_max_ps(_mm256_setzero_ps(), load8(y + i, n - i));
        store8(y + i, n - i, _mm256_mul_ps(_mm256_mul_ps(r, r), load8(up + i, n - i)));
    }
}

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store8(y + i, n - i, silu8(load8(y + i, n - i)));
}

static void mul_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = _mm256_fmadd_ps(load8(a + i, n - i), load8(b + i, n - i), load8(y + i, n - i));
        store8(y + i, n - i, v);
    }
}

static void softcap(float *y, float cap, size_t n)
{
    __m256 c = _mm256_set1_ps(cap);

    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = tanh8(_mm256_div_ps(load8(y + i, n - i), c));
        store8(y + i, n - i, _mm256_mul_ps(c, v));
    }
}

static void sigmoid_mul(float *y, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256 e = one_plus_exp(load8(gate + i, n - i));
        __m256 s = _mm256_div_ps(_mm256_set1_ps(1), e);
        store8(y + i, n - i, _mm256_mul_ps(load8(y + i, n - i), s));
    }
}

static void swiglu_clamped(float *y, const float *up, float limit, size_t n)
{
    __m256 top = _mm256_set1_ps(limit), bottom = _mm256_set1_ps(-limit);

    for (size_t i = 0; i < n; i += LANES) {
        __m256 g = _mm256_min_ps(top, load8(y + i, n - i));
        __m256 u = _mm256_min_ps(top, load8(up + i, n - i));
        u = _mm256_add_ps(_mm256_max_ps(bottom, u), _mm256_set1_ps(1));
        __m256 e = one_plus_exp(_mm256_mul_ps(g, _mm256_set1_ps(SP_SWIGLU_ALPHA)));
        store8(y + i, n - i, _mm256_mul_ps(_mm256_div_ps(g, e), u));
    }
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    __m256 r = _mm256_set1_ps(factor / sqrtf(dot(x, x, n) + eps));

    for (size_t i = 0; i < n; i += LANES)
        store8(y + i, n - i, _mm256_mul_ps(load8(x + i, n - i), r));
}

static void rope(float *head, const float *cos, const float *sin, size_t n_rot)
{
    size_t half = n_rot / 2;

    for (size_t i = 0; i < half; i += LANES) {
        size_t n = half - i;
        __m256 a = load8(head + i, n), b = load8(head + half + i, n);
        __m256 c = load8(cos + i, n), s = load8(sin + i, n);
        store8(head + i, n, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        store8(head + half + i, n, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
}

/* ---- states of heads --------------------------------------------------------------------------
 *
 * Rows of the state are stepped two at a time, so that their sums do not wait for each other. */

enum { PAIR = 2 };

/* Running sums of a pair of rows: lanes 0..7 and 8..15 of each. */
struct pair_sums {
    __m256 low[PAIR], high[PAIR];
};

/* The sums of both rows, added like tree_sum, in lanes 0 and 1. */
static __m128 tree_sums(const struct pair_sums *s)
{
    __m256 a = _mm256_add_ps(s->low[0], s->high[0]), b = _mm256_add_ps(s->low[1], s->high[1]);
    __m256 s4 =
        _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    __m256 s2 = _mm256_add_ps(s4, _mm256_permute_ps(s4, 0x4e));
    __m256 s1 = _mm256_add_ps(s2, _mm256_permute_ps(s2, 0xb1));

    return _mm_unpacklo_ps(_mm256_castps256_ps128(s1), _mm256_extractf128_ps(s1, 1));
}

/* sums += the decayed rows s_r times k, for n <= 8 lanes. */
INLINE void add_decayed(__m256 sums[PAIR], const float *s, const float *k, __m256 decay, size_t dk,
                        size_t n_rows, size_t n)
{
    __m256 k8 = load8(k, n);

    for (size_t r = 0; r < n_rows; r++) {
        __m256 x = _mm256_mul_ps(load8(s + r * dk, n), decay);
        sums[r] = _mm256_fmadd_ps(x, k8, sums[r]);
    }
}

/* s_r = d_r k + decayed s_r; sums += s_r q. */
INLINE void correct(__m256 sums[PAIR], float *s, const __m256 d[PAIR], const float *k,
                    const float *q, __m256 decay, size_t dk, size_t n_rows, size_t n)
{
    __m256 k8 = load8(k, n), q8 = load8(q, n);

    for (size_t r = 0; r < n_rows; r++) {
        __m256 x = _mm256_fmadd_ps(k8, d[r], _mm256_mul_ps(load8(s + r * dk, n), decay));
        sums[r] = _mm256_fmadd_ps(x, q8, sums[r]);
        store8(s + r * dk, n, x);
    }
}

/* state_step for one row or two. */
INLINE void correct_rows(float *s, float *out, const float *delta, const float *q, const float *k,
                         float decay, size_t dk, size_t n_rows)
{
    struct pair_sums ends = {0};
    __m256 g = _mm256_set1_ps(decay), d[PAIR];
    float of_rows[4];
    size_t i = 0;

    for (size_t r = 0; r < n_rows; r++)
        d[r] = _mm256_set1_ps(delta[r]);
    for (; i + 2 * LANES <= dk; i += 2 * LANES) {
        correct(ends.low, s + i, d, k + i, q + i, g, dk, n_rows, LANES);
        correct(ends.high, s + i + LANES, d, k + i + LANES, q + i + LANES, g, dk, n_rows, LANES);
    }
    if (i < dk) correct(ends.low, s + i, d, k + i, q + i, g, dk, n_rows, dk - i);
    if (i + LANES < dk) {
        i += LANES;
        correct(ends.high, s + i, d, k + i, q + i, g, dk, n_rows, dk - i);
    }
    _mm_storeu_ps(of_rows, tree_sums(&ends));
    for (size_t r = 0; r < n_rows; r++)
        out[r] = of_rows[r];
}

/* delta_step for one row or two. */
INLINE void step_rows(float *s, float *out, float *delta, const float *q, const float *k,
                      const float *v, float decay, float beta, size_t dk, size_t n_rows)
{
    struct pair_sums sums = {0};
    __m256 g = _mm256_set1_ps(decay);
    float of_rows[4];
    size_t i = 0;

    for (; i + 2 * LANES <= dk; i += 2 * LANES) {
        add_decayed(sums.low, s + i, k + i, g, dk, n_rows, LANES);
        add_decayed(sums.high, s + i + LANES, k + i + LANES, g, dk, n_rows, LANES);
    }
    if (i < dk) add_decayed(sums.low, s + i, k + i, g, dk, n_rows, dk - i);
    if (i + LANES < dk)
        add_decayed(sums.high, s + i + LANES, k + i + LANES, g, dk, n_rows, dk - i - LANES);
    _mm_storeu_ps(of_rows, tree_sums(&sums));
    for (size_t r = 0; r < n_rows; r++)
        delta[r] = (v[r] - of_rows[r]) * beta;
    correct_rows(s, out, delta, q, k, decay, dk, n_rows);
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    size_t j = 0;

    for (; j + PAIR <= dv; j += PAIR)
        step_rows(state + j * dk, out + j, delta + j, q, k, v + j, decay, beta, dk, PAIR);
    if (j < dv) step_rows(state + j * dk, out + j, delta + j, q, k, v + j, decay, beta, dk, 1);
}

static void state_step(float *state, float *out, const float *delta, const float *q, const float *k,
                       float decay, size_t dk, size_t dv)
{
    size_t j = 0;

    for (; j + PAIR <= dv; j += PAIR)
        correct_rows(state + j * dk, out + j, delta + j, q, k, decay, dk, PAIR);
    if (j < dv) correct_rows(state + j * dk, out + j, delta + j, q, k, decay, dk, 1);
}

static void state_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        __m256 d = _mm256_set1_ps(delta[j]);
        for (size_t i = 0; i < dk; i += LANES) {
            __m256 x = _mm256_mul_ps(load8(s + i, dk - i), _mm256_set1_ps(decay));
            store8(s + i, dk - i, _mm256_fmadd_ps(d, load8(k + i, dk - i), x));
        }
    }
}

/* Each lane keeps its first maximum; of the lanes with the largest, the one with the lowest index
 * is chosen. x * 0 is NaN if x is not finite. */
static size_t argmax(const float *x, size_t n)
{
    __m256 best = _mm256_set1_ps(-INFINITY), zero = _mm256_setzero_ps(), check = zero;
    __m256 at = zero;
    float values[LANES];
    uint32_t where[LANES];
    size_t winner = 0;

    assert(n <= UINT32_MAX);
    for (size_t i = 0; i < n; i += LANES) {
        __m256 v = load8(x + i, n - i);
        check = _mm256_fmadd_ps(v, zero, check);
        if (n - i < LANES)
            v = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, _mm256_castsi256_ps(lanes(n - i)));
        __m256 is_above = _mm256_cmp_ps(v, best, _CMP_GT_OQ);
        __m256i index = _mm256_set1_epi32((int)(uint32_t)(i / LANES));
        best = _mm256_blendv_ps(best, v, is_above);
        at = _mm256_blendv_ps(at, _mm256_castsi256_ps(index), is_above);
    }
    if (n == 0 || _mm256_movemask_ps(_mm256_cmp_ps(check, zero, _CMP_NEQ_UQ))) return SIZE_MAX;
    _mm256_storeu_ps(values, best);
    _mm256_storeu_si256((__m256i *)where, _mm256_castps_si256(at));
    for (size_t j = 1; j < LANES; j++) {
        bool earlier = where[j] < where[winner];
        if (values[j] > values[winner] || (values[j] == values[winner] && earlier)) winner = j;
    }
    return (size_t)where[winner] * LANES + winner;
}

static void softmax(float *s, size_t first, size_t last, float *max, float *sum)
{
    __m256 m8 = _mm256_set1_ps(-INFINITY), sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t start = first - first % LANES;
    float lanes_max[LANES], m = -INFINITY;

    for (size_t i = start; i < last; i += LANES) {
        __m256 v = _mm256_max_ps(_mm256_load_ps(s + i), m8);
        m8 = _mm256_blendv_ps(m8, v, lanes_between(i, first, last));
    }
    _mm256_storeu_ps(lanes_max, m8);
    for (size_t i = 0; i < LANES; i++)
        m = lanes_max[i] > m ? lanes_max[i] : m;
    *max = m + 0.0f;
    m8 = _mm256_set1_ps(*max);
    for (size_t i = start; i < last; i += LANES) {
        __m256 mask = lanes_between(i, first, last), v = _mm256_load_ps(s + i);
        __m256 e = exp8(_mm256_sub_ps(v, m8)), *sums8 = &sums[i / LANES % 2];
        *sums8 = _mm256_add_ps(*sums8, _mm256_and_ps(e, mask));
        _mm256_store_ps(s + i, _mm256_blendv_ps(v, e, mask));
    }
    *sum = tree_sum(sums[0], sums[1]);
}

const struct sp_vector sp_vector_avx2 = SP_VECTOR_TABLE("avx2", avx2);
