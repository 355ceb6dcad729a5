/* A packed file again, with another section of one kind: tensors and all other sections keep their
 * bytes. */
#ifndef SP_FORMAT_PACKFILE_COPY_H
#define SP_FORMAT_PACKFILE_COPY_H

#include "format/packfile.h"

/* The section to put into the copy, in place of that of its part and kind if there is one. */
struct sp_pack_new_section {
    enum sp_part part;
    enum sp_section kind;
    const void *content; /* [size], borrowed; NULL: the copy has no such section */
    size_t size;
    void *context;
    int (*progress)(void *context, uint64_t done, uint64_t total); /* in bytes; nonzero: stop */
};

/* Writes the copy to `path`, which is replaced atomically, and may be the file of `pack`. All
 * digests are checked (SP_E_INPUT). SP_E_CHECK "interrupted": the callback stopped. */
SP_MUST_CHECK enum sp_status sp_pack_copy_with(const char *path, const struct sp_pack *pack,
                                               const struct sp_pack_new_section *section,
                                               struct sp_err *err);

#endif
