/* struct sp_vector with 16 lanes, one element each, bit-equal to vector_ref.c. Running sum i of the
 * contract is lane i. Ends of rows are masked. Attention is in vector_kv_avx512.c and
 * vector_q8_avx512.c. */
#include "runtime/vector/vector_avx512.h"
#include "runtime/vector/vector_each.h"

#include <assert.h>

/* ---- fmath.h, lane by lane ---- */

static __m512 tanh16(__m512 x)
{
    __m512 a = _mm512_abs_ps(x), z = _mm512_mul_ps(x, x), one = _mm512_set1_ps(1);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(SP_TANH_C11), z, _mm512_set1_ps(SP_TANH_C9));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(SP_TANH_C7));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(SP_TANH_C5));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(SP_TANH_C3));
    __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, z), a, a);
    __m512 e = _mm512_add_ps(exp16(_mm512_add_ps(a, a)), one);
    __m512 large = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2), e));
    __mmask16 is_small = _mm512_cmp_ps_mask(a, _mm512_set1_ps(SP_TANH_LIMIT), _CMP_LT_OQ);
    __m512 sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
    return _mm512_or_ps(_mm512_mask_blend_ps(is_small, large, small), sign);
}

/* Returns 1 + e^-x. */
static __m512 one_plus_exp(__m512 x)
{
    __m512 negative = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));

    return _mm512_add_ps(_mm512_set1_ps(1), exp16(negative));
}

static __m512 silu16(__m512 x)
{
    return _mm512_div_ps(x, one_plus_exp(x));
}

static __m512 gelu_tanh16(__m512 x)
{
    __m512 t = _mm512_fmadd_ps(_mm512_set1_ps(SP_GELU_C3), _mm512_mul_ps(x, x),
                               _mm512_set1_ps(SP_GELU_C1));

    return _mm512_div_ps(x, one_plus_exp(_mm512_mul_ps(x, t)));
}

static __m512 gelu_erf16(__m512 x)
{
    __m512 one = _mm512_set1_ps(1), a = _mm512_abs_ps(x);
    __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(a, _mm512_set1_ps(SP_PHI_STEP), one));
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(SP_PHI_C9), t, _mm512_set1_ps(SP_PHI_C8));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C7));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C6));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C5));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C4));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C3));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C2));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C1));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(SP_PHI_C0));
    __m512 e = exp16(_mm512_mul_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(-0.5f)));
    __m512 tail = _mm512_mul_ps(_mm512_mul_ps(p, t), e);
    __mmask16 is_below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mul_ps(x, _mm512_mask_blend_ps(is_below, _mm512_sub_ps(one, tail), tail));
}

/* ---- rows ---- */

static float dot(const float *a, const float *b, size_t n)
{
    __m512 s = _mm512_setzero_ps();

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        s = _mm512_mask3_fmadd_ps(_mm512_maskz_loadu_ps(m, a + i), _mm512_maskz_loadu_ps(m, b + i),
                                  s, m);
    }
    return tree_sum(s);
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    __m512 r = _mm512_set1_ps(1.0f / sqrtf(dot(x, x, n) / (float)n + eps));

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), r);
        if (w) v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, w + i));
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, y + i);
        _mm512_mask_storeu_ps(y + i, m, _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, x + i)));
    }
}

static void scale(float *y, float factor, size_t n)
{
    __m512 f = _mm512_set1_ps(factor);

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, y + i), f));
    }
}

static void fma_row(float *y, const float *x, float f, size_t n)
{
    __m512 factor = _mm512_set1_ps(f);

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, y + i);
        v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, x + i), factor, v);
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

static void mul(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, y + i);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, x + i)));
    }
}

static void silu_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = silu16(_mm512_maskz_loadu_ps(m, y + i));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, up + i)));
    }
}

static void gelu_tanh_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = gelu_tanh16(_mm512_maskz_loadu_ps(m, y + i));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, up + i)));
    }
}

static void gelu_erf_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = gelu_erf16(_mm512_maskz_loadu_ps(m, y + i));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, up + i)));
    }
}

static void relu2_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 r = _mm512_max_ps(_mm512_setzero_ps(), _mm512_maskz_loadu_ps(m, y + i));
        r = _mm512_mul_ps(r, r);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(r, _mm512_maskz_loadu_ps(m, up + i)));
    }
}

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        _mm512_mask_storeu_ps(y + i, m, silu16(_mm512_maskz_loadu_ps(m, y + i)));
    }
}

static void mul_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, a + i), _mm512_maskz_loadu_ps(m, b + i),
                                   _mm512_maskz_loadu_ps(m, y + i));
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

static void softcap(float *y, float cap, size_t n)
{
    __m512 c = _mm512_set1_ps(cap);

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = tanh16(_mm512_div_ps(_mm512_maskz_loadu_ps(m, y + i), c));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(c, v));
    }
}

static void sigmoid_mul(float *y, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 e = one_plus_exp(_mm512_maskz_loadu_ps(m, gate + i));
        __m512 s = _mm512_div_ps(_mm512_set1_ps(1), e);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, y + i), s));
    }
}

static void swiglu_clamped(float *y, const float *up, float limit, size_t n)
{
    __m512 top = _mm512_set1_ps(limit), bottom = _mm512_set1_ps(-limit);

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 g = _mm512_min_ps(top, _mm512_maskz_loadu_ps(m, y + i));
        __m512 u = _mm512_min_ps(top, _mm512_maskz_loadu_ps(m, up + i));
        u = _mm512_add_ps(_mm512_max_ps(bottom, u), _mm512_set1_ps(1));
        __m512 e = one_plus_exp(_mm512_mul_ps(g, _mm512_set1_ps(SP_SWIGLU_ALPHA)));
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(_mm512_div_ps(g, e), u));
    }
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    __m512 r = _mm512_set1_ps(factor / sqrtf(dot(x, x, n) + eps));

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), r));
    }
}

static void rope(float *head, const float *cos, const float *sin, size_t n_rot)
{
    size_t half = n_rot / 2;

    for (size_t i = 0; i < half; i += LANES) {
        __mmask16 m = lanes(half - i);
        __m512 a = _mm512_maskz_loadu_ps(m, head + i);
        __m512 b = _mm512_maskz_loadu_ps(m, head + half + i);
        __m512 c = _mm512_maskz_loadu_ps(m, cos + i), s = _mm512_maskz_loadu_ps(m, sin + i);
        _mm512_mask_storeu_ps(head + i, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
        _mm512_mask_storeu_ps(head + half + i, m, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
    }
}

/* ---- states of heads --------------------------------------------------------------------------
 *
 * Rows of the state are stepped four at a time, so that their sums do not wait for each other. */

enum { QUAD = 4 };

/* The sums of four rows' 16 lanes, added like tree_sum: that of row r in every lane of quarter
 * r. */
static __m512 tree_sums(const __m512 s[QUAD])
{
    __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(s[0], s[1], 0x44),
                               _mm512_shuffle_f32x4(s[0], s[1], 0xee));
    __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(s[2], s[3], 0x44),
                                _mm512_shuffle_f32x4(s[2], s[3], 0xee));
    __m512 s4 =
        _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
    __m512 s2 = _mm512_add_ps(s4, _mm512_permute_ps(s4, 0x4e));

    return _mm512_add_ps(s2, _mm512_permute_ps(s2, 0xb1));
}

/* One lane of each quarter. */
static __m128 quarters(__m512 x)
{
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, x));
}

/* sums += the decayed rows s_r times k, for the lanes in m. */
INLINE void add_decayed(__m512 sums[QUAD], const float *s, __m512 k, __m512 decay, size_t dk,
                        size_t n_rows, __mmask16 m)
{
    for (size_t r = 0; r < n_rows; r++) {
        __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, s + r * dk), decay);
        sums[r] = _mm512_mask3_fmadd_ps(x, k, sums[r], m);
    }
}

/* s_r = d_r k + decayed s_r; sums += s_r q. */
INLINE void correct(__m512 sums[QUAD], float *s, const __m512 d[QUAD], __m512 k, __m512 q,
                    __m512 decay, size_t dk, size_t n_rows, __mmask16 m)
{
    for (size_t r = 0; r < n_rows; r++) {
        __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, s + r * dk), decay);
        x = _mm512_fmadd_ps(k, d[r], x);
        sums[r] = _mm512_mask3_fmadd_ps(x, q, sums[r], m);
        _mm512_mask_storeu_ps(s + r * dk, m, x);
    }
}

/* state_step for at most four rows. */
INLINE void correct_rows(float *s, float *out, const float *delta, const float *q, const float *k,
                         float decay, size_t dk, size_t n_rows)
{
    const __mmask16 rest = lanes(dk % LANES);
    __m512 ends[QUAD] = {0}, d[QUAD], g = _mm512_set1_ps(decay);
    size_t i = 0;

    for (size_t r = 0; r < n_rows; r++)
        d[r] = _mm512_set1_ps(delta[r]);
    for (; i + LANES <= dk; i += LANES) {
        correct(ends, s + i, d, _mm512_loadu_ps(k + i), _mm512_loadu_ps(q + i), g, dk, n_rows,
                0xffff);
    }
    if (rest) {
        correct(ends, s + i, d, _mm512_maskz_loadu_ps(rest, k + i),
                _mm512_maskz_loadu_ps(rest, q + i), g, dk, n_rows, rest);
    }
    _mm_mask_storeu_ps(out, (__mmask8)lanes(n_rows), quarters(tree_sums(ends)));
}

/* delta_step for at most four rows. */
INLINE void step_rows(float *s, float *out, float *delta, const float *q, const float *k,
                      const float *v, float decay, float beta, size_t dk, size_t n_rows)
{
    const __mmask16 all = 0xffff, rest = lanes(dk % LANES), rows = lanes(n_rows);
    __m512 sums[QUAD] = {0}, g = _mm512_set1_ps(decay);
    __m128 d4;
    size_t i = 0;

    for (; i + LANES <= dk; i += LANES)
        add_decayed(sums, s + i, _mm512_loadu_ps(k + i), g, dk, n_rows, all);
    if (rest) add_decayed(sums, s + i, _mm512_maskz_loadu_ps(rest, k + i), g, dk, n_rows, rest);
    d4 = _mm_sub_ps(_mm_maskz_loadu_ps((__mmask8)rows, v), quarters(tree_sums(sums)));
    d4 = _mm_mul_ps(d4, _mm_set1_ps(beta));
    _mm_mask_storeu_ps(delta, (__mmask8)rows, d4);
    correct_rows(s, out, delta, q, k, decay, dk, n_rows);
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    size_t j = 0;

    for (; j + QUAD <= dv; j += QUAD)
        step_rows(state + j * dk, out + j, delta + j, q, k, v + j, decay, beta, dk, QUAD);
    if (j < dv) step_rows(state + j * dk, out + j, delta + j, q, k, v + j, decay, beta, dk, dv - j);
}

static void state_step(float *state, float *out, const float *delta, const float *q, const float *k,
                       float decay, size_t dk, size_t dv)
{
    size_t j = 0;

    for (; j + QUAD <= dv; j += QUAD)
        correct_rows(state + j * dk, out + j, delta + j, q, k, decay, dk, QUAD);
    if (j < dv) correct_rows(state + j * dk, out + j, delta + j, q, k, decay, dk, dv - j);
}

static void state_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    const __mmask16 rest = lanes(dk % LANES);
    __m512 g = _mm512_set1_ps(decay);

    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        __m512 d = _mm512_set1_ps(delta[j]);
        size_t i = 0;
        for (; i + LANES <= dk; i += LANES) {
            __m512 x = _mm512_mul_ps(_mm512_loadu_ps(s + i), g);
            _mm512_storeu_ps(s + i, _mm512_fmadd_ps(d, _mm512_loadu_ps(k + i), x));
        }
        if (rest == 0) continue;
        __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(rest, s + i), g);
        x = _mm512_fmadd_ps(d, _mm512_maskz_loadu_ps(rest, k + i), x);
        _mm512_mask_storeu_ps(s + i, rest, x);
    }
}

/* Each lane keeps its first maximum; of the lanes with the largest, the one with the lowest index
 * is chosen. x * 0 is NaN if x is not finite. */
static size_t argmax(const float *x, size_t n)
{
    __m512 best = _mm512_set1_ps(-INFINITY), zero = _mm512_setzero_ps(), check = zero;
    __m512i at = _mm512_setzero_si512();
    float values[LANES];
    uint32_t where[LANES];
    size_t winner = 0;

    assert(n <= UINT32_MAX);
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 m = lanes(n - i);
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        __mmask16 above = _mm512_mask_cmp_ps_mask(m, v, best, _CMP_GT_OQ);
        check = _mm512_fmadd_ps(v, zero, check);
        best = _mm512_mask_mov_ps(best, above, v);
        at = _mm512_mask_mov_epi32(at, above, _mm512_set1_epi32((int)(uint32_t)(i / LANES)));
    }
    if (n == 0 || _mm512_cmp_ps_mask(check, zero, _CMP_NEQ_UQ)) return SIZE_MAX;
    _mm512_storeu_ps(values, best);
    _mm512_storeu_si512(where, at);
    for (size_t j = 1; j < LANES; j++) {
        bool earlier = where[j] < where[winner];
        if (values[j] > values[winner] || (values[j] == values[winner] && earlier)) winner = j;
    }
    return (size_t)where[winner] * LANES + winner;
}

static void softmax(float *s, size_t first, size_t last, float *max, float *sum)
{
    __m512 m16 = _mm512_set1_ps(-INFINITY), sums = _mm512_setzero_ps();
    size_t start = first - first % LANES;

    for (size_t i = start; i < last; i += LANES) {
        __mmask16 m = lanes_between(i, first, last);
        m16 = _mm512_mask_max_ps(m16, m, _mm512_load_ps(s + i), m16);
    }
    *max = _mm512_reduce_max_ps(m16) + 0.0f;
    m16 = _mm512_set1_ps(*max);
    for (size_t i = start; i < last; i += LANES) {
        __mmask16 m = lanes_between(i, first, last);
        __m512 e = exp16(_mm512_sub_ps(_mm512_load_ps(s + i), m16));
        sums = _mm512_mask_add_ps(sums, m, sums, e);
        _mm512_mask_store_ps(s + i, m, e);
    }
    *sum = tree_sum(sums);
}

const struct sp_vector sp_vector_avx512 = SP_VECTOR_TABLE("avx512", avx512);
