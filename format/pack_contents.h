/* The contents of a packed file: its parts, its kinds of sections, and the entries of its
 * directory, as the reader returns them and as the layout encodes them. */
#ifndef SP_FORMAT_PACK_CONTENTS_H
#define SP_FORMAT_PACK_CONTENTS_H

#include "format/base/err.h"
#include "format/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { SP_PACK_MAJOR = 1, SP_PACK_MINOR = 5 };

/* The minor version that introduced a type, or (sp_pack_section_minor) a kind of section. A file
 * has the highest minor version of its tensors' types and its sections, so that a file without new
 * ones is readable by older programs. */
static inline unsigned sp_pack_minor_of(enum sp_dtype dtype)
{
    return dtype >= SP_I4G32 ? 4 : dtype >= SP_Q2 ? 1 : 0;
}

/* The part that a tensor or section belongs to. */
enum sp_part { SP_PART_FILE = 0, SP_PART_TARGET = 1, SP_PART_DRAFT = 2 };

enum sp_section {
    SP_SECTION_MODELFILE = 1,  /* FILE: the records, byte for byte as written */
    SP_SECTION_PAIRING = 2,    /* FILE: JSON; draft kind, resolved fields, digests of the pair */
    SP_SECTION_CONFIG = 3,     /* per part: config.json as read */
    SP_SECTION_GENERATION = 4, /* per part: generation_config.json as read */
    SP_SECTION_TOKENIZER = 5,  /* per part: tokenizer.json as read */
    SP_SECTION_TOKENIZER_CONFIG = 6, /* per part: tokenizer_config.json as read */
    SP_SECTION_TEMPLATE = 7,         /* per part: chat_template.jinja as read */
    SP_SECTION_TOKENIZER_MAP = 8,    /* per part: compiled tokenizer, stored uncompressed, mapped */
    SP_SECTION_CALIBRATION = 9,      /* FILE: JSON; makes the file a calibration, no model */
    SP_SECTION_ADAPTERS = 10,        /* TARGET: JSON; what was merged into its weights */
    SP_SECTION_POOLING = 11,         /* TARGET: JSON; how embeddings are made (pooling.h) */
    SP_SECTION_RECEIPTS = 12,        /* FILE: JSON; why its types (receipts.h) */
    SP_SECTION_SMOOTHING = 13,       /* TARGET: JSON; how its matrices were scaled (smoothing.h) */
    SP_SECTION_CACHES = 14, /* TARGET: JSON; what types of its caches cost (cache_divergence.h) */
    SP_N_SECTIONS = 15,
};

static inline unsigned sp_pack_section_minor(enum sp_section section)
{
    switch (section) {
    case SP_SECTION_RECEIPTS:
        return 2;
    case SP_SECTION_SMOOTHING:
        return 3;
    case SP_SECTION_CACHES:
        return 5;
    default:
        return 0;
    }
}

const char *sp_section_name(enum sp_section section); /* "config.json", ... static */
const char *sp_part_name(enum sp_part part);          /* "file", "target", "draft" */

struct sp_pack_tensor {
    const char *name; /* NUL-terminated, borrowed from the pack */
    enum sp_part part;
    enum sp_dtype dtype;
    enum sp_layout layout;
    unsigned rank;
    uint64_t shape[4];
    uint64_t size;       /* bytes */
    uint64_t digest;     /* XXH3-64 of the bytes */
    const uint8_t *data; /* mapped, 64-byte aligned, borrowed from the pack */
};

/* The number of matrices in a stack; 1 for a tensor of rank 1 or 2. */
static inline size_t sp_pack_tensor_n_matrices(const struct sp_pack_tensor *t)
{
    return t->rank > 2 ? (size_t)sp_n_elements(t->shape, t->rank - 2) : 1;
}

/* The digests of a file's parts. */
struct sp_part_digests {
    uint64_t target, draft;
};

struct sp_pack_section {
    enum sp_section kind;
    enum sp_part part;
    bool compressed;
    uint64_t size;   /* bytes of the content */
    uint64_t stored; /* bytes in the file */
    uint64_t digest; /* XXH3-64 of the stored bytes */
    const uint8_t *data;
};

#endif
