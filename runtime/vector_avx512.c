/* struct sp_vector with 16 lanes, bit-equal to vector_ref.c. Lanes: elements in row functions, keys
 * in scores, dims in weigh. Running sum i of the contract is lane i. Ends of rows are masked.
 *
 * scores and weigh hold a tile of several queries in registers, so that a key or value is loaded
 * and widened once for all of them. The tile functions are inlined with constant sizes: their loops
 * unroll and the accumulators stay in registers. */
#include "runtime/fmath.h"
#include "runtime/vector_tables.h"

#include <assert.h>
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

/* The first n lanes (n may be above 16). */
static __mmask16 lanes(size_t n)
{
    return (__mmask16)(n < LANES ? (1u << n) - 1 : 0xffff);
}

/* 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
static float tree_sum(__m512 s)
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* ---- fmath.h, lane by lane --------------------------------------------------------------------
 */

static __m512 exp16(__m512 x)
{
    __m512 c = _mm512_min_ps(_mm512_set1_ps(SP_EXP_HIGH), x);
    c = _mm512_max_ps(_mm512_set1_ps(SP_EXP_LOW), c);
    __m512 round = _mm512_set1_ps(SP_EXP_ROUND), one = _mm512_set1_ps(1);
    __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(SP_EXP_LOG2E), round);
    __m512 n = _mm512_sub_ps(t, round);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-SP_EXP_LN2_HIGH), c);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-SP_EXP_LN2_LOW), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(SP_EXP_C6), r, _mm512_set1_ps(SP_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SP_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SP_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SP_EXP_C2));
    p = _mm512_fmadd_ps(p, r, one);
    p = _mm512_fmadd_ps(p, r, one);
    __m512i u =
        _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32((int)(SP_EXP_ROUND_BITS - 254)));
    __m512i half = _mm512_srli_epi32(u, 1), rest = _mm512_sub_epi32(u, half);
    p = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(half, 23)));
    return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(rest, 23)));
}

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

/* 1 + e^-x */
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

/* ---- rows -------------------------------------------------------------------------------------
 */

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

/* s *= decay; the product s.k */
static float decay_row(float *s, const float *k, __m512 decay, size_t dk)
{
    __m512 sum = _mm512_setzero_ps();

    for (size_t i = 0; i < dk; i += LANES) {
        __mmask16 m = lanes(dk - i);
        __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, s + i), decay);
        sum = _mm512_mask3_fmadd_ps(x, _mm512_maskz_loadu_ps(m, k + i), sum, m);
        _mm512_mask_storeu_ps(s + i, m, x);
    }
    return tree_sum(sum);
}

/* s += k d; the product s.q */
static float correct_row(float *s, const float *k, float d, const float *q, size_t dk)
{
    __m512 sum = _mm512_setzero_ps(), d16 = _mm512_set1_ps(d);

    for (size_t i = 0; i < dk; i += LANES) {
        __mmask16 m = lanes(dk - i);
        __m512 x = _mm512_maskz_loadu_ps(m, s + i);
        x = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, k + i), d16, x);
        sum = _mm512_mask3_fmadd_ps(x, _mm512_maskz_loadu_ps(m, q + i), sum, m);
        _mm512_mask_storeu_ps(s + i, m, x);
    }
    return tree_sum(sum);
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        delta[j] = (v[j] - decay_row(s, k, _mm512_set1_ps(decay), dk)) * beta;
        out[j] = correct_row(s, k, delta[j], q, dk);
    }
}

static void delta_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        __m512 d = _mm512_set1_ps(delta[j]);
        for (size_t i = 0; i < dk; i += LANES) {
            __mmask16 m = lanes(dk - i);
            __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, s + i), _mm512_set1_ps(decay));
            _mm512_mask_storeu_ps(s + i, m, _mm512_fmadd_ps(d, _mm512_maskz_loadu_ps(m, k + i), x));
        }
    }
}

/* Each lane keeps its first maximum; the largest of those with the lowest index wins. x * 0 is NaN
 * where x is not finite. */
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

/* ---- stored numbers ---------------------------------------------------------------------------
 */

static void store_key_f32(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++) {
        memcpy(block + 4 * (d * SP_KEY_BLOCK + lane), k + d, sizeof *k);
    }
}

static void store_value_f32(uint8_t *row, const float *v, size_t head_dim)
{
    memcpy(row, v, head_dim * sizeof *v);
}

static void store_value_f16(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d += LANES) {
        __mmask16 m = lanes(head_dim - d);
        __m512 x = _mm512_maskz_loadu_ps(m, v + d);
        _mm256_mask_storeu_epi16(row + 2 * d, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
}

static void store_key_f16(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d += LANES) {
        uint16_t halves[LANES];
        size_t n = head_dim - d < LANES ? head_dim - d : LANES;
        store_value_f16((uint8_t *)halves, k + d, n);
        for (size_t i = 0; i < n; i++) {
            memcpy(block + 2 * ((d + i) * SP_KEY_BLOCK + lane), halves + i, sizeof *halves);
        }
    }
}

/* Codes of 32 values in two vectors of int32; returns the scale. Operand order decides what a NaN
 * gives, as in vector_ref.c. */
INLINE float quantize_group(__m512i *low, __m512i *high, const float *x)
{
    __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + LANES);
    __m512i m = _mm512_max_epu32(_mm512_castps_si512(_mm512_abs_ps(a)),
                                 _mm512_castps_si512(_mm512_abs_ps(b)));
    float max = sp_float_of_bits(_mm512_reduce_max_epu32(m));
    __m512 inverse = _mm512_set1_ps(max == 0.0f ? 0.0f : 127.0f / max);
    __m512 top = _mm512_set1_ps(127), bottom = _mm512_set1_ps(-127);

    a = _mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(a, inverse), top), bottom);
    b = _mm512_max_ps(_mm512_min_ps(_mm512_mul_ps(b, inverse), top), bottom);
    *low = _mm512_cvtps_epi32(a);
    *high = _mm512_cvtps_epi32(b);
    return max / 127.0f;
}

static void store_key_q8(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    uint8_t *scales = block + head_dim * SP_KEY_BLOCK;
    __m512i offset = _mm512_set1_epi32(128);

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        __m512i low, high;
        uint8_t codes[SP_KV_GROUP];
        float s = quantize_group(&low, &high, k + g * SP_KV_GROUP);
        _mm_storeu_si128((__m128i *)codes, _mm512_cvtepi32_epi8(_mm512_add_epi32(low, offset)));
        _mm_storeu_si128((__m128i *)codes + 1,
                         _mm512_cvtepi32_epi8(_mm512_add_epi32(high, offset)));
        memcpy(scales + 4 * (g * SP_KEY_BLOCK + lane), &s, sizeof s);
        for (size_t i = 0; i < SP_KV_GROUP / 4; i++) {
            size_t row = g * SP_KV_GROUP / 4 + i;
            memcpy(block + (row * SP_KEY_BLOCK + lane) * 4, codes + 4 * i, 4);
        }
    }
}

static void store_value_q8(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        __m512i low, high;
        float s = quantize_group(&low, &high, v + g * SP_KV_GROUP);
        __m128i *codes = (__m128i *)(row + g * SP_KV_GROUP);
        _mm_storeu_si128(codes, _mm512_cvtepi32_epi8(low));
        _mm_storeu_si128(codes + 1, _mm512_cvtepi32_epi8(high));
        memcpy(row + head_dim + 4 * g, &s, sizeof s);
    }
}

/* ---- scores -----------------------------------------------------------------------------------
 */

enum { SCORE_QUERIES = 8 };

/* Asks for n bytes, `ahead` bytes past p, which may lie beyond the store: a tile's computing would
 * otherwise wait for memory, since the processor's own prefetch stops at the end of every page. */
INLINE void prefetch(const uint8_t *p, size_t ahead, size_t n)
{
    for (size_t i = 0; i < n; i += 64) {
        _mm_prefetch((const char *)((uintptr_t)p + ahead + i), _MM_HINT_T0);
    }
}

/* 16 keys (or dims of a value) as floats. */
INLINE __m512 load16(const uint8_t *p, enum sp_kv_type type)
{
    if (type == SP_KV_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_loadu_ps(p);
}

INLINE void scores_tile(float *scores, size_t ld, const float *q, size_t ldq, const uint8_t *blocks,
                        size_t block_size, size_t head_dim, float factor, enum sp_kv_type type,
                        const int nq, const int nb)
{
    size_t width = type == SP_KV_F16 ? 32 : 64;
    __m512 acc[SCORE_QUERIES][2];

    for (int i = 0; i < nq; i++) {
        for (int b = 0; b < nb; b++)
            acc[i][b] = _mm512_setzero_ps();
    }
    for (size_t d = 0; d < head_dim; d++) {
        __m512 k[2];
        prefetch(blocks, (size_t)nb * (block_size + d * width), (size_t)nb * width);
        for (int b = 0; b < nb; b++) {
            k[b] = load16(blocks + (size_t)b * block_size + d * width, type);
        }
        for (int i = 0; i < nq; i++) {
            __m512 x = _mm512_set1_ps(q[(size_t)i * ldq + d]);
            for (int b = 0; b < nb; b++)
                acc[i][b] = _mm512_fmadd_ps(x, k[b], acc[i][b]);
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int b = 0; b < nb; b++) {
            _mm512_storeu_ps(scores + (size_t)i * ld + b * LANES,
                             _mm512_mul_ps(acc[i][b], _mm512_set1_ps(factor)));
        }
    }
}

/* All key blocks for nq queries, two blocks at a time. */
INLINE void scores_queries(float *scores, size_t ld, const float *q, size_t ldq,
                           const uint8_t *blocks, size_t n_blocks, size_t head_dim, float factor,
                           enum sp_kv_type type, const int nq)
{
    size_t size = sp_key_block_size(type, head_dim), b = 0;

    for (; b + 2 <= n_blocks; b += 2) {
        scores_tile(scores + b * LANES, ld, q, ldq, blocks + b * size, size, head_dim, factor, type,
                    nq, 2);
    }
    if (b < n_blocks) {
        scores_tile(scores + b * LANES, ld, q, ldq, blocks + b * size, size, head_dim, factor, type,
                    nq, 1);
    }
}

INLINE void scores_float(float *s, size_t ld, const float *q, size_t ldq, size_t n_queries,
                         const uint8_t *keys, size_t n_blocks, size_t dim, float factor,
                         enum sp_kv_type type)
{
    for (size_t n; n_queries > 0; n_queries -= n, s += n * ld, q += n * ldq) {
        n = n_queries < SCORE_QUERIES ? n_queries : SCORE_QUERIES;
        switch (n) {
        case 1:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 1);
            break;
        case 2:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 2);
            break;
        case 3:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 3);
            break;
        case 4:
        case 5:
            n = 4;
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 4);
            break;
        case 6:
        case 7:
            n = 6;
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 6);
            break;
        default:
            scores_queries(s, ld, q, ldq, keys, n_blocks, dim, factor, type, 8);
        }
    }
}

static void scores_f32(float *scores, size_t ld_scores, const float *q, size_t ldq,
                       size_t n_queries, const uint8_t *key_blocks, size_t n_blocks,
                       size_t head_dim, float factor)
{
    scores_float(scores, ld_scores, q, ldq, n_queries, key_blocks, n_blocks, head_dim, factor,
                 SP_KV_F32);
}

static void scores_f16(float *scores, size_t ld_scores, const float *q, size_t ldq,
                       size_t n_queries, const uint8_t *key_blocks, size_t n_blocks,
                       size_t head_dim, float factor)
{
    scores_float(scores, ld_scores, q, ldq, n_queries, key_blocks, n_blocks, head_dim, factor,
                 SP_KV_F16);
}

/* Queries as codes. Key codes carry an offset of 128; sums start at what that adds, negated. */
struct codes {
    int8_t q[SCORE_QUERIES][SP_MAX_HEAD_DIM];
    float scale[SCORE_QUERIES][SP_MAX_HEAD_DIM / SP_KV_GROUP];
    int32_t start[SCORE_QUERIES][SP_MAX_HEAD_DIM / SP_KV_GROUP];
};

static void quantize_query(struct codes *codes, size_t i, const float *q, size_t head_dim)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        __m512i low, high;
        __m128i *to = (__m128i *)(codes->q[i] + g * SP_KV_GROUP);
        codes->scale[i][g] = quantize_group(&low, &high, q + g * SP_KV_GROUP);
        codes->start[i][g] = -128 * _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
        _mm_storeu_si128(to, _mm512_cvtepi32_epi8(low));
        _mm_storeu_si128(to + 1, _mm512_cvtepi32_epi8(high));
    }
}

INLINE void scores_q8_tile(float *scores, size_t ld, const struct codes *codes,
                           const uint8_t *block, size_t head_dim, float factor, const int nq)
{
    const uint8_t *scales = block + head_dim * SP_KEY_BLOCK;
    __m512 acc[SCORE_QUERIES];

    for (int i = 0; i < nq; i++)
        acc[i] = _mm512_setzero_ps();
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        __m512i sum[SCORE_QUERIES];
        for (int i = 0; i < nq; i++)
            sum[i] = _mm512_set1_epi32(codes->start[i][g]);
        for (int v = 0; v < SP_KV_GROUP / 4; v++) {
            __m512i k = _mm512_loadu_si512(block + g * SP_KV_GROUP * SP_KEY_BLOCK + 64 * v);
            for (int i = 0; i < nq; i++) {
                int32_t four;
                memcpy(&four, codes->q[i] + g * SP_KV_GROUP + 4 * v, sizeof four);
                sum[i] = _mm512_dpbusd_epi32(sum[i], k, _mm512_set1_epi32(four));
            }
        }
        __m512 k_scale = _mm512_loadu_ps(scales + 64 * g);
        for (int i = 0; i < nq; i++) {
            __m512 s = _mm512_mul_ps(k_scale, _mm512_set1_ps(codes->scale[i][g]));
            acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i]), s, acc[i]);
        }
    }
    for (int i = 0; i < nq; i++) {
        _mm512_storeu_ps(scores + (size_t)i * ld, _mm512_mul_ps(acc[i], _mm512_set1_ps(factor)));
    }
}

INLINE void scores_q8_queries(float *scores, size_t ld, const struct codes *codes,
                              const uint8_t *blocks, size_t n_blocks, size_t head_dim, float factor,
                              const int nq)
{
    size_t size = sp_key_block_size(SP_KV_Q8, head_dim);

    for (size_t b = 0; b < n_blocks; b++) {
        scores_q8_tile(scores + b * LANES, ld, codes, blocks + b * size, head_dim, factor, nq);
    }
}

static void scores_q8(float *scores, size_t ld_scores, const float *q, size_t ldq, size_t n_queries,
                      const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    struct codes codes;

    assert(head_dim <= SP_MAX_HEAD_DIM);
    for (size_t n; n_queries > 0; n_queries -= n, scores += n * ld_scores, q += n * ldq) {
        n = n_queries >= 8 ? 8 : n_queries >= 4 ? 4 : n_queries >= 2 ? 2 : 1;
        for (size_t i = 0; i < n; i++)
            quantize_query(&codes, i, q + i * ldq, head_dim);
        switch (n) {
        case 1:
            scores_q8_queries(scores, ld_scores, &codes, key_blocks, n_blocks, head_dim, factor, 1);
            break;
        case 2:
            scores_q8_queries(scores, ld_scores, &codes, key_blocks, n_blocks, head_dim, factor, 2);
            break;
        case 4:
            scores_q8_queries(scores, ld_scores, &codes, key_blocks, n_blocks, head_dim, factor, 4);
            break;
        default:
            scores_q8_queries(scores, ld_scores, &codes, key_blocks, n_blocks, head_dim, factor, 8);
        }
    }
}

/* ---- softmax and weighted sums ----------------------------------------------------------------
 */

/* Lanes of the vector at i that lie in first..last-1. */
static __mmask16 lanes_between(size_t i, size_t first, size_t last)
{
    __mmask16 below = first > i ? lanes(first - i) : 0;

    return (__mmask16)(lanes(last - i) & ~below);
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

/* Rows of values of consecutive positions. */
struct values {
    const uint8_t *rows;
    size_t row_size, head_dim;
};

INLINE __m512 load_value(const uint8_t *row, size_t d, __mmask16 m, enum sp_kv_type type)
{
    switch (type) {
    case SP_KV_F16:
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, row + 2 * d));
    case SP_KV_Q8:
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m, row + d)));
    default:
        return _mm512_maskz_loadu_ps(m, row + 4 * d);
    }
}

/* The scale of the group of dim d; only q8 has any. */
INLINE __m512 load_scale(const uint8_t *scales, size_t d, enum sp_kv_type type)
{
    float s = 1;

    if (type == SP_KV_Q8) memcpy(&s, scales + d / SP_KV_GROUP * sizeof s, sizeof s);
    return _mm512_set1_ps(s);
}

enum { WEIGH_QUERIES = 4, GROUP_VECTORS = SP_KV_GROUP / LANES, VALUES_AHEAD = 4096 };

/* out_i[d..] += sum of p_i[j] v_j[d..] over j = from..to-1, for nq queries and nv vectors of dims,
 * the lanes of m of the last one. */
INLINE void weigh_tile(float *out, size_t ld_out, const float *p, size_t ldp, size_t from,
                       size_t to, struct values values, size_t d, __mmask16 m, enum sp_kv_type type,
                       const int nq, const int nv)
{
    __m512 acc[WEIGH_QUERIES][8];

    for (int i = 0; i < nq; i++) {
        for (int v = 0; v < nv; v++) {
            acc[i][v] = _mm512_maskz_loadu_ps(m, out + (size_t)i * ld_out + d + v * LANES);
        }
    }
    for (size_t j = from; j < to; j++) {
        const uint8_t *row = values.rows + j * values.row_size;
        __m512 x[8], scale[8];
        if (d == 0) prefetch(row, VALUES_AHEAD, values.row_size);
        for (int v = 0; v < nv; v++)
            x[v] = load_value(row, d + (size_t)v * LANES, m, type);
        for (int v = 0; v < nv; v += GROUP_VECTORS) {
            scale[v] = load_scale(row + values.head_dim, d + (size_t)v * LANES, type);
        }
        for (int i = 0; i < nq; i++) {
            __m512 w = _mm512_set1_ps(p[(size_t)i * ldp + j]), scaled = w;
            for (int v = 0; v < nv; v++) {
                if (type == SP_KV_Q8 && v % GROUP_VECTORS == 0) scaled = _mm512_mul_ps(w, scale[v]);
                acc[i][v] = _mm512_fmadd_ps(scaled, x[v], acc[i][v]);
            }
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int v = 0; v < nv; v++) {
            _mm512_mask_storeu_ps(out + (size_t)i * ld_out + d + v * LANES, m, acc[i][v]);
        }
    }
}

/* The same for all dims: as many vectors at a time as leave room for the accumulators. */
INLINE void weigh_rows(float *out, size_t ld_out, const float *p, size_t ldp, size_t from,
                       size_t to, struct values values, enum sp_kv_type type, const int nq)
{
    size_t d = 0, dim = values.head_dim;

    if (from >= to) return;
    for (; nq <= 3 && d + 8 * LANES <= dim; d += 8 * LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, 0xffff, type, nq, 8);
    }
    for (; d + 4 * LANES <= dim; d += 4 * LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, 0xffff, type, nq, 4);
    }
    for (; d < dim; d += LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, lanes(dim - d), type, nq, 1);
    }
}

/* nq queries together where all of them see the keys, one by one before and after that. */
INLINE void weigh_queries(float *out, size_t ld_out, const float *p, size_t ldp,
                          const size_t *first, const size_t *last, struct values values,
                          enum sp_kv_type type, const int nq)
{
    size_t from = first[0], to = last[0];

    for (int i = 1; i < nq; i++) {
        if (first[i] > from) from = first[i];
        if (last[i] < to) to = last[i];
    }
    if (to < from) to = from;
    for (size_t i = 0; i < (size_t)nq; i++) {
        size_t end = last[i] < from ? last[i] : from;
        memset(out + i * ld_out, 0, values.head_dim * sizeof *out);
        weigh_rows(out + i * ld_out, ld_out, p + i * ldp, ldp, first[i], end, values, type, 1);
    }
    weigh_rows(out, ld_out, p, ldp, from, to, values, type, nq);
    for (size_t i = 0; i < (size_t)nq; i++) {
        size_t start = first[i] > to ? first[i] : to;
        weigh_rows(out + i * ld_out, ld_out, p + i * ldp, ldp, start, last[i], values, type, 1);
    }
}

INLINE void weigh(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                  const size_t *last, size_t n_queries, const uint8_t *rows, size_t dim,
                  enum sp_kv_type type)
{
    const struct values values = {rows, sp_value_row_size(type, dim), dim};

    for (size_t i = 0, n; i < n_queries; i += n) {
        float *o = out + i * ld_out;
        const float *w = p + i * ldp;
        n = n_queries - i >= 4 ? 4 : n_queries - i;
        switch (n) {
        case 1:
            weigh_queries(o, ld_out, w, ldp, first + i, last + i, values, type, 1);
            break;
        case 2:
            weigh_queries(o, ld_out, w, ldp, first + i, last + i, values, type, 2);
            break;
        case 3:
            weigh_queries(o, ld_out, w, ldp, first + i, last + i, values, type, 3);
            break;
        default:
            weigh_queries(o, ld_out, w, ldp, first + i, last + i, values, type, 4);
        }
    }
}

static void weigh_f32(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                      const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, SP_KV_F32);
}

static void weigh_f16(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                      const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, SP_KV_F16);
}

static void weigh_q8(float *out, size_t ld_out, const float *p, size_t ldp, const size_t *first,
                     const size_t *last, size_t n_queries, const uint8_t *values, size_t head_dim)
{
    weigh(out, ld_out, p, ldp, first, last, n_queries, values, head_dim, SP_KV_Q8);
}

const struct sp_vector sp_vector_avx512 = {
    .name = "avx512",
    .rms_norm = rms_norm,
    .add = add,
    .scale = scale,
    .fma = fma_row,
    .mul = mul,
    .silu_mul = silu_mul,
    .gelu_tanh_mul = gelu_tanh_mul,
    .gelu_erf_mul = gelu_erf_mul,
    .silu = silu,
    .mul_add = mul_add,
    .softcap = softcap,
    .sigmoid_mul = sigmoid_mul,
    .swiglu_clamped = swiglu_clamped,
    .l2_norm = l2_norm,
    .rope = rope,
    .store_key = {store_key_f32, store_key_f16, store_key_q8},
    .store_value = {store_value_f32, store_value_f16, store_value_q8},
    .scores = {scores_f32, scores_f16, scores_q8},
    .softmax = softmax,
    .weigh = {weigh_f32, weigh_f16, weigh_q8},
    .delta_step = delta_step,
    .delta_replay = delta_replay,
    .argmax = argmax,
};
