/* Fuzzes the output of an interrupted batch: a file is refused with a message and stays as it is,
 * or stays so until answers follow its whole lines, which are kept byte for byte. */
#include "cli/serve/batch.h"
#include "tests/fuzz/fuzz.h"

static char path[] = "/tmp/fuzz-batch-output.XXXXXX";

static void remove_at_exit(void)
{
    unlink(path);
}

/* Checks that the file has these bytes and nothing after them. */
static void check_file(const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(size + 1);

    if (f == NULL || bytes == NULL || fread(bytes, 1, size + 1, f) != size) abort();
    if (size > 0 && memcmp(bytes, data, size) != 0) abort();
    free(bytes);
    fclose(f);
}

static void check_kept(const struct sp_batch_output *output, const uint8_t *data, size_t size)
{
    size_t n_lines = 0;

    for (size_t i = 0; i < size; i++)
        n_lines += data[i] == '\n';
    if (output->n_kept != n_lines || output->n_kept_failures > n_lines) abort();
    for (size_t i = 0; i < n_lines; i++) {
        if (sp_batch_output_match(output, i, output->kept[i], NULL)) abort();
        if (sp_batch_output_match(output, i, output->kept[i] ? NULL : "", NULL) == SP_OK) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    static uint8_t text[1 << 16];
    struct sp_batch_output output;
    struct sp_err err = {0};
    size_t whole = size;

    if (size > sizeof text - 1) return 0;
    if (!begun && (close(mkstemp(path)) || atexit(remove_at_exit))) abort();
    begun = true;
    if (size) memcpy(text, data, size);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(text, 1, size, f) != size || fclose(f)) abort();
    if (sp_batch_output_open(&output, path, &err)) {
        if (err.text[0] == '\0' || strchr(err.text, '\n')) abort();
        sp_batch_output_close(&output);
        check_file(text, size);
        return 0;
    }
    while (whole > 0 && text[whole - 1] != '\n')
        whole--;
    check_kept(&output, text, whole);
    check_file(text, size);
    if (sp_batch_output_drop_tail(&output, &err)) abort();
    putc('x', output.file);
    if (sp_batch_output_flush(&output, &err)) abort();
    sp_batch_output_close(&output);
    text[whole] = 'x';
    check_file(text, whole + 1);
    return 0;
}
