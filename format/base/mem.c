#define _DEFAULT_SOURCE /* madvise */

#include "format/base/mem.h"

#include "format/system/macos.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CACHE_LINE = 64,
    HUGE_PAGE = 2 << 20, /* blocks of several of these use huge pages: fewer TLB misses */
};

bool sp_mul(size_t *out, size_t a, size_t b)
{
    size_t r;

    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

bool sp_add(size_t *out, size_t a, size_t b)
{
    size_t r;

    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static enum sp_status no_memory(struct sp_err *err, size_t n, size_t size)
{
    return sp_fail(err, SP_E_NOMEM, "out of memory: %zu x %zu bytes were requested", n, size);
}

enum sp_status sp_new(void *out, size_t n, size_t size, struct sp_err *err)
{
    size_t bytes;
    void *p;

    if (!sp_mul(&bytes, n, size)) return no_memory(err, n, size);
    p = calloc(bytes ? bytes : 1, 1);
    if (p == NULL) return no_memory(err, n, size);
    memcpy(out, &p, sizeof p);
    return SP_OK;
}

/* The kernel may ignore this advice. */
static void ask_for_huge_pages(void *p, size_t size, size_t align)
{
    if (align == HUGE_PAGE) (void)madvise(p, size & ~((size_t)HUGE_PAGE - 1), MADV_HUGEPAGE);
}

enum sp_status sp_new_aligned(void *out, size_t n, size_t size, struct sp_err *err)
{
    size_t bytes, align;
    void *p;

    if (!sp_mul(&bytes, n, size) || bytes > SIZE_MAX - HUGE_PAGE) return no_memory(err, n, size);
    align = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    bytes = sp_round_up(bytes ? bytes : 1, align);
    p = aligned_alloc(align, bytes);
    if (p == NULL) return no_memory(err, n, size);
    ask_for_huge_pages(p, bytes, align);
    memcpy(out, &p, sizeof p);
    return SP_OK;
}

enum sp_status sp_new_rows(float **out, size_t n_rows, size_t ld, struct sp_err *err)
{
    enum sp_status st;
    size_t n;

    if (!sp_mul(&n, n_rows, ld)) return sp_fail(err, SP_E_NOMEM, "out of memory: rows overflow");
    if ((st = sp_new_aligned(out, n, sizeof **out, err))) return st;
    memset(*out, 0, n * sizeof **out);
    return SP_OK;
}

enum sp_status sp_new_sparse(void *out, void **memory, size_t n, size_t size, struct sp_err *err)
{
    size_t bytes, align;
    uintptr_t start;
    void *p, *aligned;

    if (!sp_mul(&bytes, n, size) || bytes > SIZE_MAX - HUGE_PAGE) return no_memory(err, n, size);
    align = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    p = calloc(bytes + align, 1);
    if (p == NULL) return no_memory(err, n, size);
    start = (uintptr_t)p;
    aligned = (char *)p + (sp_round_up(start, align) - start);
    /* The first stays of small pages: where little is used, little is to be cleared. */
    if (align == HUGE_PAGE)
        ask_for_huge_pages((char *)aligned + HUGE_PAGE, bytes - HUGE_PAGE, align);
    memcpy(out, &aligned, sizeof aligned);
    *memory = p;
    return SP_OK;
}

enum sp_status sp_grow(void *array, size_t *cap, size_t want, size_t size, struct sp_err *err)
{
    size_t n = *cap < 8 ? 8 : *cap;
    size_t bytes;
    void *p;

    if (want <= *cap) return SP_OK;
    while (n < want)
        if (!sp_mul(&n, n, 2)) return no_memory(err, want, size);
    if (!sp_mul(&bytes, n, size)) return no_memory(err, want, size);
    memcpy(&p, array, sizeof p);
    p = realloc(p, bytes);
    if (p == NULL) return no_memory(err, n, size);
    memcpy(array, &p, sizeof p);
    *cap = n;
    return SP_OK;
}

enum sp_status sp_reserve(void *array, size_t *cap, size_t n, size_t size, struct sp_err *err)
{
    enum sp_status st;
    void *p, *none = NULL;

    if (n <= *cap) return SP_OK;
    memcpy(&p, array, sizeof p);
    free(p);
    memcpy(array, &none, sizeof none);
    *cap = 0;
    if ((st = sp_new_aligned(&p, n, size, err))) return st;
    memset(p, 0, n * size);
    memcpy(array, &p, sizeof p);
    *cap = n;
    return SP_OK;
}

void *sp_arena_keep(struct sp_arena *arena, void *block, size_t n, size_t size)
{
    if (arena->lacking[1] == 0 && block &&
        !sp_grow(&arena->blocks, &arena->cap, arena->n + 1, sizeof *arena->blocks, NULL))
        return arena->blocks[arena->n++] = block;
    free(block);
    if (arena->lacking[1] == 0) arena->lacking[0] = n;
    if (arena->lacking[1] == 0) arena->lacking[1] = size ? size : 1;
    return NULL;
}

void *sp_arena_new(struct sp_arena *arena, size_t n, size_t size)
{
    void *block = NULL;

    if (sp_new(&block, n, size, NULL)) block = NULL;
    return sp_arena_keep(arena, block, n, size);
}

float *sp_arena_rows(struct sp_arena *arena, size_t n_rows, size_t ld)
{
    float *rows = NULL;

    if (sp_new_rows(&rows, n_rows, ld, NULL)) rows = NULL;
    return sp_arena_keep(arena, rows, n_rows, ld * sizeof *rows);
}

enum sp_status sp_arena_check(const struct sp_arena *arena, struct sp_err *err)
{
    return arena->lacking[1] ? no_memory(err, arena->lacking[0], arena->lacking[1]) : SP_OK;
}

void sp_arena_release(struct sp_arena *arena)
{
    while (arena->n > 0)
        free(arena->blocks[--arena->n]);
    free(arena->blocks);
    *arena = (struct sp_arena){0};
}

enum sp_status sp_copy_text(char **out, const char *text, size_t len, struct sp_err *err)
{
    enum sp_status st;
    size_t size;
    char *copy = NULL;

    if (!sp_add(&size, len, 1)) return no_memory(err, len, 1);
    if ((st = sp_new(&copy, size, 1, err))) return st;
    if (len) memcpy(copy, text, len);
    *out = copy;
    return SP_OK;
}

enum sp_status sp_close_text(FILE *stream, char **text, struct sp_err *err)
{
    bool whole = !ferror(stream);

    whole = fclose(stream) == 0 && whole;
    if (whole && *text != NULL) return SP_OK;
    free(*text);
    *text = NULL;
    return sp_fail(err, SP_E_NOMEM, "out of memory: a text in memory");
}

static size_t size_of(const void *sized)
{
    size_t size;

    memcpy(&size, sized, sizeof size);
    return size;
}

enum sp_status sp_check_size(const void *sized, size_t known, const char *name, struct sp_err *err)
{
    size_t size = size_of(sized);

    if (size > 0 && size <= known && size % sizeof size == 0) return SP_OK;
    return sp_fail(err, SP_E_USAGE,
                   "struct %s has the size %zu: expected its sizeof, which is %zu in this version",
                   name, size, known);
}

enum sp_status sp_copy_in(void *to, size_t known, const void *from, const char *name,
                          struct sp_err *err)
{
    enum sp_status st = sp_check_size(from, known, name, err);

    if (st == SP_OK) memcpy(to, from, size_of(from));
    return st;
}

void sp_copy_out(void *to, const void *from)
{
    size_t size = size_of(to);

    if (size > size_of(from)) return;
    memcpy(to, from, size);
    memcpy(to, &size, sizeof size);
}

void sp_hand_out(void *to, void *from)
{
    const size_t size = size_of(from);

    sp_copy_out(to, from);
    memset(from, 0, size_of(to));
    memcpy(from, &size, sizeof size);
}
