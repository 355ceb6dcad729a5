/* The packed file: open, check, iterate, find. The format is defined in man/spectool-pack.5.
 *
 * sp_pack_open trusts nothing: header and directory digests, every range inside the file, no
 * overlap and no hole, sorted unique names, type x shape = size, alignment, reserved bytes zero.
 * Everything after that may rely on it. Payload digests are checked by sp_pack_check (`spectool
 * verify`). Tensor data is mapped and used in place; text sections are decompressed on request. */
#ifndef SP_FORMAT_PACKFILE_H
#define SP_FORMAT_PACKFILE_H

#include "format/dtype.h"
#include "format/base/err.h"

enum { SP_PACK_MAJOR = 1, SP_PACK_MINOR = 0 };

/* Whose a tensor or section is. */
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
    SP_N_SECTIONS = 11,
};

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

struct sp_pack_section {
    enum sp_section kind;
    enum sp_part part;
    bool compressed;
    uint64_t size;   /* bytes of the content */
    uint64_t stored; /* bytes in the file */
    uint64_t digest; /* XXH3-64 of the stored bytes */
    const uint8_t *data;
};

struct sp_pack; /* opaque */

SP_MUST_CHECK enum sp_status sp_pack_open(struct sp_pack **out, const char *path,
                                          struct sp_err *err);
/* The same from memory; `bytes` are borrowed until close and 64-byte aligned if tensors are to be
 * used. `name` stands for the path in messages. */
SP_MUST_CHECK enum sp_status sp_pack_open_bytes(struct sp_pack **out, const void *bytes,
                                                size_t size, const char *name, struct sp_err *err);
void sp_pack_close(struct sp_pack *pack); /* NULL is fine */

const char *sp_pack_path(const struct sp_pack *pack);
uint64_t sp_pack_size(const struct sp_pack *pack); /* bytes of the file */
uint64_t
sp_pack_identity(const struct sp_pack *pack); /* digest of the directory: names the content */

size_t sp_pack_n_tensors(const struct sp_pack *pack);
const struct sp_pack_tensor *sp_pack_tensor(const struct sp_pack *pack, size_t i); /* file order */
/* Binary search; NULL if there is none. */
const struct sp_pack_tensor *sp_pack_find(const struct sp_pack *pack, enum sp_part part,
                                          const char *name);

size_t sp_pack_n_sections(const struct sp_pack *pack);
const struct sp_pack_section *sp_pack_section(const struct sp_pack *pack, size_t i);
const struct sp_pack_section *sp_pack_find_section(const struct sp_pack *pack, enum sp_part part,
                                                   enum sp_section kind);

/* Text of a section, decompressed, its digest checked; *text owned by the caller and
 * NUL-terminated. A missing section gives *text = NULL, *size = 0 and SP_OK. */
SP_MUST_CHECK enum sp_status sp_pack_read_section(const struct sp_pack *pack, enum sp_part part,
                                                  enum sp_section kind, char **text, size_t *size,
                                                  struct sp_err *err);

/* Names the tensors of a part, their types, shapes and bytes; recorded in the pairing section. */
SP_MUST_CHECK enum sp_status sp_pack_part_digest(uint64_t *out, const struct sp_pack *pack,
                                                 enum sp_part part, struct sp_err *err);

/* Checks the digest of tensor i, or section i, against the bytes, and that the padding before it is
 * zero; names it on mismatch (SP_E_INPUT). */
SP_MUST_CHECK enum sp_status sp_pack_check_tensor(const struct sp_pack *pack, size_t i,
                                                  struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_pack_check_section(const struct sp_pack *pack, size_t i,
                                                   struct sp_err *err);

#endif
