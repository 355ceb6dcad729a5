/* Tokenizers for tests: compiled from tokenizer.json text and opened. Failures end the test. */
#ifndef SP_TESTS_SUPPORT_TOKENIZER_CASES_H
#define SP_TESTS_SUPPORT_TOKENIZER_CASES_H

#include "format/base/json.h"
#include "runtime/tokenizer/tokenizer.h"

struct tokenizer_case {
    struct sp_tokenizer *tok;
    uint8_t *blob;
    size_t blob_size;
};

/* config: text of tokenizer_config.json or NULL. */
void tokenizer_case_open(struct tokenizer_case *t, const char *json, size_t size,
                         const char *config);
void tokenizer_case_close(struct tokenizer_case *t);

/* Token ids of a JSON array; free() them. */
uint32_t *ids_of_json(const struct sp_json *array, size_t *n);

/* Encodes and compares; `where` stands in front of a failure. */
void expect_ids(const struct tokenizer_case *t, const char *where, const char *text, size_t size,
                unsigned flags, const uint32_t *ids, size_t n);

/* Decodes at once and compares; then id by id: every part is valid UTF-8. same_stream: the parts
 * are the same text, too. */
void expect_text(const struct tokenizer_case *t, const char *where, const uint32_t *ids, size_t n,
                 bool skip_special, const char *text, size_t size, bool same_stream);

/* A line of a file of JSON lines, 0 terminated; NULL at the end. *text moves on and is changed. */
char *next_line(char **text);

/* The whole file, NUL-terminated; NULL when it is absent. free() it. */
char *read_file(const char *path, size_t *size);
/* The same for a zstd frame with `size` bytes of content. */
char *read_zstd(const char *path, size_t size);

#endif
