/* Writing a packed file: all sizes are known before the first byte is written.
 *
 *   sp_pack_writer_open     lays the file out from names, types and shapes; creates the temporary
 *   sp_pack_writer_section  content of a section (in any order before finish)
 *   sp_pack_writer_put      bytes of a tensor, ascending offsets per tensor, tensors in any order,
 *                           best in that of the file: then it is written in large, aligned pieces
 *   sp_pack_writer_finish   directory, digests, sync, rename: the file appears whole
 *   sp_pack_writer_close    after finish frees; without finish removes the temporary */
#ifndef SP_FORMAT_PACKFILE_WRITE_H
#define SP_FORMAT_PACKFILE_WRITE_H

#include "format/pack_contents.h"

struct sp_pack;
struct sp_pack_writer; /* opaque */

/* Refuses (SP_E_USAGE, SP_E_IO) an output that sp_pack_writer_open would refuse. */
SP_MUST_CHECK enum sp_status sp_pack_writer_check(const char *path, bool force, struct sp_err *err);

/* tensors: any order; name, part, dtype, layout, rank and shape are read, the rest ignored. Sorted
 * inside by part and name, so the file does not depend on the order given. `force`: an existing
 * packed file is replaced; any other file, and without `force` every file, is refused (SP_E_USAGE)
 * here. `path` NULL: there is no file; sp_pack_writer_measure says how large it would be. */
SP_MUST_CHECK enum sp_status sp_pack_writer_open(struct sp_pack_writer **out, const char *path,
                                                 bool force, const struct sp_pack_tensor *tensors,
                                                 size_t n_tensors, struct sp_err *err);

/* Sections are compressed unless `kind` is mapped (SP_SECTION_TOKENIZER_MAP) or the content would
 * shrink beyond belief. `content` is copied; written at finish. */
SP_MUST_CHECK enum sp_status sp_pack_writer_section(struct sp_pack_writer *w, enum sp_part part,
                                                    enum sp_section kind, const void *content,
                                                    size_t size, struct sp_err *err);

/* Copies a section of another packed file: the stored bytes as they are, their digest checked. */
SP_MUST_CHECK enum sp_status sp_pack_writer_copy_section(struct sp_pack_writer *w,
                                                         enum sp_part part,
                                                         const struct sp_pack_section *section,
                                                         struct sp_err *err);

/* Large parts of tensors that are put as they are mapped by another packed file are copied by the
 * system from now on, without writing where the file system can share them. */
void sp_pack_writer_copies(struct sp_pack_writer *w, const struct sp_pack *source);

/* Appends `size` bytes to tensor `i` (index into the array given to open). One call at a time.
 * Digests run along. */
SP_MUST_CHECK enum sp_status sp_pack_writer_put(struct sp_pack_writer *w, size_t i,
                                                const void *bytes, size_t size, struct sp_err *err);

/* The digests that sp_pack_part_digests will give; all tensors must be complete. */
SP_MUST_CHECK enum sp_status sp_pack_writer_part_digests(struct sp_part_digests *out,
                                                         const struct sp_pack_writer *w,
                                                         struct sp_err *err);

/* *file_size = bytes of the file with the tensors given to open and the sections given so far. */
SP_MUST_CHECK enum sp_status sp_pack_writer_measure(uint64_t *file_size, struct sp_pack_writer *w,
                                                    struct sp_err *err);

/* Fails (SP_E_BUG) when a tensor got more or fewer bytes than its type and shape need. *file_size
 * (may be NULL) = bytes of the finished file. */
SP_MUST_CHECK enum sp_status sp_pack_writer_finish(struct sp_pack_writer *w, uint64_t *file_size,
                                                   struct sp_err *err);

/* Writes an outline in place of finish, with a writer that was opened without a path: a file whose
 * tensors read as zero and have no digests, and take no space where the file system has holes. It
 * replaces the file of that name. */
SP_MUST_CHECK enum sp_status sp_pack_writer_outline(struct sp_pack_writer *w, const char *path,
                                                    struct sp_err *err);
void sp_pack_writer_close(struct sp_pack_writer *w); /* NULL is fine */

#endif
