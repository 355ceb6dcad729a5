/* The hashes of token texts and of token pairs. Their values are written to packed files: changing
 * them changes the format. Tables probe linearly; a chain longer than SP_MAX_PROBES is refused when
 * a table is built, so nobody can prepare a vocabulary that is slow to search. */
#ifndef SP_FORMAT_TOKENIZER_WORD_HASH_H
#define SP_FORMAT_TOKENIZER_WORD_HASH_H

#include "format/base/bytes.h"

#include <stddef.h>

enum { SP_MAX_PROBES = 4096 };

static inline uint64_t sp_word_mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15U;
    return h ^ h >> 29;
}

static inline uint64_t sp_word_hash(const void *text, size_t len)
{
    const uint8_t *p = text;
    uint64_t h = 0x243F6A8885A308D3U ^ (uint64_t)len;
    uint64_t tail = 0;

    for (; len >= 8; p += 8, len -= 8)
        h = sp_word_mix(h ^ sp_get64(p));
    for (size_t i = 0; i < len; i++)
        tail |= (uint64_t)p[i] << 8 * i;
    return sp_word_mix(sp_word_mix(h ^ tail));
}

static inline uint64_t sp_merge_hash(uint32_t left, uint32_t right)
{
    return sp_word_mix(sp_word_mix((uint64_t)left << 32 | right));
}

/* The slot a search begins at; n_slots < 2^32. */
static inline size_t sp_hash_slot(uint64_t hash, size_t n_slots)
{
    return (size_t)((hash >> 32) * (uint64_t)n_slots >> 32);
}

#endif
