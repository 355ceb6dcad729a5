/* Any file either is refused with a sentence, or all of its tensors and values can be read; and
 * then it is opened as a source, whose tensors are read, and as an adapter; both may refuse it. */
#include "convert/adapter/adapter.h"
#include "convert/source/source.h"
#include "format/gguf.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void read_tensors(const struct sp_gguf *g)
{
    size_t n;
    const struct sp_gguf_tensor *tensors = sp_gguf_tensors(g, &n);

    for (size_t i = 0; i < n; i++) {
        void *buffer = malloc(tensors[i].size + 1);
        if (buffer == NULL) abort();
        if (sp_gguf_read(tensors + i, 0, tensors[i].size, buffer, NULL)) abort();
        if (sp_gguf_find_tensor(g, tensors[i].name) != tensors + i) abort();
        free(buffer);
    }
}

static void read_values(const struct sp_gguf *g)
{
    size_t n, sum = 0;
    const struct sp_gguf_value *values = sp_gguf_values(g, &n);

    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = values[i].at;
        if (sp_gguf_find(g, values[i].key) != values + i) abort();
        for (uint64_t k = 0; k < values[i].n; k++) {
            size_t len;
            if (values[i].type == SP_GGUF_STRING) {
                const char *text = sp_gguf_next_string(&at, &len);
                sum += len ? (unsigned char)text[len - 1] : 0;
            } else {
                sum += sp_gguf_number_at(&values[i], k) > 0;
            }
        }
    }
    if (sum == SIZE_MAX) abort();
}

/* As an adapter of a model of layers with heads of 8. */
static void open_adapter(const char *path)
{
    struct sp_layer_config layer = {.head_dim = 8};
    struct sp_config model = {
        .architecture = "LlamaForCausalLM", .n_layers = 1, .layers = &layer, .n_hidden = 32};
    struct sp_adapter adapter;
    struct sp_err err = {0};

    if (sp_adapter_open(&adapter, path, &model, &err) && err.text[0] == '\0') abort();
    for (size_t i = 0; i < adapter.n_products; i++)
        if (!isfinite(adapter.products[i].scale)) abort();
    sp_adapter_release(&adapter);
}

/* The numbers of all tensors as published; a tensor whose numbers are invalid is refused. */
static void read_source(const struct sp_source *source)
{
    for (size_t i = 0; i < source->specs.n_specs; i++) {
        const struct sp_tensor_spec *spec = &source->specs.specs[i];
        struct sp_scratch scratch;
        struct sp_err err = {0};
        float *out = malloc((size_t)sp_spec_elements(spec) * sizeof *out);
        if (out == NULL || sp_scratch_open(&scratch, 1 << 16, &err)) abort();
        if (sp_source_read_rows(out, source, spec, 0, SP_ALL_ROWS, &scratch, &err) &&
            err.text[0] == '\0')
            abort();
        sp_scratch_release(&scratch);
        free(out);
    }
}

static void open_source(const char *path)
{
    struct sp_source source;
    struct sp_err err = {0};
    char *warnings = NULL;

    if (sp_source_open(&source, path, SP_PART_TARGET, &warnings, &err) == SP_OK)
        read_source(&source);
    else if (err.text[0] == '\0')
        abort();
    sp_source_release(&source);
    free(warnings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    struct sp_gguf *g = NULL;
    struct sp_err err = {0};

    if (sp_gguf_open(&g, path, &err) == SP_OK) {
        read_tensors(g);
        read_values(g);
        open_source(path);
        open_adapter(path);
    } else if (err.text[0] == '\0') {
        abort();
    }
    sp_gguf_close(g);
    unlink(path);
    return 0;
}
