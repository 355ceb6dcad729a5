#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS, MAP_NORESERVE */

#include "format/base/region.h"

#include "format/base/mem.h"
#include "format/system/macos.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

/* Large regions use such pages: long reads miss the TLB less. */
enum { HUGE_PAGE = 2 << 20 };

#if defined(__linux__) && !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25 /* Linux 6.1; older ones refuse it */
#endif

static size_t round_to_pages(size_t size)
{
    return sp_round_up(size, (size_t)sysconf(_SC_PAGESIZE));
}

/* Makes huge pages where these are committed as a whole, so that none takes memory for bytes that
 * nobody uses; small pages that are there are copied. The kernel may ignore this. */
static void use_huge_pages(struct sp_region *r)
{
    size_t end = r->committed / HUGE_PAGE * HUGE_PAGE;

    if (r->size < HUGE_PAGE || end <= r->huge) return;
    (void)madvise(r->at + r->huge, end - r->huge, MADV_HUGEPAGE);
    (void)madvise(r->at + r->huge, end - r->huge, MADV_COLLAPSE);
    r->huge = end;
}

enum sp_status sp_region_open(struct sp_region *region, size_t size, struct sp_err *err)
{
    struct sp_region r = {0};
    size_t align = size >= HUGE_PAGE ? HUGE_PAGE : 1;

    if (size > SIZE_MAX / 2) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes of address space were requested",
                       size);
    }
    r.size = round_to_pages(size ? size : 1);
    r.mapping_size = r.size + (align > 1 ? align : 0);
    r.mapping =
        mmap(NULL, r.mapping_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.mapping == MAP_FAILED) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes of address space were requested",
                       size);
    }
    r.at = (uint8_t *)r.mapping + (sp_round_up((uintptr_t)r.mapping, align) - (uintptr_t)r.mapping);
    *region = r;
    return SP_OK;
}

void sp_region_close(struct sp_region *region)
{
    if (region->mapping) munmap(region->mapping, region->mapping_size);
    *region = (struct sp_region){0};
}

enum sp_status sp_region_grow(struct sp_region *region, size_t size, struct sp_err *err)
{
    size_t want = round_to_pages(size);

    assert(want <= region->size);
    if (want <= region->committed) return SP_OK;
    if (mprotect(region->at + region->committed, want - region->committed,
                 PROT_READ | PROT_WRITE)) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes were requested",
                       want - region->committed);
    }
    region->committed = want;
    use_huge_pages(region);
    return SP_OK;
}

void sp_region_shrink(struct sp_region *region, size_t size)
{
    size_t keep = round_to_pages(size), rest;

    if (keep >= region->committed) return;
    rest = region->committed - keep;
    /* A new mapping, since files may be mapped there. */
    if (mmap(region->at + keep, rest, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return;
    region->committed = keep;
    if (region->huge > keep) region->huge = keep / HUGE_PAGE * HUGE_PAGE;
}
