/* Fuzzes tokenizers. The input is a tokenizer.json or a compiled block (which begins with its magic
 * and states its size), then a zero byte after JSON, then the text to encode. Ids must be in range,
 * and decoded text must be valid UTF-8, decoded at once and as a stream. */
#include "format/tokenizer/tokmap.h"
#include "format/base/unicode.h"
#include "format/tokenizer/tokmap_write.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/spectool.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds)
{
    if (!holds) abort();
}

static void stream(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n)
{
    struct sp_detokenizer *detok = NULL;
    const char *text;
    size_t size;

    if (sp_detokenizer_open(&detok, tok, false, NULL)) return;
    for (size_t i = 0; i <= n; i++) {
        enum sp_status st = i < n ? sp_detokenizer_feed(detok, ids[i], &text, &size, NULL)
                                  : sp_detokenizer_flush(detok, &text, &size, NULL);
        if (st) break;
        check(sp_utf8_valid(text, size) == size);
    }
    sp_detokenizer_close(detok);
}

static void decode(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n)
{
    char *text = NULL;
    size_t size;

    for (int skip = 0; skip < 2; skip++) {
        if (sp_tokenizer_decode(tok, ids, n, skip, &text, &size, NULL)) continue;
        check(sp_utf8_valid(text, size) == size && text[size] == '\0');
        free(text);
    }
    stream(tok, ids, n);
}

static void use(const uint8_t *blob, size_t blob_size, const char *text, size_t size)
{
    struct sp_tokenizer *tok = NULL;
    uint32_t *ids = NULL, few[64];
    size_t n;

    if (sp_tokenizer_open(&tok, blob, blob_size, NULL)) return;
    for (unsigned flags = 0; flags < 4; flags++) {
        if (sp_tokenizer_encode(tok, text, size, flags, &ids, &n, NULL)) continue;
        for (size_t i = 0; i < n; i++)
            check(ids[i] < sp_tokenizer_n_ids(tok));
        if (flags == 3) decode(tok, ids, n);
        free(ids);
    }
    for (uint32_t i = 0; i < 64; i++)
        few[i] = i * 5;
    decode(tok, few, 64);
    (void)sp_tokenizer_find(tok, text, size < 40 ? size : 40);
    sp_tokenizer_close(tok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *blob = NULL;
    size_t blob_size, json_size;
    const char *bytes = (const char *)data;

    if (size >= 24 && memcmp(data, sp_tokmap_magic, 8) == 0) {
        blob_size = sp_get64(data + 16) < size ? (size_t)sp_get64(data + 16) : size;
        size_t len = sp_utf8_valid(bytes + blob_size, size - blob_size);
        use(data, blob_size, bytes + blob_size, len);
        return 0;
    }
    const char *zero = size ? memchr(bytes, '\0', size) : NULL;
    json_size = zero ? (size_t)(zero - bytes) : size;
    size_t begin = zero ? json_size + 1 : size;
    size_t len = sp_utf8_valid(bytes + begin, size - begin);
    const struct sp_text json = {(char *)(uintptr_t)bytes, json_size}, none = {0};
    if (sp_vocab_compile(&blob, &blob_size, &json, &none, NULL, NULL)) return 0;
    use(blob, blob_size, bytes + begin, len);
    free(blob);
    return 0;
}
