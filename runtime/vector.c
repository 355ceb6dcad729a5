/* Sizes of stored keys and values, and the choice of a table by name. */
#include "runtime/vector.h"

#include "format/mem.h"
#include "runtime/vector_tables.h"

#include <string.h>

size_t sp_key_block_size(enum sp_kv_type type, size_t head_dim)
{
    size_t size = 0;

    switch (type) {
    case SP_KV_F32:
        size = head_dim * SP_KV_BLOCK * sizeof(float);
        break;
    case SP_KV_F16:
        size = head_dim * SP_KV_BLOCK * sizeof(uint16_t);
        break;
    case SP_KV_Q8:
        size = (head_dim + head_dim / SP_KV_GROUP * sizeof(float)) * SP_KV_BLOCK;
        break;
    case SP_N_KV_TYPES:
        break;
    }
    return sp_round_up(size, 64);
}

size_t sp_value_block_size(enum sp_kv_type type, size_t head_dim)
{
    switch (type) {
    case SP_KV_F32:
        return head_dim * SP_KV_BLOCK * sizeof(float);
    case SP_KV_F16:
        return head_dim * SP_KV_BLOCK * sizeof(uint16_t);
    case SP_KV_Q8:
        return (head_dim + sizeof(float)) * SP_KV_BLOCK;
    case SP_N_KV_TYPES:
        break;
    }
    return 0;
}

size_t sp_query_size(size_t head_dim)
{
    return sp_round_up(head_dim * sizeof(float), 64);
}

const struct sp_vector *sp_vector_find(const char *kernels_name)
{
#if defined(__x86_64__)
    if (strcmp(kernels_name, sp_vector_avx512.name) == 0) return &sp_vector_avx512;
    if (strcmp(kernels_name, "avxvnni") == 0) return &sp_vector_avx2;
    if (strcmp(kernels_name, sp_vector_avx2.name) == 0) return &sp_vector_avx2;
#endif
    if (strcmp(kernels_name, sp_vector_ref.name) == 0) return &sp_vector_ref;
    return NULL;
}
