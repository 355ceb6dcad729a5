/* Where every byte of a packed file is: shared by the reader (packfile.c) and the writer
 * (packfile_write.c), and by nobody else. The prose is man/spectool-pack.5.
 *
 * The layout is canonical. Which tensors and sections there are fixes every offset, so the reader
 * does not look for overlaps and holes: it computes where each thing must be and insists on it.
 *
 *   0        header, 128 bytes, then zeros to 4096
 *   4096     target tensors, by name; the first at a multiple of 4096, the others of 64
 *            draft tensors, likewise
 *            sections, by part and kind, likewise
 *            directory, at a multiple of 64; the file ends with it
 *   Gaps are zero bytes. All numbers are little-endian. Digests are XXH3-64, seed 0.
 *
 *   header                              tensor entry                     section entry
 *    0   8  magic                        0  2  bytes of the name          0  2  kind
 *    8   2  major version                2  1  part                       2  1  part
 *   10   2  minor version                3  1  dtype                      3  1  0 as is, 1 zstd
 *   12   4  bytes of the header, 128     4  1  layout                     4  4  0
 *   16   8  bytes of the file            5  1  rank                       8  8  offset
 *   24   8  offset of the directory      6  2  0                         16  8  bytes in the file
 *   32   8  bytes of the directory       8 32  shape, 4 x 8, unused: 0   24  8  bytes of content
 *   40   8  digest of the directory     40  8  offset                    32  8  digest
 *   48   4  number of tensors           48  8  bytes
 *   52   4  number of sections          56  8  digest
 *   56   4  bytes of the names
 *   60  60  0                           directory: the tensor entries, the section entries, and
 *  120   8  digest of bytes 0..119      the names in the tensors' order, a zero byte after each */
#ifndef SP_FORMAT_PACKFILE_LAYOUT_H
#define SP_FORMAT_PACKFILE_LAYOUT_H

#include "format/pack_contents.h"

enum {
    SP_PACK_HEADER_SIZE = 128,
    SP_PACK_HEADER_DIGESTED = 120, /* bytes that the header's digest covers */
    SP_PACK_TENSOR_ENTRY = 64,
    SP_PACK_SECTION_ENTRY = 40,
    SP_PACK_PAGE = 4096,
    SP_PACK_ALIGN = 64,
    SP_PACK_MAX_NAME = 255,
    SP_PACK_MAX_RANK = 4,
};

extern const uint8_t sp_pack_magic[8];

struct sp_pack_header {
    unsigned major, minor;
    uint64_t file_size;
    uint64_t directory_offset;
    uint64_t directory_size;
    uint64_t directory_digest;
    uint32_t n_tensors, n_sections, names_size;
};

/* Writes all 128 bytes, the digest included. */
void sp_pack_put_header(uint8_t *p, const struct sp_pack_header *header);

/* Reads the header and checks what it alone determines; `size` is the file's. */
SP_MUST_CHECK enum sp_status sp_pack_get_header(struct sp_pack_header *out, const uint8_t *bytes,
                                                uint64_t size, struct sp_err *err);

/* Orders tensors, or structs that begin with one: by part, then by name. */
int sp_pack_tensor_compare(const void *a, const void *b);

/* Writes an entry. offset and name_size are passed beside the entry's own fields; data is not
 * read. */
void sp_pack_put_tensor(uint8_t *p, const struct sp_pack_tensor *t, uint64_t offset);
SP_MUST_CHECK enum sp_status sp_pack_get_tensor(struct sp_pack_tensor *out, uint64_t *offset,
                                                size_t *name_size, const uint8_t *p,
                                                struct sp_err *err);
void sp_pack_put_section(uint8_t *p, const struct sp_pack_section *s, uint64_t offset);
SP_MUST_CHECK enum sp_status sp_pack_get_section(struct sp_pack_section *out, uint64_t *offset,
                                                 const uint8_t *p, struct sp_err *err);

/* Returns true for 1..255 bytes of valid UTF-8 without control characters. */
bool sp_pack_name_valid(const char *name, size_t size);

/* Most bytes of the content of a section of this kind, and most bytes of content for that many
 * stored ones: a small file must not make a reader allocate without bound. */
uint64_t sp_pack_section_limit(enum sp_section kind);
uint64_t sp_pack_content_limit(uint64_t stored);

/* Returns true if a section of this kind may belong to this part. */
bool sp_pack_section_valid(enum sp_section kind, enum sp_part part);

/* Where the thing after byte `end` begins: on a fresh page when it is the first of its region. */
bool sp_pack_next_offset(uint64_t *out, uint64_t end, bool first);

/* Digests of each part's tensors, from their names and digests, in order (spectool-pack(5)). */
SP_MUST_CHECK enum sp_status sp_pack_digest_parts(struct sp_part_digests *out,
                                                  const struct sp_pack_tensor *tensors, size_t n,
                                                  struct sp_err *err);

#endif
