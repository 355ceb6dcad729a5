/* The messages between ranks that compute products (runtime/model/remote_products.h).
 *
 * A message is a struct sp_remote_head, the products, the groups of rows, and then the activations
 * of all rows: codes and scales, or floats, or both, as the weights need them. Ranks are processes
 * of one version of the program, so the structs are sent as they are in memory. */
#ifndef SP_RUNTIME_MODEL_REMOTE_MESSAGE_H
#define SP_RUNTIME_MODEL_REMOTE_MESSAGE_H

#include "runtime/model/product_job.h"

#include <stdint.h>

enum { SP_REMOTE_ALIGNMENT = 64 };

/* The first 32 bits of every message. The bytes of an echo begin at SP_REMOTE_ALIGNMENT. */
enum sp_message_kind {
    SP_MESSAGE_PRODUCTS = 1,
    SP_MESSAGE_ECHO,
    SP_MESSAGE_OPEN,
    SP_MESSAGE_CLOSE
};

struct sp_remote_head {
    uint32_t kind; /* SP_MESSAGE_PRODUCTS */
    uint32_t n_products, n_groups;
    uint64_t n_rows, cols;
    uint32_t has_codes, has_floats;
};

struct sp_remote_product {
    uint64_t panels; /* place in the file */
    uint64_t rows, n_panels, panel_size;
    uint32_t dtype;
    uint32_t is_gated, is_coded; /* by the sender of the answer */
    uint32_t activation;
    float limit;
};

/* The places of the parts of a message. */
struct sp_remote_layout {
    size_t products, groups, codes, scales, floats, size;
};
struct sp_remote_layout sp_remote_layout_of(const struct sp_remote_head *head);

/* The places of a job's results in an answer: [n_out_rows][16 * n] floats of each product's slice,
 * or as many codes and their scales. Products that only make factors for a gate come last and are
 * not sent. */
struct sp_remote_answer {
    size_t places[SP_MAX_PRODUCTS], scales[SP_MAX_PRODUCTS];
    size_t size, total; /* bytes that are sent; with the factors */
};
struct sp_remote_answer sp_remote_answer_of(const struct sp_product_job *job);

/* Sets the slices of a job to the part of a rank. */
void sp_remote_slice(struct sp_product_job *job, unsigned rank, unsigned n_ranks);

#endif
