/* The packed file: open, check, iterate, find. The format is defined in man/spectool-pack.5.
 *
 * sp_pack_open trusts nothing: header and directory digests, every range inside the file, no
 * overlap and no hole, sorted unique names, type x shape = size, alignment, reserved bytes zero.
 * Everything after that may rely on it. Payload digests are checked by sp_pack_check (`spectool
 * verify`). Tensor data is mapped and used in place; text sections are decompressed on request. */
#ifndef SP_FORMAT_PACKFILE_H
#define SP_FORMAT_PACKFILE_H

#include "format/dtype.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"

struct sp_atomic_file;
struct sp_pack; /* opaque */

/* *is_pack = true if the file begins as packed files do. SP_E_IO: it cannot be read. */
SP_MUST_CHECK enum sp_status sp_pack_recognize(bool *is_pack, const char *path, struct sp_err *err);
/* The same; false if it cannot be read, too. */
bool sp_pack_is_file(const char *path);
SP_MUST_CHECK enum sp_status sp_pack_open(struct sp_pack **out, const char *path,
                                          struct sp_err *err);
/* Opens a packed file in memory. `bytes` are borrowed until close, and 64-byte aligned if tensors
 * are to be used. `name` is the path in messages. */
SP_MUST_CHECK enum sp_status sp_pack_open_bytes(struct sp_pack **out, const void *bytes,
                                                size_t size, const char *name, struct sp_err *err);
void sp_pack_close(struct sp_pack *pack); /* NULL is fine */

/* True for the file of `spectool calibrate`, which holds no model. */
bool sp_pack_is_calibration(const struct sp_pack *pack);
/* SP_E_INPUT says what to do with the file if it is a calibration. */
SP_MUST_CHECK enum sp_status sp_pack_expect_model(const struct sp_pack *pack, struct sp_err *err);

/* SP_E_IO if the file was cut short while it was read, which format/system/file_guard.h notices.
 * [any thread] */
SP_MUST_CHECK enum sp_status sp_pack_check(const struct sp_pack *pack, struct sp_err *err);

const char *sp_pack_path(const struct sp_pack *pack);
uint64_t sp_pack_size(const struct sp_pack *pack);        /* bytes of the file */
const uint8_t *sp_pack_bytes(const struct sp_pack *pack); /* [size], borrowed until close */
uint64_t
sp_pack_identity(const struct sp_pack *pack); /* digest of the directory: names the content */

/* Lets the bytes of the file that are written to `output` be copied by the system. */
void sp_pack_copied_by(const struct sp_pack *pack, struct sp_atomic_file *output);

size_t sp_pack_n_tensors(const struct sp_pack *pack);
const struct sp_pack_tensor *sp_pack_tensor(const struct sp_pack *pack, size_t i); /* file order */
/* Finds a tensor by binary search; returns NULL if the file has no such tensor. */
const struct sp_pack_tensor *sp_pack_find(const struct sp_pack *pack, enum sp_part part,
                                          const char *name);

size_t sp_pack_n_sections(const struct sp_pack *pack);
const struct sp_pack_section *sp_pack_section(const struct sp_pack *pack, size_t i);
const struct sp_pack_section *sp_pack_find_section(const struct sp_pack *pack, enum sp_part part,
                                                   enum sp_section kind);

/* Reads the text of a section: checks its digest and decompresses it. A missing section is a text
 * that is none. */
SP_MUST_CHECK enum sp_status sp_pack_read_section(const struct sp_pack *pack, enum sp_part part,
                                                  enum sp_section kind, struct sp_text *text,
                                                  struct sp_err *err);

/* Name the tensors of each part, their types, shapes and bytes; recorded in the pairing section. */
SP_MUST_CHECK enum sp_status sp_pack_part_digests(struct sp_part_digests *out,
                                                  const struct sp_pack *pack, struct sp_err *err);

/* Checks the digest of tensor i, or section i, against the bytes, and that the padding before it is
 * zero; names it on mismatch (SP_E_INPUT). The memory of a tensor's mapped bytes is released as
 * they are read. */
SP_MUST_CHECK enum sp_status sp_pack_check_tensor(const struct sp_pack *pack, size_t i,
                                                  struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_pack_check_section(const struct sp_pack *pack, size_t i,
                                                   struct sp_err *err);

#endif
