/* A shape is a config.json text, parsed like any other; its tensors come from the family table and
 * their types from the policy. A panel is filled in place: any byte is a valid code or scale of q2
 * to q6, and every byte but one a valid q8 code, so nothing is quantized. One panel is in memory at
 * a time. */
#include "convert/create/synthetic.h"

#include "convert/create/create_job.h"
#include "format/base/bytes.h"
#include "format/family/config_parse.h"
#include "format/family/config_settle.h"
#include "format/family/family.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/packfile_write.h"
#include "quantize/codec.h"
#include "quantize/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One model of the file. */
struct model {
    const struct sp_synthetic_shape *shape;
    char *text; /* of the config; owned */
    enum sp_part part;
    struct sp_config config;
    struct sp_specs specs;
    struct sp_policy_request request;
};

struct job {
    struct model models[2]; /* target, draft */
    size_t n_models;
    struct sp_pack_tensor *tensors;      /* [n]; owned */
    const struct sp_tensor_spec **specs; /* [n] parallel; owned */
    size_t n_tensors;
    uint8_t *panel; /* the largest panel or tensor without panels; owned */
    float *floats;  /* its elements; owned */
    struct sp_pack_writer *writer;
    const struct sp_create_callbacks *callbacks;
    uint64_t done, total; /* bytes of tensors */
};

static enum sp_status open_model(struct job *job, const struct sp_synthetic_shape *shape,
                                 unsigned n_layers, enum sp_part part,
                                 struct sp_policy_request request, struct sp_err *err)
{
    struct model *model = &job->models[job->n_models++];
    struct sp_tables found = {0};
    enum sp_status st;

    model->shape = shape;
    model->part = part;
    model->request = request;
    if ((st = sp_synthetic_shape_config(&model->text, shape, n_layers, err))) return st;
    st = sp_config_parse(&model->config, model->text, strlen(model->text), NULL, err);
    if (st) {
        sp_context(err, "%s with %u layers", shape->name, n_layers);
        return st;
    }
    found.embedding = model->config.draft.kind == SP_DRAFT_NONE;
    found.head = found.embedding && !model->config.tied;
    found.layer_scalars = true;
    found.fc_cols = (uint64_t)model->config.draft.n_taps * model->config.n_hidden;
    if ((st = sp_config_settle(&model->config, &found, err))) return st;
    return sp_specs_of_config(&model->specs, &model->config, err);
}

static enum sp_status open_models(struct job *job, const struct sp_synthetic_options *options,
                                  struct sp_err *err)
{
    const struct sp_synthetic_shape *target = sp_synthetic_shape_find(options->shape, NULL), *draft;
    struct sp_policy_request target_request = {.type = options->target_type,
                                               .output_type = options->output_type};
    struct sp_policy_request draft_request = {.type = options->draft_type, .draft = true};
    enum sp_status st;

    if (target == NULL)
        return sp_fail(err, SP_E_USAGE, "there is no synthetic model %s", options->shape);
    st = open_model(job, target, options->n_layers, SP_PART_TARGET, target_request, err);
    if (st || options->draft == NULL) return st;
    draft = sp_synthetic_shape_find(options->draft, target->name);
    if (draft == NULL) {
        return sp_fail(err, SP_E_USAGE, "there is no synthetic draft %s for %s", options->draft,
                       target->name);
    }
    if (draft->target && options->n_layers) {
        return sp_fail(err, SP_E_USAGE,
                       "the draft %s reads the hidden states of all layers of %s, so their number "
                       "cannot be chosen",
                       draft->name, target->name);
    }
    if ((st = open_model(job, draft, 0, SP_PART_DRAFT, draft_request, err))) return st;
    if (job->models[0].config.n_vocab != job->models[1].config.n_vocab) {
        return sp_fail(err, SP_E_USAGE,
                       "the draft %s does not fit %s: it has %u tokens, expected %u", draft->name,
                       target->name, job->models[1].config.n_vocab, job->models[0].config.n_vocab);
    }
    return SP_OK;
}

static enum sp_status plan_tensor(struct job *job, const struct model *model,
                                  const struct sp_tensor_spec *spec, struct sp_err *err)
{
    struct sp_pack_tensor *tensor = &job->tensors[job->n_tensors];
    struct sp_policy_choice choice;
    struct sp_policy_tensor asked = {.spec = spec, .stored = SP_BF16};
    enum sp_status st;
    size_t size;

    if ((st = sp_policy_choose(&choice, &model->request, &asked, err))) return st;
    *tensor = (struct sp_pack_tensor){
        .name = spec->name,
        .part = model->part,
        .dtype = choice.dtype,
        .layout = choice.layout,
        .rank = spec->rank,
    };
    memcpy(tensor->shape, spec->shape, sizeof tensor->shape);
    if (!sp_tensor_size(&size, tensor->dtype, tensor->layout, tensor->shape, tensor->rank))
        return sp_fail(err, SP_E_BUG, "tensor %s has no size", spec->name);
    tensor->size = size;
    job->total += size;
    job->specs[job->n_tensors++] = spec;
    return SP_OK;
}

/* Elements that are encoded at once: a panel, or all of a tensor without panels. */
static size_t piece_of(const struct sp_pack_tensor *tensor)
{
    size_t n = (size_t)tensor->shape[tensor->rank - 1];

    if (tensor->layout == SP_PANEL) return n * SP_PANEL_ROWS;
    return (size_t)sp_n_elements(tensor->shape, tensor->rank);
}

/* Settles the types and sizes of all tensors and allocates the largest piece. */
static enum sp_status plan(struct job *job, struct sp_err *err)
{
    size_t n = 0, most = 0, piece;
    enum sp_status st;

    for (size_t m = 0; m < job->n_models; m++)
        n += job->models[m].specs.n_specs;
    if ((st = sp_new(&job->tensors, n, sizeof *job->tensors, err))) return st;
    if ((st = sp_new(&job->specs, n, sizeof *job->specs, err))) return st;
    for (size_t m = 0; m < job->n_models; m++) {
        const struct model *model = &job->models[m];
        for (size_t i = 0; i < model->specs.n_specs; i++) {
            if ((st = plan_tensor(job, model, &model->specs.specs[i], err))) return st;
            piece = piece_of(&job->tensors[job->n_tensors - 1]);
            if (piece > most) most = piece;
        }
    }
    /* No type takes more bytes than f32; heads and padding are a few lines. */
    st = sp_new_aligned(&job->panel, most * sizeof(float) + 256, 1, err);
    return st ? st : sp_new_aligned(&job->floats, most, sizeof(float), err);
}

/* SplitMix64 (Steele et al., OOPSLA 2014) as a function of key and index. */
static uint64_t random_bits(uint64_t key, uint64_t index)
{
    uint64_t z = key + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* size is a multiple of 8: so are all blocks. */
static void fill_random(uint8_t *out, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i += 8)
        sp_put64(out + i, random_bits(key, i));
}

/* Fills a panel of q2 to q6. The root mean square of a uniform scale byte is about 148, that of a
 * codebook entry 19 to 30, so the weights have 0.3 to 0.5 of the variance's root 1 / sqrt(cols). */
static void fill_microscale(uint8_t *panel, unsigned code_bits, size_t cols, uint64_t key)
{
    float scale = 1 / (148 * 66 * sqrtf((float)cols));

    for (size_t row = 0; row < SP_PANEL_ROWS; row++)
        sp_put32(panel + 4 * row, sp_bits_of_float(scale));
    fill_random(panel + SP_MICROSCALE_HEAD, cols / SP_BLOCK * sp_microscale_block_size(code_bits),
                key);
}

/* The root mean square of a uniform code is 73. A bf16 is the upper half of a float. */
static void fill_q8(uint8_t *panel, size_t cols, uint64_t key)
{
    enum { CODES = SP_PANEL_ROWS * SP_BLOCK };
    uint8_t scale[4];

    sp_put32(scale, sp_bits_of_float(1 / (73 * sqrtf((float)cols))));
    for (size_t block = 0; block < cols / SP_BLOCK; block++) {
        uint8_t *at = panel + block * SP_Q8_BLOCK_SIZE;
        fill_random(at, CODES, random_bits(key, block));
        for (size_t i = 0; i < CODES; i++)
            if (at[i] == 0) at[i] = 1;
        for (size_t row = 0; row < SP_PANEL_ROWS; row++)
            memcpy(at + CODES + 2 * row, scale + 2, 2);
    }
}

/* Uniform numbers of variance 1 / cols. */
static void fill_floats(float *out, size_t n, size_t cols, uint64_t key)
{
    float reach = sqrtf(3 / (float)cols);

    for (size_t i = 0; i < n; i++) {
        float unit = (float)(random_bits(key, i) >> 40) * 0x1p-23F - 1;
        out[i] = reach * unit;
    }
}

static enum sp_status fill_panel(struct job *job, enum sp_dtype dtype, size_t cols, uint64_t key,
                                 struct sp_err *err)
{
    unsigned code_bits = sp_dtype_code_bits(dtype);

    if (dtype == SP_Q8) {
        fill_q8(job->panel, cols, key);
    } else if (code_bits) {
        fill_microscale(job->panel, code_bits, cols, key);
    } else {
        fill_floats(job->floats, cols * SP_PANEL_ROWS, cols, key);
        return sp_encode_floats(job->panel, dtype, job->floats, cols * SP_PANEL_ROWS, 0, err);
    }
    return SP_OK;
}

static enum sp_status tell_progress(struct job *job, size_t size, struct sp_err *err)
{
    job->done += size;
    if (job->callbacks->progress &&
        job->callbacks->progress(job->callbacks->context, job->done, job->total))
        return sp_fail(err, SP_E_CANCELLED, "interrupted");
    return SP_OK;
}

static uint64_t key_of(const struct sp_pack_tensor *tensor)
{
    return sp_hash64(tensor->name, strlen(tensor->name)) + (uint64_t)tensor->part;
}

static enum sp_status write_matrix(struct job *job, size_t index, struct sp_err *err)
{
    const struct sp_pack_tensor *tensor = &job->tensors[index];
    uint64_t key = key_of(tensor);
    size_t cols = (size_t)tensor->shape[tensor->rank - 1], size;
    enum sp_status st;

    if (tensor->shape[tensor->rank - 2] % SP_PANEL_ROWS ||
        !sp_panel_size(&size, tensor->dtype, cols)) {
        return sp_fail(err, SP_E_BUG, "tensor %s: its shape does not consist of whole panels",
                       tensor->name);
    }
    for (uint64_t panel = 0; panel < tensor->size / size; panel++) {
        memset(job->panel + size - 64, 0, 64); /* padding, where there is any */
        st = fill_panel(job, tensor->dtype, cols, random_bits(key, panel), err);
        if (st) return st;
        if ((st = sp_pack_writer_put(job->writer, index, job->panel, size, err))) return st;
        if ((st = tell_progress(job, size, err))) return st;
    }
    return SP_OK;
}

/* Norms and single numbers multiply by 1; the kernels of convolutions are random; biases and all
 * others are 0. */
static enum sp_status write_small(struct job *job, size_t index, bool shifted, struct sp_err *err)
{
    const struct sp_pack_tensor *tensor = &job->tensors[index];
    enum sp_role role = job->specs[index]->role;
    size_t n = piece_of(tensor);
    bool factor = role == SP_ROLE_NORM ? !shifted : n == 1;
    enum sp_status st;

    for (size_t i = 0; i < n; i++)
        job->floats[i] = factor ? 1 : 0;
    if (role == SP_ROLE_SMALL && tensor->rank > 1)
        fill_floats(job->floats, n, (size_t)tensor->shape[tensor->rank - 1], key_of(tensor));
    if ((st = sp_encode_floats(job->panel, tensor->dtype, job->floats, n, 0, err))) return st;
    st = sp_pack_writer_put(job->writer, index, job->panel, (size_t)tensor->size, err);
    return st ? st : tell_progress(job, (size_t)tensor->size, err);
}

static enum sp_status write_tensors(struct job *job, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < job->n_tensors && !st; i++) {
        const struct model *model = &job->models[job->tensors[i].part == SP_PART_DRAFT];
        st = job->tensors[i].layout == SP_PANEL
                 ? write_matrix(job, i, err)
                 : write_small(job, i, model->config.norm_shifted, err);
    }
    return st;
}

static enum sp_status write_texts(struct job *job, struct sp_err *err)
{
    char records[128];
    int n = snprintf(records, sizeof records, "FROM synthetic-%s\n", job->models[0].shape->name);
    enum sp_status st;

    if (job->n_models > 1) {
        n += snprintf(records + n, sizeof records - (size_t)n, "DRAFT synthetic-%s\n",
                      job->models[1].shape->name);
    }
    st = sp_pack_writer_section(job->writer, SP_PART_FILE, SP_SECTION_MODELFILE, records, (size_t)n,
                                err);
    for (size_t m = 0; m < job->n_models && !st; m++) {
        const char *config = job->models[m].text;
        st = sp_pack_writer_section(job->writer, job->models[m].part, SP_SECTION_CONFIG, config,
                                    strlen(config), err);
    }
    return st;
}

enum sp_status sp_synthetic_write(const char *path, const struct sp_synthetic_options *options,
                                  struct sp_err *err)
{
    struct job job = {.callbacks = &options->callbacks};
    struct sp_part_digests digests;
    enum sp_status st;

    if ((st = open_models(&job, options, err))) goto done;
    if ((st = plan(&job, err))) goto done;
    st = sp_pack_writer_open(&job.writer, path, options->force, job.tensors, job.n_tensors, err);
    if (st) goto done;
    if ((st = write_texts(&job, err))) goto done;
    if ((st = write_tensors(&job, err))) goto done;
    if (job.n_models > 1) {
        st = sp_pack_writer_part_digests(&digests, job.writer, err);
        if (!st) st = sp_pairing_record_put(job.writer, &job.models[1].config, &digests, err);
    }
    if (!st) st = sp_pack_writer_finish(job.writer, NULL, err);
done:
    sp_pack_writer_close(job.writer);
    for (size_t m = 0; m < job.n_models; m++) {
        sp_specs_release(&job.models[m].specs);
        sp_config_release(&job.models[m].config);
        free(job.models[m].text);
    }
    free(job.tensors);
    free(job.specs);
    free(job.panel);
    free(job.floats);
    return st;
}
