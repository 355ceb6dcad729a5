/* The messages between ranks that compute products and attention.
 *
 * A message for products is a struct sp_remote_head, the products, the groups of rows, and then the
 * activations of all rows: codes and scales, or floats, or both, as the weights need them. Ranks
 * are processes of one version of the program, so the structs are sent as they are in memory. */
#ifndef SP_RUNTIME_REMOTE_REMOTE_MESSAGE_H
#define SP_RUNTIME_REMOTE_REMOTE_MESSAGE_H

#include "runtime/backend/attention_job.h"
#include "runtime/backend/product_job.h"

#include <stdint.h>

enum { SP_REMOTE_ALIGNMENT = 64 };

/* The first 32 bits of every message. The bytes of an echo begin at SP_REMOTE_ALIGNMENT. */
enum sp_message_kind {
    SP_MESSAGE_PRODUCTS = 1,
    SP_MESSAGE_ECHO,
    SP_MESSAGE_CACHE,
    SP_MESSAGE_ATTENTION,
    SP_MESSAGE_ROW,
    SP_MESSAGE_OPEN,
    SP_MESSAGE_CLOSE
};

/* ---- products ---- */

/* A job that ranks divide, and what they answer with. */
struct sp_remote_job {
    struct sp_product_job job;
    bool is_gated[SP_MAX_PRODUCTS]; /* the answer of this product went through its gate */
    bool is_coded[SP_MAX_PRODUCTS]; /* the answer of this product was quantized */
    /* The number under which ranks keep the rows of the only product, and answer with the order of
     * the largest element of each; 0: they answer with the rows. */
    uint64_t kept;
    /* They answer with the sums of each row's blocks, too; the slices are then whole blocks. */
    bool has_sums;
};

/* Sets the slices of a job to the part of a rank: whole blocks of activations or of logits. */
void sp_remote_slice(struct sp_remote_job *job, unsigned rank, unsigned n_ranks);

struct sp_remote_head {
    uint32_t kind; /* SP_MESSAGE_PRODUCTS */
    uint32_t n_products, n_groups;
    uint8_t has_codes, has_floats, has_sums;
    uint64_t n_rows, cols;
    uint64_t kept;                /* as in struct sp_remote_job */
    float scale, cap;             /* of kept rows, as in struct sp_epilogue */
    uint64_t bias_kept, bias_row; /* the row of earlier results that is their bias; 0: none */
};

struct sp_remote_product {
    uint64_t panels; /* place in the file */
    uint64_t rows, n_panels, panel_size;
    uint32_t dtype;
    uint32_t is_gated, is_coded;
    uint32_t activation;
    float limit, gate_limit;
};

struct sp_remote_parts {
    struct sp_remote_product *products;
    struct sp_row_group *groups;
    struct sp_acts rows; /* without gaps and without starts */
    size_t size;         /* of the message */
};
/* message: which `head` begins; NULL: only the size is set. */
struct sp_remote_parts sp_remote_parts_of(const struct sp_remote_head *head, void *message);

/* Rows of `cols` columns without gaps, as they are in messages and answers. */
struct sp_acts sp_remote_rows_at(void *codes, void *scales, void *floats, size_t cols);
/* Copies the columns of `to`: codes and scales, floats, or both. */
void sp_remote_rows_copy(const struct sp_acts *to, const struct sp_acts *from, size_t n_rows,
                         bool codes, bool floats);

/* The places of a job's results in an answer: [n_out_rows][16 * n] floats of each product's slice,
 * or as many codes and their scales; of kept rows, [n_out_rows] orders of 64 bits and,
 * if they are wanted, the blocks of each as scales. Products that
 * only make factors for a gate come last and are not sent. */
struct sp_remote_answer {
    size_t places[SP_MAX_PRODUCTS], scales[SP_MAX_PRODUCTS];
    size_t size, total; /* bytes that are sent; with the factors */
};
struct sp_remote_answer sp_remote_answer_of(const struct sp_remote_job *job);

/* Prefetches the weights of all slices, and runs the job. */
struct sp_weight_pages;
void sp_remote_job_run(struct sp_product_job *job, struct sp_weight_pages *pages);
/* Sums the blocks of rows of logits y[n_rows][ldy], of which there are n columns. */
void sp_remote_job_sum(const struct sp_backend *backend, struct sp_logits_sum *sums, size_t ld_sums,
                       const float *y, size_t ldy, size_t n, size_t n_rows);

/* Asks for the columns of a kept row, of which the answer is [16 * n] floats of the rank's slice,
 * or for its largest elements, of which the answer is the best first. */
struct sp_remote_row_message {
    uint32_t kind;  /* SP_MESSAGE_ROW */
    uint32_t n_top; /* as many, or all that the slice has, are asked for; 0: all columns are */
    uint64_t kept, row;
};

/* ---- caches and attention ---- */

/* The kv heads of a rank. Rank 0 has as many as any other; ranks may have none. */
struct sp_head_slice {
    unsigned first, n;
};
struct sp_head_slice sp_remote_heads(unsigned n_heads, unsigned rank, unsigned n_ranks);

/* Sets the slices of q, k and v, products 0 to 2 of a job, to those of kv heads first..first+n-1.
 * The rows of a head are whole panels. */
void sp_remote_slice_heads(struct sp_product_job *job, struct sp_head_slice kv_heads,
                           unsigned n_kv_heads);

enum sp_remote_cache_action {
    SP_REMOTE_CACHE_OPEN,
    SP_REMOTE_CACHE_CLOSE,
    SP_REMOTE_CACHE_GROW,   /* to n positions */
    SP_REMOTE_CACHE_SHRINK, /* to n positions */
    SP_REMOTE_CACHE_READ,   /* the keys or values of span n */
    SP_REMOTE_CACHE_WRITE   /* span n, whose bytes of all heads follow the message */
};

/* The answer is a struct sp_remote_status or, to a read, the bytes of the rank's heads. */
struct sp_remote_cache_message {
    uint32_t kind, action; /* SP_MESSAGE_CACHE */
    uint64_t number;       /* of the cache */
    uint64_t n;
    uint32_t is_value;
    struct sp_kv_options options; /* to open: for all heads */
};
enum { SP_REMOTE_CACHE_BYTES = 128 }; /* from the message to the bytes of a write */
_Static_assert(sizeof(struct sp_remote_cache_message) <= SP_REMOTE_CACHE_BYTES, "layout");

struct sp_remote_status {
    uint32_t status; /* enum sp_status */
    char text[SP_ERR_TEXT];
};

/* One layer's attention for the rows of a pass. The sequences, the ranges of the rows, and sinks
 * follow, and then either queries, keys and values, or a message of the products that make them
 * with what struct sp_attention_heads needs: rotations, norms and biases. Sinks, biases, queries,
 * keys and values are those of all heads but the ones of rank 0. A rank answers with the rows of
 * its query heads, without gaps. */
struct sp_remote_attention_head {
    uint32_t kind, n_seqs;        /* SP_MESSAGE_ATTENTION */
    uint32_t stores, attends;     /* writes keys and values; reads them */
    uint32_t n_heads, n_kv_heads; /* of all ranks */
    uint32_t head_dim, has_sinks; /* head_dim: of queries, keys and values */
    uint64_t n_rows;
    float scale, cap;
    uint32_t is_coded; /* the answer has codes and scales in place of floats */
    /* The members that follow describe products; zero if queries, keys and values are sent. */
    uint32_t norm; /* enum sp_qk_norm */
    uint32_t has_q_bias, has_k_bias, has_v_bias, has_norms, has_v_norm, n_rot;
    float eps, limit;
    uint64_t products_size; /* bytes of the message of the products */
};

struct sp_remote_seq {
    uint64_t cache, pos, n;
};

/* The parts of a message, and the numbers of heads in it. */
struct sp_remote_attention_parts {
    struct sp_remote_seq *seqs;
    struct sp_key_range *ranges;
    float *sinks, *q, *k, *v, *cos, *sin, *q_norm, *k_norm, *q_bias, *k_bias, *v_bias;
    uint8_t *products;
    size_t size, n_heads, n_kv_heads;
};
/* message: which `head` begins; NULL: only sizes are set. */
struct sp_remote_attention_parts
sp_remote_attention_parts_of(const struct sp_remote_attention_head *head, unsigned n_ranks,
                             void *message);

/* The places of the parts of an answer with `cols` columns: the rows, or their codes and scales,
 * and memory of the rank that is not sent, for its heads of the products' results. */
struct sp_remote_attended {
    size_t cols, kv_cols, scales, size, q, k, v, total; /* the rows or codes come first */
};
struct sp_remote_attended sp_remote_attended_of(const struct sp_remote_attention_head *head,
                                                unsigned n_kv_heads);

#endif
