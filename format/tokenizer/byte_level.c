#include "format/tokenizer/byte_level.h"

#include "format/base/unicode.h"

static bool prints(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The character that spells a byte, below 0x180. The bytes that do not print are 00-20, 7F-A0 and
 * AD: 33, 34 and 1. */
static uint32_t char_of_byte(uint8_t byte)
{
    if (prints(byte)) return byte;
    if (byte <= 0x20) return 0x100U + byte;
    if (byte <= 0xA0) return 0x100U + 33 + (byte - 0x7FU);
    return 0x100 + 67;
}

/* The byte that a character spells; -1: it is not in the alphabet. */
static int byte_of_char(uint32_t c)
{
    if (c < 0x100) return prints(c) ? (int)c : -1;
    c -= 0x100;
    if (c <= 0x20) return (int)c;
    if (c < 67) return (int)c - 33 + 0x7F;
    return c == 67 ? 0xAD : -1;
}

bool sp_byte_level_decode(char *out, size_t *n, const char *text, size_t len)
{
    size_t written = 0;

    for (size_t i = 0; i < len;) {
        int byte = byte_of_char(sp_utf8_next(text, len, &i));
        if (byte < 0) return false;
        out[written++] = (char)byte;
    }
    *n = written;
    return true;
}

size_t sp_byte_level_encode(char *out, const char *bytes, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += sp_utf8_put(out + n, char_of_byte((uint8_t)bytes[i]));
    return n;
}
