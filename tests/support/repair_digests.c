#include "tests/support/repair_digests.h"

#include "format/base/bytes.h"
#include "format/base/hash.h"
#include "format/packfile_layout.h"

/* Corrects the digest of one directory entry. `place` points at the entry's data offset and size,
 * `digest` at its digest. Data outside the file is skipped. */
static void repair_entry(uint8_t *bytes, size_t size, const uint8_t *place, uint8_t *digest)
{
    uint64_t offset = sp_get64(place), stored = sp_get64(place + 8);

    if (offset <= size && stored <= size - offset)
        sp_put64(digest, sp_hash64(bytes + offset, stored));
}

void repair_digests(uint8_t *bytes, size_t size)
{
    if (size < SP_PACK_PAGE) return;
    uint64_t at = sp_get64(bytes + 24);
    uint64_t n_tensors = sp_get32(bytes + 48);
    uint64_t n_sections = sp_get32(bytes + 52);
    if (at <= size && n_tensors < size / SP_PACK_TENSOR_ENTRY &&
        n_sections < size / SP_PACK_SECTION_ENTRY &&
        n_tensors * SP_PACK_TENSOR_ENTRY + n_sections * SP_PACK_SECTION_ENTRY <= size - at) {
        uint8_t *entry = bytes + at;

        for (uint64_t i = 0; i < n_tensors; i++, entry += SP_PACK_TENSOR_ENTRY)
            repair_entry(bytes, size, entry + 40, entry + 56);
        for (uint64_t i = 0; i < n_sections; i++, entry += SP_PACK_SECTION_ENTRY)
            repair_entry(bytes, size, entry + 8, entry + 32);
        sp_put64(bytes + 40, sp_hash64(bytes + at, size - at));
    }
    sp_put64(bytes + 120, sp_hash64(bytes, SP_PACK_HEADER_DIGESTED));
}
