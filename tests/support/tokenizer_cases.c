
#include "tests/support/tokenizer_cases.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"
#include "format/base/compress.h"
#include "format/base/file.h"
#include "format/base/unicode.h"
#include "format/tokenizer/tokmap_write.h"
#include "runtime/tokenizer/tokenizer.h"

static void close_tokenizer(void *tokenizer)
{
    sp_tokenizer_close(tokenizer);
}

void tokenizer_case_open(struct tokenizer_case *t, const char *json, size_t size,
                         const char *config)
{
    const struct sp_text texts[] = {{(char *)(uintptr_t)json, size}, whole_text(config)};

    memset(t, 0, sizeof *t);
    assert_ok(sp_vocab_compile(&t->blob, &t->blob_size, &texts[0], &texts[1], NULL, why));
    assert_ok(sp_tokenizer_open(&t->tok, keep(t->blob), t->blob_size, why));
    keep_with(t->tok, close_tokenizer);
}

/* Fails the test at the first difference, which the message names. */
static void compare_ids(const char *where, const uint32_t *found, size_t n_found,
                        const uint32_t *wanted, size_t n_wanted)
{
    for (size_t i = 0; i < n_found || i < n_wanted; i++) {
        if (i < n_found && i < n_wanted && found[i] == wanted[i]) continue;
        fail_msg("%s: id %zu is %lld of %zu, expected %lld of %zu", where, i,
                 i < n_found ? (long long)found[i] : -1, n_found,
                 i < n_wanted ? (long long)wanted[i] : -1, n_wanted);
    }
}

void expect_ids(const struct tokenizer_case *t, const char *where, const char *text, size_t size,
                unsigned flags, const uint32_t *ids, size_t n)
{
    uint32_t *found = NULL;
    size_t n_found;

    assert_case_ok(where, sp_tokenizer_encode(t->tok, text, size, flags, &found, &n_found, why));
    compare_ids(where, found, n_found, ids, n);
    free(found);
}

/* Joins the decoded parts of a stream and checks that each is valid UTF-8. */
static char *stream(const struct tokenizer_case *t, const char *where, const uint32_t *ids,
                    size_t n, bool skip_special, size_t *size)
{
    struct sp_detokenizer *detok = NULL;
    size_t room = 1, part_size;
    char *all = malloc(room);
    const char *part;

    *size = 0;
    assert_non_null(all);
    assert_ok(sp_detokenizer_open(&detok, t->tok, skip_special, why));
    for (size_t i = 0; i <= n; i++) {
        assert_case_ok(where, i < n ? sp_detokenizer_feed(detok, ids[i], &part, &part_size, why)
                                    : sp_detokenizer_flush(detok, &part, &part_size, why));
        if (sp_utf8_valid(part, part_size) != part_size)
            fail_msg("%s: part %zu of the stream is not valid UTF-8", where, i);
        all = realloc(all, room += part_size);
        assert_non_null(all);
        memcpy(all + *size, part, part_size);
        *size += part_size;
    }
    sp_detokenizer_close(detok);
    return all;
}

void expect_text(const struct tokenizer_case *t, const char *where, const uint32_t *ids, size_t n,
                 bool skip_special, const char *text, size_t size, bool same_stream)
{
    char *found = NULL, *streamed;
    size_t found_size, streamed_size;

    assert_case_ok(where,
                   sp_tokenizer_decode(t->tok, ids, n, skip_special, &found, &found_size, why));
    if (found_size != size || memcmp(found, text, size) != 0)
        fail_msg("%s: \"%s\", expected \"%s\"", where, found, text);
    streamed = stream(t, where, ids, n, skip_special, &streamed_size);
    if (same_stream && (streamed_size != size || memcmp(streamed, text, size) != 0)) {
        fail_msg("%s: streamed \"%.*s\", expected \"%s\"", where, (int)streamed_size, streamed,
                 text);
    }
    free(streamed);
    free(found);
}

char *read_zstd(const char *path, size_t size)
{
    size_t frame_size;
    char *frame = golden_file(path, &frame_size), *content;

    if (frame == NULL) return NULL;
    content = keep(malloc(size + 1));
    assert_non_null(content);
    assert_case_ok(path, sp_decompress(content, size, (const uint8_t *)frame, frame_size, why));
    content[size] = '\0';
    return content;
}
