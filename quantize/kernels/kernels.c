/* Kernel sets: the list of them, what this CPU supports, the choice by name. Also the allocation of
 * activations, and products of more rows than one kernel call takes.
 *
 * This is the only file that asks the CPU for its features. It contains no arithmetic. */
#include "quantize/kernels/kernels.h"

#include "format/base/mem.h"
#include "format/system/macos.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && !defined(__APPLE__)
#include <sys/auxv.h>
#endif

static bool runs_always(void)
{
    return true;
}

#if defined(__x86_64__)
/* This and the next read a CPUID bit, since some compilers' __builtin_cpu_supports does not know
 * f16c and avxvnni. */
static bool runs_avx2(void)
{
    unsigned a, b, c, d;

    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool runs_avxvnni(void)
{
    unsigned a, b, c, d;

    return runs_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}

static bool runs_avx512vnni(void)
{
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool runs_avx512(void)
{
    return runs_avx512vnni() && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi");
}

/* The bits of AMX-TILE and AMX-INT8. */
static bool runs_amx(void)
{
    unsigned a, b, c, d;

    return runs_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & 3) == 3;
}

static const struct sp_kernels *const all[] = {&sp_kernels_avx512,
                                               &sp_kernels_amx,
                                               &sp_kernels_avxvnni,
                                               &sp_kernels_avx512vnni,
                                               &sp_kernels_avx2,
                                               &sp_kernels_ref,
                                               NULL};
static bool (*const runs[])(void) = {runs_avx512,     runs_amx,  runs_avxvnni,
                                     runs_avx512vnni, runs_avx2, runs_always};
static const char names[] = "auto, avx512, amx, avxvnni, avx512vnni, avx2 or scalar";
#elif defined(__aarch64__)
static bool runs_neon(void)
{
#if defined(__APPLE__)
    return true; /* the processors of all Macs have dot products */
#else
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
}

static bool runs_neon_i8mm(void)
{
#if defined(__APPLE__)
    int has = 0;
    size_t size = sizeof has;

    return sysctlbyname("hw.optional.arm.FEAT_I8MM", &has, &size, NULL, 0) == 0 && has;
#else
    return runs_neon() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
}

static const struct sp_kernels *const all[] = {&sp_kernels_neon, &sp_kernels_neon_i8mm,
                                               &sp_kernels_ref, NULL};
static bool (*const runs[])(void) = {runs_neon, runs_neon_i8mm, runs_always};
static const char names[] = "auto, neon, neon-i8mm or scalar";
#else
static const struct sp_kernels *const all[] = {&sp_kernels_ref, NULL};
static bool (*const runs[])(void) = {runs_always};
static const char names[] = "auto or scalar";
#endif

const struct sp_kernels *const *sp_kernels_all(void)
{
    return all;
}

/* NULL: it can run. */
static const char *refusal(const struct sp_kernels *kernels)
{
    for (size_t i = 0; all[i]; i++)
        if (all[i] == kernels && runs[i]()) return kernels->refusal ? kernels->refusal() : NULL;
    return "this CPU cannot run them";
}

bool sp_kernels_supported(const struct sp_kernels *kernels)
{
    return refusal(kernels) == NULL;
}

const struct sp_kernels *sp_kernels_best(void)
{
    size_t i = 0;

    while (!sp_kernels_supported(all[i]))
        i++;
    return all[i];
}

enum sp_status sp_kernels_find(const struct sp_kernels **out, const char *name, struct sp_err *err)
{
    const struct sp_kernels *found = NULL;

    if (name == NULL || strcmp(name, "auto") == 0) {
        *out = sp_kernels_best();
        return SP_OK;
    }
    for (size_t i = 0; all[i]; i++)
        if (strcmp(name, all[i]->name) == 0) found = all[i];
    if (found == NULL) return sp_fail(err, SP_E_USAGE, "kernels \"%s\": expected %s", name, names);
    if (refusal(found))
        return sp_fail(err, SP_E_UNSUPPORTED, "kernels \"%s\": %s", name, refusal(found));
    *out = found;
    return SP_OK;
}

enum sp_status sp_acts_init(struct sp_acts *acts, size_t n_rows, size_t cols, struct sp_err *err)
{
    enum sp_status st;
    size_t per_row, floats = 0;
    struct sp_acts result = {.cols = cols};
    float *memory;

    /* An odd number of cache lines: rows at multiples of 4096 bytes would all map to one cache
     * set. */
    result.ld = sp_round_up(cols ? cols : 1, 64);
    if (result.ld / 64 % 2 == 0) result.ld += 64;
    result.ld_block = result.ld / SP_BLOCK;

    /* Floats per row: x, q (a quarter of a float per element), scale, three starts, three sums. */
    per_row = result.ld + result.ld / 4 + result.ld_block * 7;
    if (cols > SIZE_MAX / 64 || n_rows > SIZE_MAX - 1 || !sp_mul(&floats, per_row, n_rows + 1)) {
        return sp_fail(err, SP_E_NOMEM, "activations: %zu rows of %zu columns wanted", n_rows,
                       cols);
    }
    if ((st = sp_new_aligned(&memory, floats, sizeof *memory, err))) return st;
    memset(memory, 0, floats * sizeof *memory);
    result.x = memory;
    result.q = (int8_t *)(memory + n_rows * result.ld);
    result.scale = memory + n_rows * (result.ld + result.ld / 4);
    result.start_q4 = (int32_t *)(void *)(result.scale + n_rows * result.ld_block);
    result.start_q8 = result.start_q4 + n_rows * result.ld_block * 2;
    result.sums = result.scale + n_rows * result.ld_block * 4;
    *acts = result;
    return SP_OK;
}

struct sp_acts sp_arena_acts(struct sp_arena *arena, size_t n_rows, size_t cols)
{
    struct sp_acts acts = {0};
    enum sp_status st = sp_acts_init(&acts, n_rows, cols, NULL);

    if (sp_arena_keep(arena, st ? NULL : acts.x, n_rows, cols * sizeof *acts.x)) return acts;
    return (struct sp_acts){0};
}

void sp_acts_release(struct sp_acts *acts)
{
    free(acts->x);
    *acts = (struct sp_acts){0};
}

/* Most bytes of a group of panels: a part of a small second-level cache that leaves space for the
 * activations. */
enum { GROUP_BYTES = 256 << 10 };

sp_matmul_fn *sp_kernels_matmul(const struct sp_kernels *kernels, enum sp_dtype dtype)
{
    sp_matmul_fn *own = sp_dtype_is_groupwise(dtype) ? kernels->groupwise : kernels->matmul[dtype];

    if (own == NULL) own = kernels->others;
    return own ? own : sp_kernels_ref.others;
}

void sp_matmul_rows(const struct sp_kernels *kernels, const struct sp_matmul *m)
{
    size_t n_tiles = (m->n_rows + SP_TILE_ROWS - 1) / SP_TILE_ROWS;
    sp_matmul_fn *matmul = sp_kernels_matmul(kernels, m->dtype);
    size_t panel_size = 0, group = m->n_panels;
    struct sp_matmul tile = *m;

    if (m->n_rows == 0 || m->n_panels == 0) return;
    if (!sp_panel_size(&panel_size, m->dtype, m->acts->cols)) return;
    if (n_tiles > 1) group = panel_size < GROUP_BYTES ? GROUP_BYTES / panel_size : 1;
    for (size_t p = 0; p < m->n_panels; p += group) {
        size_t begin = 0;
        tile.panels = m->panels + p * panel_size;
        tile.n_panels = m->n_panels - p < group ? m->n_panels - p : group;
        for (size_t i = 0; i < n_tiles; i++) {
            size_t end = m->n_rows * (i + 1) / n_tiles;
            tile.y = m->y + begin * m->ldy + p * SP_PANEL_ROWS;
            tile.first = m->first + begin;
            tile.n_rows = end - begin;
            matmul(&tile);
            begin = end;
        }
    }
}
