/* struct sp_vector with 8 lanes, bit-equal to vector_ref.c. The 16 running sums of the contract are
 * two vectors. Lanes: elements in row functions, keys in scores, dims in weigh. Ends of rows go
 * through load8 and store8, which touch no byte outside the row.
 *
 * scores and weigh hold a tile of several queries in registers, so that a key or value is loaded
 * and widened once for all of them. The tile functions are inlined with constant sizes: their loops
 * unroll and the accumulators stay in registers. */
#include "runtime/fmath.h"
#include "runtime/vector_tables.h"

#include <assert.h>
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

/* The first n lanes, n < 8. */
INLINE __m256i lanes(size_t n)
{
    static const int32_t ones_zeros[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};

    return _mm256_loadu_si256((const __m256i *)(ones_zeros + LANES - n));
}

/* p[0..n-1] and zeros; all of p[0..7] when n >= 8. */
INLINE __m256 load8(const float *p, size_t n)
{
    return n >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes(n));
}

INLINE void store8(float *p, size_t n, __m256 v)
{
    if (n >= LANES) {
        _mm256_storeu_ps(p, v);
    } else {
        _mm256_maskstore_ps(p, lanes(n), v);
    }
}

INLINE size_t above(size_t n, size_t subtracted)
{
    return n > subtracted ? n - subtracted : 0;
}

/* 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
static float tree_sum(__m256 low, __m256 high)
{
    __m256 s8 = _mm256_add_ps(low, high);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* ---- fmath.h, lane by lane --------------------------------------------------------------------
 */

static __m256 exp8(__m256 x)
{
    __m256 c = _mm256_min_ps(_mm256_set1_ps(SP_EXP_HIGH), x);
    c = _mm256_max_ps(_mm256_set1_ps(SP_EXP_LOW), c);
    __m256 round = _mm256_set1_ps(SP_EXP_ROUND), one = _mm256_set1_ps(1);
    __m256 t = _mm256_fmadd_ps(c, _mm256_set1_ps(SP_EXP_LOG2E), round);
    __m256 n = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-SP_EXP_LN2_HIGH), c);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-SP_EXP_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(SP_EXP_C6), r, _mm256_set1_ps(SP_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SP_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SP_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SP_EXP_C2));
    p = _mm256_fmadd_ps(p, r, one);
    p = _mm256_fmadd_ps(p, r, one);
    __m256i u =
        _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)(SP_EXP_ROUND_BITS - 254)));
    __m256i half = _mm256_srli_epi32(u, 1), rest = _mm256_sub_epi32(u, half);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(half, 23)));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(rest, 23)));
}

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

/* 1 + e^-x */
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

/* ---- rows -------------------------------------------------------------------------------------
 */

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
    for (size_t i = 0; i < n; i += LANES) {
        store8(y + i, n - i, _mm256_add_ps(load8(y + i, n - i), load8(x + i, n - i)));
    }
}

static void scale(float *y, float factor, size_t n)
{
    __m256 f = _mm256_set1_ps(factor);

    for (size_t i = 0; i < n; i += LANES) {
        store8(y + i, n - i, _mm256_mul_ps(load8(y + i, n - i), f));
    }
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
    for (size_t i = 0; i < n; i += LANES) {
        store8(y + i, n - i, _mm256_mul_ps(load8(y + i, n - i), load8(x + i, n - i)));
    }
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

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        store8(y + i, n - i, silu8(load8(y + i, n - i)));
    }
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

    for (size_t i = 0; i < n; i += LANES) {
        store8(y + i, n - i, _mm256_mul_ps(load8(x + i, n - i), r));
    }
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

/* s *= decay; the product s.k */
static float decay_row(float *s, const float *k, __m256 decay, size_t dk)
{
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

    for (size_t i = 0; i < dk; i += LANES) {
        __m256 x = _mm256_mul_ps(load8(s + i, dk - i), decay), *sum = &sums[i / LANES % 2];
        *sum = _mm256_fmadd_ps(x, load8(k + i, dk - i), *sum);
        store8(s + i, dk - i, x);
    }
    return tree_sum(sums[0], sums[1]);
}

/* s += k d; the product s.q */
static float correct_row(float *s, const float *k, float d, const float *q, size_t dk)
{
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, d8 = _mm256_set1_ps(d);

    for (size_t i = 0; i < dk; i += LANES) {
        __m256 x = _mm256_fmadd_ps(load8(k + i, dk - i), d8, load8(s + i, dk - i));
        __m256 *sum = &sums[i / LANES % 2];
        *sum = _mm256_fmadd_ps(x, load8(q + i, dk - i), *sum);
        store8(s + i, dk - i, x);
    }
    return tree_sum(sums[0], sums[1]);
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        delta[j] = (v[j] - decay_row(s, k, _mm256_set1_ps(decay), dk)) * beta;
        out[j] = correct_row(s, k, delta[j], q, dk);
    }
}

static void delta_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
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

/* Each lane keeps its first maximum; the largest of those with the lowest index wins. x * 0 is NaN
 * where x is not finite. */
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
        if (n - i < LANES) {
            v = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, _mm256_castsi256_ps(lanes(n - i)));
        }
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
        size_t n = head_dim - d < LANES ? head_dim - d : LANES;
        __m128i halves = _mm256_cvtps_ph(load8(v + d, n), _MM_FROUND_TO_NEAREST_INT);
        memcpy(row + 2 * d, &halves, 2 * n);
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

static uint32_t max_of_lanes(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));

    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* Codes of 32 values; returns the scale. Operand order decides what a NaN gives, as in
 * vector_ref.c. */
static float quantize_group(int8_t *codes, const float *x)
{
    __m256i absolute = _mm256_set1_epi32(0x7fffffff), m = _mm256_setzero_si256(), q[4];

    for (int i = 0; i < 4; i++) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i * LANES));
        m = _mm256_max_epu32(m, _mm256_and_si256(bits, absolute));
    }
    float max = sp_float_of_bits(max_of_lanes(m));
    __m256 inverse = _mm256_set1_ps(max == 0.0f ? 0.0f : 127.0f / max);
    for (int i = 0; i < 4; i++) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i * LANES), inverse);
        v = _mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(127)), _mm256_set1_ps(-127));
        q[i] = _mm256_cvtps_epi32(v);
    }
    /* Packing works within 128-bit halves: dwords come out as 0 2 4 6 | 1 3 5 7. */
    __m256i words =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    words = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)codes, words);
    return max / 127.0f;
}

static void store_key_q8(uint8_t *block, size_t lane, const float *k, size_t head_dim)
{
    uint8_t *scales = block + head_dim * SP_KEY_BLOCK;

    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        int8_t codes[SP_KV_GROUP];
        float s = quantize_group(codes, k + g * SP_KV_GROUP);
        memcpy(scales + 4 * (g * SP_KEY_BLOCK + lane), &s, sizeof s);
        for (size_t i = 0; i < SP_KV_GROUP / 4; i++) {
            size_t row = g * SP_KV_GROUP / 4 + i;
            uint32_t four;
            memcpy(&four, codes + 4 * i, sizeof four);
            four ^= 0x80808080; /* + 128 in each byte */
            memcpy(block + (row * SP_KEY_BLOCK + lane) * 4, &four, sizeof four);
        }
    }
}

static void store_value_q8(uint8_t *row, const float *v, size_t head_dim)
{
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        int8_t codes[SP_KV_GROUP];
        float s = quantize_group(codes, v + g * SP_KV_GROUP);
        memcpy(row + g * SP_KV_GROUP, codes, sizeof codes);
        memcpy(row + head_dim + 4 * g, &s, sizeof s);
    }
}

/* ---- scores -----------------------------------------------------------------------------------
 */

/* A key block is two halves of 8 keys; a tile is nq queries times nh halves, 8 accumulators. */
enum { SCORE_QUERIES = 8 };

/* Asks for n bytes, `ahead` bytes past p, which may lie beyond the store: a tile's computing would
 * otherwise wait for memory, since the processor's own prefetch stops at the end of every page. */
INLINE void prefetch(const uint8_t *p, size_t ahead, size_t n)
{
    for (size_t i = 0; i < n; i += 64) {
        _mm_prefetch((const char *)((uintptr_t)p + ahead + i), _MM_HINT_T0);
    }
}

INLINE __m256 load_keys(const uint8_t *p, enum sp_kv_type type)
{
    if (type == SP_KV_F16) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
    return _mm256_loadu_ps((const float *)(const void *)p);
}

/* The half blocks of a store, in position order. */
struct halves {
    const uint8_t *blocks;
    size_t block_size, width; /* width: bytes of a half's row of keys */
};

INLINE const uint8_t *half_at(struct halves keys, size_t h)
{
    return keys.blocks + h / 2 * keys.block_size + h % 2 * keys.width;
}

INLINE void scores_tile(float *scores, size_t ld, const float *q, size_t ldq, struct halves keys,
                        size_t h, size_t head_dim, float factor, enum sp_kv_type type, const int nq,
                        const int nh)
{
    const size_t nb = (size_t)(nh + 1) / 2, ahead = nb * 2 * keys.width;
    __m256 acc[SCORE_QUERIES][4];
    const uint8_t *at[4];

    for (int j = 0; j < nh; j++)
        at[j] = half_at(keys, h + (size_t)j);
    for (int i = 0; i < nq; i++) {
        for (int j = 0; j < nh; j++)
            acc[i][j] = _mm256_setzero_ps();
    }
    for (size_t d = 0; d < head_dim; d++) {
        __m256 k[4];
        prefetch(keys.blocks, (h / 2 + nb) * keys.block_size + d * ahead, ahead);
        for (int j = 0; j < nh; j++)
            k[j] = load_keys(at[j] + d * 2 * keys.width, type);
        for (int i = 0; i < nq; i++) {
            __m256 x = _mm256_broadcast_ss(q + (size_t)i * ldq + d);
            for (int j = 0; j < nh; j++)
                acc[i][j] = _mm256_fmadd_ps(x, k[j], acc[i][j]);
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int j = 0; j < nh; j++) {
            _mm256_storeu_ps(scores + (size_t)i * ld + (h + (size_t)j) * LANES,
                             _mm256_mul_ps(acc[i][j], _mm256_set1_ps(factor)));
        }
    }
}

/* All keys for nq queries. */
INLINE void scores_queries(float *scores, size_t ld, const float *q, size_t ldq, struct halves keys,
                           size_t n_halves, size_t head_dim, float factor, enum sp_kv_type type,
                           const int nq)
{
    const int nh = nq <= 2 ? 4 : nq <= 4 ? 2 : 1;
    size_t h = 0;

    for (; h + (size_t)nh <= n_halves; h += (size_t)nh) {
        scores_tile(scores, ld, q, ldq, keys, h, head_dim, factor, type, nq, nh);
    }
    for (; h < n_halves; h++) {
        scores_tile(scores, ld, q, ldq, keys, h, head_dim, factor, type, nq, 1);
    }
}

INLINE void scores_float(float *s, size_t ld, const float *q, size_t ldq, size_t n_queries,
                         const uint8_t *blocks, size_t n_blocks, size_t dim, float factor,
                         enum sp_kv_type type)
{
    struct halves keys = {blocks, sp_key_block_size(type, dim), type == SP_KV_F16 ? 16 : 32};
    size_t n_halves = 2 * n_blocks;

    for (size_t n; n_queries > 0; n_queries -= n, s += n * ld, q += n * ldq) {
        n = n_queries >= 8 ? 8 : n_queries >= 4 ? 4 : n_queries >= 2 ? 2 : 1;
        switch (n) {
        case 1:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 1);
            break;
        case 2:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 2);
            break;
        case 4:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 4);
            break;
        default:
            scores_queries(s, ld, q, ldq, keys, n_halves, dim, factor, type, 8);
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

struct codes {
    int8_t q[SCORE_QUERIES][SP_MAX_HEAD_DIM];
    float scale[SCORE_QUERIES][SP_MAX_HEAD_DIM / SP_KV_GROUP];
};

/* One half block. The product of signed bytes is |k| times q with k's sign; two products of at most
 * 127 * 127 fit 16 bits. */
INLINE void scores_q8_tile(float *scores, size_t ld, const struct codes *codes, const uint8_t *half,
                           size_t head_dim, float factor, const int nq)
{
    const uint8_t *scales = half + head_dim * SP_KEY_BLOCK;
    const __m256i ones = _mm256_set1_epi16(1), offset = _mm256_set1_epi8(-128);
    __m256 acc[SCORE_QUERIES];

    for (int i = 0; i < nq; i++)
        acc[i] = _mm256_setzero_ps();
    for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
        __m256i sum[SCORE_QUERIES];
        for (int i = 0; i < nq; i++)
            sum[i] = _mm256_setzero_si256();
        for (int v = 0; v < SP_KV_GROUP / 4; v++) {
            const uint8_t *at = half + g * SP_KV_GROUP * SP_KEY_BLOCK + 64 * v;
            __m256i k = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)at), offset);
            __m256i size = _mm256_abs_epi8(k);
            for (int i = 0; i < nq; i++) {
                int32_t four;
                memcpy(&four, codes->q[i] + g * SP_KV_GROUP + 4 * v, sizeof four);
                __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(four), k);
                __m256i pairs = _mm256_maddubs_epi16(size, x);
                sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
            }
        }
        __m256 k_scale = _mm256_loadu_ps((const float *)(const void *)(scales + 64 * g));
        for (int i = 0; i < nq; i++) {
            __m256 s = _mm256_mul_ps(k_scale, _mm256_broadcast_ss(&codes->scale[i][g]));
            acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i]), s, acc[i]);
        }
    }
    for (int i = 0; i < nq; i++) {
        _mm256_storeu_ps(scores + (size_t)i * ld, _mm256_mul_ps(acc[i], _mm256_set1_ps(factor)));
    }
}

INLINE void scores_q8_queries(float *scores, size_t ld, const struct codes *codes,
                              struct halves keys, size_t n_halves, size_t head_dim, float factor,
                              const int nq)
{
    for (size_t h = 0; h < n_halves; h++) {
        scores_q8_tile(scores + h * LANES, ld, codes, half_at(keys, h), head_dim, factor, nq);
    }
}

static void scores_q8(float *scores, size_t ld_scores, const float *q, size_t ldq, size_t n_queries,
                      const uint8_t *key_blocks, size_t n_blocks, size_t head_dim, float factor)
{
    struct halves keys = {key_blocks, sp_key_block_size(SP_KV_Q8, head_dim), 32};
    struct codes codes;

    assert(head_dim <= SP_MAX_HEAD_DIM);
    for (size_t n; n_queries > 0; n_queries -= n, scores += n * ld_scores, q += n * ldq) {
        n = n_queries >= 4 ? 4 : n_queries >= 2 ? 2 : 1;
        for (size_t i = 0; i < n; i++) {
            for (size_t g = 0; g < head_dim / SP_KV_GROUP; g++) {
                size_t d = g * SP_KV_GROUP;
                codes.scale[i][g] = quantize_group(codes.q[i] + d, q + i * ldq + d);
            }
        }
        switch (n) {
        case 1:
            scores_q8_queries(scores, ld_scores, &codes, keys, 2 * n_blocks, head_dim, factor, 1);
            break;
        case 2:
            scores_q8_queries(scores, ld_scores, &codes, keys, 2 * n_blocks, head_dim, factor, 2);
            break;
        default:
            scores_q8_queries(scores, ld_scores, &codes, keys, 2 * n_blocks, head_dim, factor, 4);
        }
    }
}

/* ---- softmax and weighted sums ----------------------------------------------------------------
 */

/* Lanes of the vector at i that lie in first..last-1. */
INLINE __m256 lanes_between(size_t i, size_t first, size_t last)
{
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int low = first > i ? (int)(first - i) : 0, high = last - i < LANES ? (int)(last - i) : LANES;

    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low), index),
                            _mm256_cmpgt_epi32(_mm256_set1_epi32(high), index)));
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

/* Rows of values of consecutive positions. */
struct values {
    const uint8_t *rows;
    size_t row_size, head_dim;
};

/* Dims d.. of a row, n of them (n >= 8: 8). */
INLINE __m256 load_value(const uint8_t *row, size_t d, size_t n, enum sp_kv_type type)
{
    __m128i bytes = _mm_setzero_si128();

    switch (type) {
    case SP_KV_F16:
        if (n >= LANES) {
            bytes = _mm_loadu_si128((const __m128i *)(row + 2 * d));
        } else {
            memcpy(&bytes, row + 2 * d, 2 * n);
        }
        return _mm256_cvtph_ps(bytes);
    case SP_KV_Q8:
        bytes = _mm_loadl_epi64((const __m128i *)(row + d));
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    default:
        return load8((const float *)(const void *)(row + 4 * d), n);
    }
}

/* The scale of the group of dim d; only q8 has any. */
INLINE __m256 load_scale(const uint8_t *scales, size_t d, enum sp_kv_type type)
{
    float s = 1;

    if (type == SP_KV_Q8) memcpy(&s, scales + d / SP_KV_GROUP * sizeof s, sizeof s);
    return _mm256_set1_ps(s);
}

enum { WEIGH_QUERIES = 4, GROUP_VECTORS = SP_KV_GROUP / LANES, VALUES_AHEAD = 4096 };

/* out_i[d..] += sum of p_i[j] v_j[d..] over j = from..to-1, for nq queries and nv vectors of dims;
 * dims: of the last vector, 8 unless nv is 1. */
INLINE void weigh_tile(float *out, size_t ld_out, const float *p, size_t ldp, size_t from,
                       size_t to, struct values values, size_t d, size_t dims, enum sp_kv_type type,
                       const int nq, const int nv)
{
    __m256 acc[WEIGH_QUERIES][8];

    for (int i = 0; i < nq; i++) {
        for (int v = 0; v < nv; v++) {
            acc[i][v] = load8(out + (size_t)i * ld_out + d + v * LANES, dims);
        }
    }
    for (size_t j = from; j < to; j++) {
        const uint8_t *row = values.rows + j * values.row_size;
        __m256 x[8], scale[8];
        if (d == 0) prefetch(row, VALUES_AHEAD, values.row_size);
        for (int v = 0; v < nv; v++)
            x[v] = load_value(row, d + (size_t)v * LANES, dims, type);
        for (int v = 0; v < nv; v += GROUP_VECTORS) {
            scale[v] = load_scale(row + values.head_dim, d + (size_t)v * LANES, type);
        }
        for (int i = 0; i < nq; i++) {
            __m256 w = _mm256_broadcast_ss(p + (size_t)i * ldp + j), scaled = w;
            for (int v = 0; v < nv; v++) {
                if (type == SP_KV_Q8 && v % GROUP_VECTORS == 0) scaled = _mm256_mul_ps(w, scale[v]);
                acc[i][v] = _mm256_fmadd_ps(scaled, x[v], acc[i][v]);
            }
        }
    }
    for (int i = 0; i < nq; i++) {
        for (int v = 0; v < nv; v++) {
            store8(out + (size_t)i * ld_out + d + v * LANES, dims, acc[i][v]);
        }
    }
}

/* The same for all dims: as many vectors at a time as leave room for the accumulators. */
INLINE void weigh_rows(float *out, size_t ld_out, const float *p, size_t ldp, size_t from,
                       size_t to, struct values values, enum sp_kv_type type, const int nq)
{
    size_t d = 0, dim = values.head_dim;

    if (from >= to) return;
    for (; nq == 1 && d + 8 * LANES <= dim; d += 8 * LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 8);
    }
    for (; nq <= 2 && d + 4 * LANES <= dim; d += 4 * LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 4);
    }
    for (; d + 2 * LANES <= dim; d += 2 * LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, LANES, type, nq, 2);
    }
    for (; d < dim; d += LANES) {
        weigh_tile(out, ld_out, p, ldp, from, to, values, d, dim - d, type, nq, 1);
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

const struct sp_vector sp_vector_avx2 = {
    .name = "avx2",
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
