/* Compiles, opens and checks tokenizers from tokenizer.json text. Failures end the test. */
#ifndef SP_TESTS_SUPPORT_TOKENIZER_CASES_H
#define SP_TESTS_SUPPORT_TOKENIZER_CASES_H

#include "format/json/json.h"
#include "runtime/tokenizer/tokenizer.h"

struct tokenizer_case {
    struct sp_tokenizer *tok;
    uint8_t *blob;
    size_t blob_size;
};

/* config: text of tokenizer_config.json; may be NULL. What it opens is kept (keep.h). */
void tokenizer_case_open(struct tokenizer_case *t, const char *json, size_t size,
                         const char *config);

/* Encodes the text and compares the ids. `where` begins the failure message. */
void expect_ids(const struct tokenizer_case *t, const char *where, const char *text, size_t size,
                unsigned flags, const uint32_t *ids, size_t n);

/* Decodes all ids at once and compares the text, then decodes id by id and checks that every part
 * is valid UTF-8. same_stream: the joined parts must equal the text too. */
void expect_text(const struct tokenizer_case *t, const char *where, const uint32_t *ids, size_t n,
                 bool skip_special, const char *text, size_t size, bool same_stream);

/* Returns the content of a zstd file, which has `size` bytes; kept. NULL if it does not
 * exist. */
char *read_zstd(const char *path, size_t size);

#endif
