/* Files: mapped for reading, read in bounded pieces, and written whole or not at all.
 *
 * Only regular files are read (through symbolic links); a directory, FIFO or device is refused with
 * a sentence and never blocks. Failures of the system are SP_E_IO and name the path. */
#ifndef SP_FORMAT_BASE_FILE_H
#define SP_FORMAT_BASE_FILE_H

#include "format/base/mem.h"

/* True when something is there under this name, readable or not (reading it then says why not). */
bool sp_file_exists(const char *path);
bool sp_file_is_folder(const char *path);

/* *out = "folder/name" ("name" where folder is "" ), owned by the caller. */
SP_MUST_CHECK enum sp_status sp_file_join(char **out, const char *folder, const char *name,
                                          struct sp_err *err);

/* The whole file, mapped read-only. Valid when zeroed (then empty). */
struct sp_mapping {
    const uint8_t *data; /* page-aligned; borrowed until sp_file_unmap; never NULL */
    size_t size;
    int fd; /* open while there are bytes */
};

/* The mapping is shared: if another process shrinks the file while it is mapped, reading it is
 * fatal, unless the guard of file_guard.h was started. */
SP_MUST_CHECK enum sp_status sp_file_map(struct sp_mapping *out, const char *path,
                                         struct sp_err *err);
void sp_file_unmap(struct sp_mapping *mapping); /* zeroes it */
/* Releases the memory of the pages of a mapping from the one where these bytes begin up to the one
 * where they end, which stays. The bytes may be read again. */
void sp_file_unload(const uint8_t *bytes, size_t size);
/* Has the system read the pages of these bytes of a mapping, and no others; does not wait. */
void sp_file_prefetch(const uint8_t *bytes, size_t size);
/* The bytes of a whole mapping that are in memory already; 0: the system does not say. */
uint64_t sp_file_resident(const struct sp_mapping *mapping);
/* How the system reads a page of a mapping that was not prefetched. */
enum sp_paging {
    SP_PAGING_SINGLE, /* alone */
    SP_PAGING_AROUND, /* with some pages around it */
    SP_PAGING_HUGE    /* with megabytes around it, for huge pages: that of a new mapping */
};
/* Sets it for a mapping, all of whose bytes these are. Only a hint. */
void sp_file_set_paging(const uint8_t *bytes, size_t size, enum sp_paging paging);

/* An open file, read at any offset, from any number of threads. */
struct sp_file; /* opaque */

SP_MUST_CHECK enum sp_status sp_file_open(struct sp_file **out, const char *path,
                                          struct sp_err *err);
void sp_file_close(struct sp_file *file); /* NULL is fine */
/* Gives the file's descriptor back: from now on every read opens the file anew, and fails if it is
 * not the same file any more. */
void sp_file_rest(struct sp_file *file);
const char *sp_file_path(const struct sp_file *file); /* as given to open */
uint64_t sp_file_size(const struct sp_file *file);    /* bytes at open */

/* Fills `buffer` with exactly `size` bytes from `offset`; less is an error (the file shrank, or the
 * range is outside of it). */
SP_MUST_CHECK enum sp_status sp_file_read_at(const struct sp_file *file, uint64_t offset,
                                             void *buffer, size_t size, struct sp_err *err);

/* Reads a whole file. Larger than `cap` bytes: SP_E_INPUT. */
SP_MUST_CHECK enum sp_status sp_file_read_text(struct sp_text *text, const char *path, size_t cap,
                                               struct sp_err *err);

/* True if the folder has this file; false also where memory lacks. */
bool sp_file_exists_in(const char *folder, const char *name);
/* The text of a file of the folder; *text stays as it is where there is no such file. */
SP_MUST_CHECK enum sp_status sp_file_read_in(struct sp_text *text, const char *folder,
                                             const char *name, size_t cap, struct sp_err *err);

/* Fills `magic` with the first bytes of a file, with zeros where it is shorter. */
SP_MUST_CHECK enum sp_status sp_file_read_magic(void *magic, size_t size, const char *path,
                                                struct sp_err *err);

/* *out = the folder that a file is in, "" for that of a bare name; owned by the caller. */
SP_MUST_CHECK enum sp_status sp_file_folder(char **out, const char *path, struct sp_err *err);

/* Returns true if both paths lead to the same existing file. */
bool sp_file_same(const char *a, const char *b);

#endif
