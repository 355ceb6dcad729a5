#include "format/base/hash.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct sp_hash {
    XXH3_state_t *state;
};

uint64_t sp_hash64(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

void sp_hash128_text(char out[SP_HASH128_TEXT], const void *bytes, size_t size)
{
    XXH128_hash_t digest = XXH3_128bits(bytes, size);

    snprintf(out, SP_HASH128_TEXT, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
}

enum sp_status sp_hash_new(struct sp_hash **out, struct sp_err *err)
{
    enum sp_status st;
    struct sp_hash *hash = NULL;

    if ((st = sp_new(&hash, 1, sizeof *hash, err))) return st;
    if ((hash->state = XXH3_createState()) == NULL) {
        free(hash);
        return sp_fail(err, SP_E_NOMEM, "out of memory for a digest");
    }
    sp_hash_reset(hash);
    *out = hash;
    return SP_OK;
}

void sp_hash_free(struct sp_hash *hash)
{
    if (hash == NULL) return;
    XXH3_freeState(hash->state);
    free(hash);
}

/* Reset and update fail only for a NULL state. */
void sp_hash_reset(struct sp_hash *hash)
{
    (void)XXH3_64bits_reset(hash->state);
}

void sp_hash_update(struct sp_hash *hash, const void *bytes, size_t size)
{
    if (size) (void)XXH3_64bits_update(hash->state, bytes, size);
}

uint64_t sp_hash_digest(const struct sp_hash *hash)
{
    return XXH3_64bits_digest(hash->state);
}

void sp_hash_library(char *text, size_t size)
{
    unsigned number = XXH_versionNumber();

    snprintf(text, size, "xxHash %u.%u.%u", number / 10000, number / 100 % 100, number % 100);
}
