/* A folder of files that a program can make again: if they take too much, the least recently used
 * ones are removed. */
#ifndef SP_FORMAT_BASE_BOUNDED_FOLDER_H
#define SP_FORMAT_BASE_BOUNDED_FOLDER_H

#include <stddef.h>
#include <stdint.h>

/* Which files of a folder count, and what they may take. */
struct sp_folder_bound {
    const char *part; /* of their names */
    size_t n_digits;  /* hexadecimal ones that their names begin with; 0: any name */
    const char *keep; /* the name of one that stays; NULL: none */
    uint64_t most;    /* bytes that they may take */
    void (*removed)(void *context, const char *path); /* is told of each; NULL: nobody is */
    void *context;
};

/* Removes files, those of the oldest modification time first, until the others take no more than
 * the bound. Temporaries that are being written count, but stay. Returns the bytes that these take.
 * Programs that have a removed file open keep it. */
uint64_t sp_folder_trim(const char *folder, const struct sp_folder_bound *bound);

#endif
