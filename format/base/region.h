/* A region of address space that memory backs only as far as it is committed.
 *
 * Arrays that grow with a sequence are laid out at their largest size once: they grow in place,
 * nothing is copied, and pointers into them stay valid. Address space without memory costs
 * nothing. */
#ifndef SP_FORMAT_BASE_REGION_H
#define SP_FORMAT_BASE_REGION_H

#include "format/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* While no more bytes are committed, a region has small pages of memory; then huge ones, too. */
enum { SP_REGION_SMALL = 2 << 20 };

struct sp_region {
    uint8_t *at;      /* aligned to 64 bytes at least; owned */
    size_t size;      /* bytes reserved, from `at` on */
    size_t committed; /* bytes at the beginning that can be read and written */
    size_t huge;      /* of these, in huge pages if the kernel has them */
    void *mapping;    /* the whole mapping, which may begin before `at` */
    size_t mapping_size;
};

/* Reserves `size` bytes, none of them committed. SP_E_NOMEM: the address space is limited (ulimit
 * -v). */
SP_MUST_CHECK enum sp_status sp_region_open(struct sp_region *region, size_t size,
                                            struct sp_err *err);
void sp_region_close(struct sp_region *region); /* zeroed: nothing happens */

/* Commits at least the first `size` bytes; newly committed bytes are zero. */
SP_MUST_CHECK enum sp_status sp_region_grow(struct sp_region *region, size_t size,
                                            struct sp_err *err);
/* Returns the memory of bytes from `size` on to the system. */
void sp_region_shrink(struct sp_region *region, size_t size);

#endif
