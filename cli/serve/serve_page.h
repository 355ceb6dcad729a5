/* The page for browsers: cli/serve/page.html, which CMake turns into an array. */
#ifndef SP_CLI_SERVE_SERVE_PAGE_H
#define SP_CLI_SERVE_SERVE_PAGE_H

#include <stddef.h>

extern const char sp_serve_page[]; /* [sp_serve_page_size] */
extern const size_t sp_serve_page_size;

#endif
