/* Fuzzes safetensors files: a file is refused with a message, or all of its tensors can be read and
 * together cover the bytes after its header. With each method of quantization, its quantized
 * weights are refused with a message, or their rows can be read. */
#include "convert/source/quantized_weights.h"
#include "format/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void read_all(const struct sp_safetensors *c)
{
    size_t n;
    const struct sp_safetensor *tensors = sp_safetensors_tensors(c, &n);

    for (size_t i = 0; i < n; i++) {
        void *buffer = malloc(tensors[i].size ? tensors[i].size : 1);
        if (buffer == NULL) abort();
        if (sp_safetensors_read(tensors + i, 0, tensors[i].size, buffer, NULL)) abort();
        if (sp_safetensors_find(c, tensors[i].name) != tensors + i) abort();
        free(buffer);
    }
}

/* All rows in pieces of different sizes, and every third one. */
static void read_weight(const struct sp_weight *w)
{
    struct sp_weight_workspace ws = {0};
    uint64_t rows = w->codes.rows, cols = w->shape[w->rank - 1], n = 1;
    struct sp_err err = {0};
    float *out;

    if (rows > 1 << 16 || cols > (1 << 20) / rows) return;
    out = malloc(rows * cols * sizeof *out);
    if (out == NULL) abort();
    for (uint64_t first = 0; first < rows; first += n, n = 5) {
        if (n > rows - first) n = rows - first;
        if (sp_weight_read(out, w, first, 1, n, &ws, &err)) break;
    }
    if (sp_weight_read(out, w, 0, 3, (rows + 2) / 3, &ws, &err) && err.text[0] == 0) abort();
    sp_weight_workspace_release(&ws);
    free(out);
}

static void read_weights(const struct sp_safetensors *c)
{
    static const char *const configs[] = {
        "{}",
        "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}",
        "{\"quant_method\":\"mlx\",\"group_size\":32,\"bits\":3}",
        "{\"quant_method\":\"mlx\",\"mode\":\"nvfp4\"}",
        "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32}",
        "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128}",
        "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64,\"version\":\"gemv\"}",
        "{\"quant_method\":\"bitsandbytes\"}",
    };

    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct sp_quantized_weights weights;
        struct sp_prequantized stated = {0};
        struct sp_json *json = NULL;
        struct sp_err err = {0};
        if (sp_json_parse(&json, configs[i], strlen(configs[i]), SP_JSON_STRICT, &err)) abort();
        if (i && sp_prequantized_parse_file(&stated, json, NULL, &err)) abort();
        if (sp_quantized_weights_open(&weights, c, &stated, &err) && err.text[0] == 0) abort();
        for (size_t k = 0; k < weights.n; k++)
            read_weight(&weights.all[k]);
        sp_quantized_weights_release(&weights);
        sp_json_free(json);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(data, size);
    struct sp_safetensors *c = NULL;
    struct sp_err err = {0};

    if (sp_safetensors_open(&c, path, NULL, &err) == SP_OK) {
        read_all(c);
        read_weights(c);
    } else if (err.text[0] == '\0') {
        abort();
    }
    sp_safetensors_close(c);
    unlink(path);
    return 0;
}
