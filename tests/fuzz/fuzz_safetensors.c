/* Fuzzes safetensors files: a file is refused with a message, or all of its tensors can be read and
 * together cover the bytes after its header. */
#include "format/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct sp_safetensors *c)
{
    size_t n;
    const struct sp_safetensor *tensors = sp_safetensors_tensors(c, &n);

    for (size_t i = 0; i < n; i++) {
        void *buffer = malloc(tensors[i].size ? tensors[i].size : 1);
        if (buffer == NULL) abort();
        if (sp_safetensors_read(c, tensors + i, 0, tensors[i].size, buffer, NULL)) abort();
        if (sp_safetensors_find(c, tensors[i].name) != tensors + i) abort();
        free(buffer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    char path[512];
    struct sp_safetensors *c = NULL;
    struct sp_err err = {0};
    int fd;

    snprintf(path, sizeof path, "%s/fuzz-safetensors-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(path);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0) abort();
    if (sp_safetensors_open(&c, path, NULL, &err) == SP_OK)
        read_all(c);
    else if (err.text[0] == '\0')
        abort();
    sp_safetensors_close(c);
    unlink(path);
    return 0;
}
