/* The page for browsers: the files of cli/serve/page/, which CMake turns into arrays. */
#ifndef SP_CLI_SERVE_SERVE_PAGE_H
#define SP_CLI_SERVE_SERVE_PAGE_H

#include <stddef.h>

struct sp_page_file {
    const char *path; /* of the URL; all of these are static */
    const char *type; /* media type */
    const char *text; /* [size] */
    size_t size;
};

extern const struct sp_page_file sp_page_files[];
extern const size_t sp_n_page_files;

#endif
