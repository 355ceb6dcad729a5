/* Tests adapters that are refused, each with its message: configs with unsupported options, tensors
 * that do not belong to the model, and files of other kinds. No file is written. */
#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "tests/support/create_files.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/made_gguf.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <sys/stat.h>
#include <unistd.h>

/* The target of testdata/tiny: 6 layers of 192, heads of 64, tied, bf16, no biases. */
#define MODULE "base_model.model.model.layers.0.self_attn.q_proj"
#define PEFT(rest) "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4" rest "}"
#define GOOD MODULE ".lora_A.weight F32 2,192\n" MODULE ".lora_B.weight F32 192,2\n"

static size_t add(char *header, size_t len, size_t *data, const char *line)
{
    char name[200], type[8], shape[40], *next;

    assert_int_equal(sscanf(line, "%199s %7s %39s", name, type, shape), 3);
    size_t size = 4 * (size_t)strtoul(shape, &next, 10);
    while (*next == ',')
        size *= (size_t)strtoul(next + 1, &next, 10);
    len += (size_t)sprintf(header + len,
                           "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                           len ? "," : "{", name, type, shape, *data, *data + size);
    *data += size;
    return len;
}

/* Writes a file of tensors filled with zeros. */
static void write_tensors(const char *name, const char *lines)
{
    static char header[8192];
    size_t len = 0, size = 0;

    for (const char *line = lines; *line; line = strchr(line, '\n') + 1)
        len = add(header, len, &size, line);
    len += (size_t)sprintf(header + len, len ? "}" : "{}");
    uint8_t *file = calloc(8 + len + size, 1);
    sp_put64(file, len);
    memcpy(file + 8, header, len);
    scratch_write(name, file, 8 + len + size);
    free(file);
}

static void assert_outcome_of(const struct sp_create_options *o, enum sp_status status,
                              const char *message)
{
    assert_fails(sp_create(NULL, o, why), status, message);
    assert_int_not_equal(access(o->output, F_OK), 0);
}

static void assert_outcome(const char *lines, enum sp_status status, const char *message)
{
    struct sp_create_options o = create_options(create_modelfile(lines), create_path("out.bin"));

    assert_outcome_of(&o, status, message);
}

TEST(test_refusals_name_the_cause)
{
    struct sp_create_options o = create_options(
        create_modelfile("FROM @/target\nADAPTER a.safetensors"), create_path("out.bin"));
    struct sp_json *const *line = golden_lines(TESTDATA "/adapters/refusals.jsonl");
    size_t n = 0;

    for (; line[n]; n++) {
        const struct sp_json *tensors = sp_json_get(line[n], "tensors");
        const char *config = sp_json_get_text(line[n], "text"), *lines = "";
        int64_t status;
        if (config == NULL) config = keep_printed(sp_json_get(line[n], "config"));
        for (size_t i = 0; i < sp_json_len(tensors); i++)
            lines = keep_format("%s%s\n", lines, sp_json_to_string(sp_json_at(tensors, i), NULL));
        scratch_write("adapter_config.json", config, strlen(config));
        write_tensors("a.safetensors", lines);
        assert_true(sp_json_to_i64(sp_json_get(line[n], "status"), &status));
        assert_outcome_of(&o, (enum sp_status)status, sp_json_get_text(line[n], "message"));
    }
    assert_int_equal(n, 43);
}

/* Latent attention uses half of the rows of each head as columns, so its transposed matrices cannot
 * be merged. */
TEST(test_transposed_matrices_are_not_changed)
{
    const char *lines = keep_format("FROM %s\nADAPTER a.safetensors", TESTDATA "/families/youtu");
    scratch_write("adapter_config.json", PEFT(""), strlen(PEFT("")));
    write_tensors("a.safetensors",
                  "base_model.model.model.layers.0.self_attn.kv_b_proj.lora_A.weight F32 2,24\n"
                  "base_model.model.model.layers.0.self_attn.kv_b_proj.lora_B.weight F32 48,2\n");
    assert_outcome(lines, SP_E_UNSUPPORTED,
                   "kv_b_proj.weight, which is transposed when it is packed");
}

/* The same tensors with a valid config are merged, which proves that the refusals above have the
 * intended cause. Tensors of parts that are not packed are ignored. */
TEST(test_a_valid_adapter_is_accepted)
{
    scratch_write("adapter_config.json", PEFT(""), strlen(PEFT("")));
    write_tensors("a.safetensors",
                  GOOD "base_model.model.model.visual.blocks.0.attn.qkv.lora_A.weight F32 2,8\n");
    create_pack(create_modelfile("FROM @/target\nADAPTER a.safetensors"), create_path("out.bin"),
                SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
}

TEST(test_files_of_other_kinds)
{
    assert_outcome("FROM @/target\nADAPTER nowhere", SP_E_INPUT, "Modelfile:2:9: ADAPTER: ");
    assert_outcome("FROM @/target\nADAPTER nowhere", SP_E_INPUT, "nowhere does not exist");
    scratch_write("x.txt", "x", 1);
    assert_outcome("FROM @/target\nADAPTER x.txt", SP_E_INPUT, "expected an adapter's folder");
    write_tensors("a.safetensors", GOOD);
    assert_outcome("FROM @/target\nADAPTER a.safetensors", SP_E_INPUT,
                   "adapter_config.json is missing in its folder");
    const char *folder = keep_format("%s", create_path("f"));
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_outcome("FROM @/target\nADAPTER f", SP_E_INPUT,
                   "contains neither adapter_model.safetensors (PEFT)");
    const char *lines = keep_format("%s/adapter_model.bin", folder);
    assert_int_equal(fclose(fopen(lines, "w")), 0);
    assert_outcome("FROM @/target\nADAPTER f", SP_E_UNSUPPORTED,
                   "its tensors are in adapter_model.bin");
    unlink(lines);
    rmdir(folder);
}

struct gguf_refusal {
    const char *key, *text;     /* one more value; NULL: none */
    const char *first, *second; /* names of tensors [2, 192] and [192, 2]; NULL: none */
    enum sp_status status;
    const char *message;
};

static const struct gguf_refusal gguf_refusals[] = {
    {"adapter.alora.invocation_tokens", "1", NULL, NULL, SP_E_UNSUPPORTED,
     "adapter.alora.invocation_tokens: not supported"},
    {"adapter.lora.prompt_prefix", "x", NULL, NULL, SP_E_UNSUPPORTED,
     "adapter.lora.prompt_prefix: not"},
    {"adapter.lora.alpha", "x", NULL, NULL, SP_E_INPUT, "adapter.lora.alpha is not a number"},
    {NULL, NULL, NULL, NULL, SP_E_INPUT, "no tensors"},
    {NULL, NULL, "blk.0.attn_q.weight.lora_a", NULL, SP_E_INPUT, "has no second factor"},
    {NULL, NULL, NULL, "blk.0.attn_q.weight.lora_b", SP_E_INPUT, "has no first factor"},
    {NULL, NULL, "blk.0.attn_q.weight", NULL, SP_E_UNSUPPORTED,
     "\"blk.0.attn_q.weight\" is not a tensor of a LoRA adapter"},
    {NULL, NULL, "blk.0.odd.weight.lora_a", NULL, SP_E_UNSUPPORTED,
     "blk.0.odd.weight.lora_a is not a tensor of qwen3 models"},
    {NULL, NULL, "blk.0.attn_q.weight.lora_a", "blk.0.attn_k.weight.lora_b", SP_E_INPUT, "has no"},
    {NULL, NULL, "blk.9.attn_q.weight.lora_a", "blk.9.attn_q.weight.lora_b", SP_E_INPUT,
     "blk.9.attn_q.weight.lora_a\" changes model.layers.9.self_attn.q_proj.weight, which the "
     "model"},
    {NULL, NULL, "blk.0.attn_k.weight.lora_a", "blk.0.attn_k.weight.lora_b", SP_E_INPUT,
     "blk.0.attn_k.weight.lora_b\" has shape [192, 2], expected [64, 2]"},
    {NULL, NULL, "blk.0.attn_norm.weight", NULL, SP_E_INPUT,
     "blk.0.attn_norm.weight\" has shape [2, 192], but"},
};

static void begin_adapter(struct made_gguf *m, const char *type, const char *adapter,
                          const char *arch)
{
    gguf_begin(m);
    gguf_value_string(m, "general.type", type);
    gguf_value_string(m, "adapter.type", adapter);
    gguf_value_string(m, "general.architecture", arch);
}

TEST(test_gguf_adapters)
{
    static const struct {
        const char *type, *adapter, *arch, *message;
    } kinds[] = {
        {"model", "lora", "qwen3", "general.type is \"model\", expected \"adapter\""},
        {"adapter", "control", "qwen3", "adapter.type is \"control\", expected \"lora\""},
        {"adapter", "lora", "rwkv7", "architecture \"rwkv7\" is not supported in GGUF files"},
        {"adapter", "lora", "gemma2",
         "general.architecture is \"gemma2\", but the model it is merged into is Qwen3ForCausalLM"},
    };
    struct made_gguf m;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        begin_adapter(&m, kinds[i].type, kinds[i].adapter, kinds[i].arch);
        gguf_write(&m, "a.gguf", 0);
        assert_outcome("FROM @/target\nADAPTER a.gguf", i < 3 ? SP_E_UNSUPPORTED : SP_E_INPUT,
                       kinds[i].message);
    }
    for (size_t i = 0; i < sizeof gguf_refusals / sizeof *gguf_refusals; i++) {
        const struct gguf_refusal *r = &gguf_refusals[i];
        begin_adapter(&m, "adapter", "lora", "qwen3");
        if (r->key) gguf_value_string(&m, r->key, r->text);
        if (r->first) gguf_tensor(&m, r->first, 192, 2, SP_GGML_F32, 0);
        if (r->second) gguf_tensor(&m, r->second, 2, 192, SP_GGML_F32, r->first ? 1536 : 0);
        gguf_write(&m, "a.gguf", 3072);
        assert_outcome("FROM @/target\nADAPTER a.gguf", r->status, r->message);
    }
    assert_outcome("FROM a.gguf", SP_E_INPUT, "a LoRA adapter, expected a model");
    begin_adapter(&m, "adapter", "lora", "granite");
    gguf_tensor(&m, "blk.0.attn_q.weight.lora_b", 2, 190, SP_GGML_F32, 0);
    gguf_write(&m, "a.gguf", 3072);
    assert_outcome("FROM " TESTDATA "/families/granite\nADAPTER a.gguf", SP_E_INPUT,
                   "blk.0.attn_q.weight.lora_b: 190 rows do not consist of heads of even size");
}

/* Weights that were rounded to blocks are not rounded again, and tables that a packed file shares
 * stay shared, so both are refused. */
TEST(test_packed_files)
{
    const char *packed = create_keep_path(create_path("packed.bin"));

    scratch_write("adapter_config.json", PEFT(""), strlen(PEFT("")));
    write_tensors("a.safetensors", GOOD);
    create_pack(create_modelfile("FROM @/target"), packed, SP_Q8, SP_DTYPE_NONE, 1);
    assert_outcome("FROM packed.bin\nADAPTER a.safetensors", SP_E_INPUT,
                   "is q8 already, and with an adapter it would be rounded twice");
    write_tensors("a.safetensors", "base_model.model.lm_head.lora_A.weight F32 2,192\n"
                                   "base_model.model.lm_head.lora_B.weight F32 1600,2\n");
    assert_outcome("FROM packed.bin\nADAPTER a.safetensors", SP_E_UNSUPPORTED,
                   "merge it into the checkpoint");
}

TEST_FIXTURE(create_setup, create_teardown);
