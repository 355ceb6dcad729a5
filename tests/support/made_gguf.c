#include "tests/support/made_gguf.h"
#include "format/base/bytes.h"
#include "format/gguf.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

void gguf_add_u32(struct made_gguf *m, uint32_t v)
{
    sp_put32(m->bytes + m->size, v);
    m->size += 4;
}

void gguf_add_u64(struct made_gguf *m, uint64_t v)
{
    sp_put64(m->bytes + m->size, v);
    m->size += 8;
}

void gguf_add_string(struct made_gguf *m, const char *text)
{
    gguf_add_u64(m, strlen(text));
    memcpy(m->bytes + m->size, text, strlen(text));
    m->size += strlen(text);
}

void gguf_begin(struct made_gguf *m)
{
    m->size = 24;
    m->n_tensors = m->n_values = 0;
}

void gguf_value_u32(struct made_gguf *m, const char *key, uint32_t v)
{
    gguf_add_string(m, key);
    gguf_add_u32(m, SP_GGUF_U32);
    gguf_add_u32(m, v);
    m->n_values++;
}

void gguf_value_float(struct made_gguf *m, const char *key, float v)
{
    gguf_add_string(m, key);
    gguf_add_u32(m, SP_GGUF_F32);
    gguf_add_u32(m, sp_bits_of_float(v));
    m->n_values++;
}

void gguf_value_string(struct made_gguf *m, const char *key, const char *v)
{
    gguf_add_string(m, key);
    gguf_add_u32(m, SP_GGUF_STRING);
    gguf_add_string(m, v);
    m->n_values++;
}

void gguf_tensor(struct made_gguf *m, const char *name, uint64_t cols, uint64_t rows, uint32_t type,
                 uint64_t offset)
{
    gguf_add_string(m, name);
    gguf_add_u32(m, rows ? 2 : 1);
    gguf_add_u64(m, cols);
    if (rows) gguf_add_u64(m, rows);
    gguf_add_u32(m, type);
    gguf_add_u64(m, offset);
    m->n_tensors++;
}

const char *gguf_write(struct made_gguf *m, const char *name, size_t data)
{
    static char path[512];

    memcpy(m->bytes, "GGUF", 4);
    sp_put32(m->bytes + 4, 3);
    sp_put64(m->bytes + 8, m->n_tensors);
    sp_put64(m->bytes + 16, m->n_values);
    while (m->size % 32)
        m->bytes[m->size++] = 0;
    assert_true(m->size + data <= sizeof m->bytes);
    memset(m->bytes + m->size, 0, data);
    snprintf(path, sizeof path, "%s", scratch_write(name, m->bytes, m->size + data));
    return path;
}
