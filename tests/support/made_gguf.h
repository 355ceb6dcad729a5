/* Small GGUF files, made value by value and tensor by tensor: values first. */
#ifndef SP_TESTS_SUPPORT_MADE_GGUF_H
#define SP_TESTS_SUPPORT_MADE_GGUF_H

#include <stddef.h>
#include <stdint.h>

struct made_gguf {
    uint8_t bytes[8192];
    size_t size;
    uint64_t n_tensors, n_values;
};

void gguf_begin(struct made_gguf *m);

/* Parts of a value, in front of which the caller counts it in n_values. */
void gguf_add_u32(struct made_gguf *m, uint32_t v);
void gguf_add_u64(struct made_gguf *m, uint64_t v);
void gguf_add_string(struct made_gguf *m, const char *text);

void gguf_value_u32(struct made_gguf *m, const char *key, uint32_t v);
void gguf_value_float(struct made_gguf *m, const char *key, float v);
void gguf_value_string(struct made_gguf *m, const char *key, const char *v);

/* rows 0: a vector. */
void gguf_tensor(struct made_gguf *m, const char *name, uint64_t cols, uint64_t rows, uint32_t type,
                 uint64_t offset);

/* Writes the file with `data` zero bytes behind its header into the scratch folder, and returns its
 * path. */
const char *gguf_write(struct made_gguf *m, const char *name, size_t data);

#endif
