/* Memory with checked sizes: every failure is a status that says how many bytes were wanted. */
#ifndef SP_FORMAT_BASE_MEM_H
#define SP_FORMAT_BASE_MEM_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* *out = a * b or a + b; false (and *out untouched) when that does not fit. */
bool sp_mul(size_t *out, size_t a, size_t b);
bool sp_add(size_t *out, size_t a, size_t b);

/* True if `id` is one of ids[0..n-1]. */
static inline bool sp_ids_have(const uint32_t *ids, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Smallest multiple of `step` (a power of two) that is >= n. n must be far below SIZE_MAX. */
static inline size_t sp_round_up(size_t n, size_t step)
{
    return (n + step - 1) & ~(step - 1);
}

/* *out = n zeroed elements of `size` bytes, owned by the caller, released with free(). n == 0 gives
 * a valid pointer. *out is untouched on failure; `out` is the address of a pointer of any type. */
SP_MUST_CHECK enum sp_status sp_new(void *out, size_t n, size_t size, struct sp_err *err);

/* Like sp_new, aligned to 64 bytes and not zeroed, for rows of numbers. Released with free(). */
SP_MUST_CHECK enum sp_status sp_new_aligned(void *out, size_t n, size_t size, struct sp_err *err);

/* n_rows * ld zeroed floats, aligned so. */
SP_MUST_CHECK enum sp_status sp_new_rows(float **out, size_t n_rows, size_t ld, struct sp_err *err);

/* *out = n zeroed elements, aligned, inside *memory, which the caller frees: for large stores of
 * which only a part may ever be used, since untouched pages cost nothing. Both untouched on
 * failure. */
SP_MUST_CHECK enum sp_status sp_new_sparse(void *out, void **memory, size_t n, size_t size,
                                           struct sp_err *err);

/* Grows *array (elements of `size` bytes) so that it holds at least `want`; *cap is its capacity.
 * New elements are not zeroed. */
SP_MUST_CHECK enum sp_status sp_grow(void *array, size_t *cap, size_t want, size_t size,
                                     struct sp_err *err);

/* Makes room for at least n elements in *array, aligned and zeroed where it grows; *cap is its
 * capacity. What it held is lost, also on failure. */
SP_MUST_CHECK enum sp_status sp_reserve(void *array, size_t *cap, size_t n, size_t size,
                                        struct sp_err *err);

/* Memory that is released together. Zeroed, it is empty. After the first failure the functions
 * below return NULL, so whoever fills an arena checks it once, at the end. */
struct sp_arena {
    void **blocks; /* [n] */
    size_t n, cap;
    size_t lacking[2]; /* elements that could not be allocated, and the bytes of each; 0: none */
};

/* As sp_new and sp_new_rows, but the arena owns the memory. */
void *sp_arena_new(struct sp_arena *arena, size_t n, size_t size);
float *sp_arena_rows(struct sp_arena *arena, size_t n_rows, size_t ld);
/* Hands over a block to free(), of n elements of `size` bytes, and returns it. On failure it is
 * freed; NULL: it could not be allocated. */
void *sp_arena_keep(struct sp_arena *arena, void *block, size_t n, size_t size);
/* SP_E_NOMEM if anything could not be allocated. */
SP_MUST_CHECK enum sp_status sp_arena_check(const struct sp_arena *arena, struct sp_err *err);
void sp_arena_release(struct sp_arena *arena);

/* A text of a file or section, with a NUL behind its bytes. Who fills it hands it over, for
 * free(at); at NULL: there is none. */
struct sp_text {
    char *at;
    size_t size; /* without the NUL */
};

/* *out = a copy of `len` bytes and a terminating NUL, owned by the caller. */
SP_MUST_CHECK enum sp_status sp_copy_text(char **out, const char *text, size_t len,
                                          struct sp_err *err);

/* Ends a stream of open_memstream, whose text *text is. SP_E_NOMEM, with *text freed and NULL,
 * where memory lacked for any of it: fclose alone may report success and leave no text. */
SP_MUST_CHECK enum sp_status sp_close_text(FILE *stream, char **text, struct sp_err *err);

/* Structs of the public header begin with a size_t: the size that the struct had when its user was
 * compiled. `known` is the size that it has here, `name` its tag.
 *
 * sp_check_size: SP_E_USAGE where the size is none that a version up to this one had.
 * sp_copy_in: copies a caller's struct into `to`, which is `known` zero bytes: members that the
 * caller's version lacks stay zero. Fails as sp_check_size does.
 * sp_copy_out: copies into a caller's struct the members that it has, from one of the full size;
 * does nothing where the caller's size is not set or larger.
 * sp_hand_out: copies out too, and clears what it has copied: what is left can be released. */
SP_MUST_CHECK enum sp_status sp_check_size(const void *sized, size_t known, const char *name,
                                           struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_copy_in(void *to, size_t known, const void *from, const char *name,
                                        struct sp_err *err);
void sp_copy_out(void *to, const void *from);
void sp_hand_out(void *to, void *from);

#endif
