/* What each fuzz target includes: the headers of C that nearly all need, and its own prototype. */
#ifndef SP_TESTS_FUZZ_FUZZ_H
#define SP_TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes the input to a new file; its path is static until the next call; the caller unlinks it. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[512];
    const char *tmp = getenv("TMPDIR");
    int fd;

    snprintf(path, sizeof path, "%s/fuzz-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(path);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0) abort();
    return path;
}

#endif
