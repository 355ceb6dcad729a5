#include "format/tokenizer/rewrite.h"

#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

struct sp_charsmap {
    uint8_t *bytes;       /* the decoded map; owned */
    const uint8_t *units; /* [n_units] u32 */
    size_t n_units;
    const char *texts; /* the replacements */
    size_t texts_len;
};

/* ---- base64 ---------------------------------------------------------------------------------- */

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool sp_base64_decode(uint8_t *out, size_t *out_len, const char *text, size_t len)
{
    size_t padding = 0, n = 0;

    while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
        padding++;
    if (len % 4) return false;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t group = 0;
        for (size_t k = i; k < i + 4; k++) {
            int d = k < len - padding ? digit(text[k]) : 0;
            if (d < 0) return false;
            group = group << 6 | (uint32_t)d;
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            out[n++] = (uint8_t)(group >> shift);
    }
    *out_len = n - padding;
    return true;
}

/* ---- the trie -------------------------------------------------------------------------------- */

/* A unit holds the label of the edge that leads to it, the offset to its children, and whether one
 * of these is a leaf; the unit of a leaf holds the value. */
static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static uint32_t label_of(uint32_t unit)
{
    return unit & (1U << 31 | 0xFF);
}

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1U << 9) >> 6);
}

static bool get_unit(const struct sp_charsmap *map, uint32_t at, uint32_t *unit)
{
    if (at >= map->n_units) return false;
    *unit = sp_get32(map->units + 4 * (size_t)at);
    return true;
}

bool sp_charsmap_find(const struct sp_charsmap *map, const char *text, size_t len,
                      const char **replacement, size_t *replacement_len)
{
    uint32_t unit, at = 0;

    if (!get_unit(map, 0, &unit)) return false;
    at ^= offset_of(unit);
    for (size_t i = 0; i < len && text[i]; i++) {
        at ^= (uint8_t)text[i];
        if (!get_unit(map, at, &unit) || label_of(unit) != (uint8_t)text[i]) return false;
        at ^= offset_of(unit);
        if (!has_leaf(unit)) continue;
        if (!get_unit(map, at, &unit)) return false;
        size_t begin = unit & ~(1U << 31);
        const char *end =
            begin < map->texts_len ? memchr(map->texts + begin, 0, map->texts_len - begin) : NULL;
        if (end == NULL || ((uint8_t)map->texts[begin] & 0xC0) == 0x80) return false;
        *replacement = map->texts + begin;
        *replacement_len = (size_t)(end - *replacement);
        return true;
    }
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

enum sp_status sp_charsmap_open(struct sp_charsmap **out, const char *base64, size_t len,
                                struct sp_err *err)
{
    struct sp_charsmap *map = NULL;
    size_t size = 0, trie;
    enum sp_status st;

    if ((st = sp_new(&map, 1, sizeof *map, err))) return st;
    if ((st = sp_new(&map->bytes, len / 4 * 3 + 1, 1, err))) goto done;
    if (!sp_base64_decode(map->bytes, &size, base64, len) || size < 4) {
        st = sp_fail(err, SP_E_INPUT, "precompiled_charsmap is not base64 of a character map");
        goto done;
    }
    trie = sp_get32(map->bytes);
    if (trie > size - 4 || trie % 4) {
        st = sp_fail(err, SP_E_INPUT, "precompiled_charsmap: a trie of %zu bytes in %zu bytes",
                     trie, size);
        goto done;
    }
    map->units = map->bytes + 4;
    map->n_units = trie / 4;
    map->texts = (const char *)map->units + trie;
    map->texts_len = size - 4 - trie;
    if (sp_utf8_valid(map->texts, map->texts_len) != map->texts_len) {
        st = sp_fail(err, SP_E_INPUT, "precompiled_charsmap: a replacement is not valid UTF-8");
        goto done;
    }
    *out = map;
    map = NULL;
done:
    sp_charsmap_close(map);
    return st;
}

void sp_charsmap_close(struct sp_charsmap *map)
{
    if (map == NULL) return;
    free(map->bytes);
    free(map);
}
