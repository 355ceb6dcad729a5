#include "cli/serve/jobs/serve_model.h"
#include "cli/base/out.h"
#include "format/base/mem.h"
#include "format/config/pooling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at)
{
    struct timespec now;
    struct tm t = {0};
    size_t len;

    if (at == NULL) clock_gettime(CLOCK_REALTIME, &now);
    if (at == NULL) at = &now;
    gmtime_r(&at->tv_sec, &t);
    len = strftime(text, SP_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(text + len, SP_TIME_TEXT - len, ".%06ldZ", at->tv_nsec / 1000);
    return text;
}

size_t sp_serve_model_context(const struct sp_serve_model *m)
{
    return m->use.is_open ? m->n_context : m->file.max_context;
}

typedef void write_entry_fn(struct sp_json_out *out, const struct sp_serve_model *m,
                            const char *name);

/* Writes an array with an object for each name of each model. */
static void write_list(struct sp_json_out *out, const char *key,
                       const struct sp_serve_model *models, size_t n, write_entry_fn *write)
{
    sp_json_out_begin(out, key, '[');
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < models[i].n_names; k++) {
            sp_json_out_begin(out, NULL, '{');
            write(out, &models[i], models[i].names[k]);
            sp_json_out_end(out, '}');
        }
    }
    sp_json_out_end(out, ']');
}

/* ---- OpenAI ---- */

void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *m, const char *name)
{
    sp_json_out_put(out, "id:%s, object:'model', created:%zu, owned_by:'spectool'", name,
                    (size_t)m->file.modified);
}

void sp_serve_model_list(struct sp_json_out *out, const struct sp_serve_model *models, size_t n)
{
    sp_json_out_text(out, "object", "list");
    write_list(out, "data", models, n, sp_serve_model_entry);
}

/* ---- Anthropic ---- */

void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *m,
                                    const char *name)
{
    const struct timespec made = {.tv_sec = m->file.modified};
    char time[SP_TIME_TEXT];

    sp_json_out_put(out,
                    "type:'model', id:%s, display_name:%s, created_at:%s, lifecycle:'active', "
                    "max_input_tokens:%zu, max_tokens:%zu",
                    name, name, sp_serve_time(time, &made), sp_serve_model_context(m),
                    sp_serve_model_context(m));
}

void sp_serve_model_anthropic_list(struct sp_json_out *out, const struct sp_serve_model *models,
                                   size_t n)
{
    const struct sp_serve_model *last = &models[n - 1];

    write_list(out, "data", models, n, sp_serve_model_anthropic_entry);
    sp_json_out_put(out, "has_more:false, first_id:%s, last_id:%s", models[0].names[0],
                    last->names[last->n_names - 1]);
}

/* ---- ollama ---- */

/* Returns the name of the type that holds most of the target's bytes. */
static const char *main_type(const struct sp_part_facts *target)
{
    uint32_t best = SP_F32;

    for (uint32_t d = SP_F32; d < SP_N_PACKED_DTYPES; d++)
        if (target->size_of_type[d] > target->size_of_type[best]) best = d;
    return sp_dtype_info((enum sp_dtype)best)->name;
}

static void write_details(struct sp_json_out *out, const struct sp_serve_model *m)
{
    const struct sp_part_facts *target = &m->file.facts.parts[SP_PART_TARGET];
    char count[SP_AMOUNT_TEXT];

    sp_json_out_put(out,
                    "details:{parent_model:'', format:'spectool', family:%s, families:[%s], "
                    "parameter_size:%s, quantization_level:%s}",
                    target->config.family, target->config.family,
                    sp_out_count(count, target->n_weights), main_type(target));
}

static void write_tag(struct sp_json_out *out, const struct sp_serve_model *m, const char *name)
{
    sp_json_out_put(out, "name:%s, model:%s, size:%zu, digest:%s", name, name, (size_t)m->file.size,
                    m->file.digest);
    write_details(out, m);
}

static void write_dated_tag(struct sp_json_out *out, const struct sp_serve_model *m,
                            const char *name)
{
    const struct timespec at = {.tv_sec = m->file.modified};
    char text[SP_TIME_TEXT];

    write_tag(out, m, name);
    sp_json_out_text(out, "modified_at", sp_serve_time(text, &at));
}

void sp_serve_model_tags(struct sp_json_out *out, const struct sp_serve_model *models, size_t n)
{
    write_list(out, "models", models, n, write_dated_tag);
}

/* Writes when the model is closed unless it is used before. */
static void write_expiry(struct sp_json_out *out, const struct sp_serve_model *m)
{
    double left = sp_serve_models_expires_in(m);
    struct timespec at;
    char text[SP_TIME_TEXT];

    if (isinf(left)) {
        sp_json_out_text(out, "expires_at", "2262-01-01T00:00:00Z");
        return;
    }
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += (time_t)left;
    sp_json_out_text(out, "expires_at", sp_serve_time(text, &at));
}

void sp_serve_model_open_list(struct sp_json_out *out, const struct sp_serve_model *models,
                              size_t n)
{
    sp_json_out_begin(out, "models", '[');
    for (size_t i = 0; i < n; i++) {
        if (!models[i].use.is_open) continue;
        sp_json_out_begin(out, NULL, '{');
        write_tag(out, &models[i], models[i].names[0]);
        write_expiry(out, &models[i]);
        sp_json_out_put(out, "size_vram:0, context_length:%zu}",
                        sp_serve_model_context(&models[i]));
    }
    sp_json_out_end(out, ']');
}

/* Writes the parameters as text, one per line: "temperature 0.7". */
static void write_parameters(struct sp_json_out *out, const struct sp_modelfile *records)
{
    char *text = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&text, &size);

    if (lines == NULL) return;
    for (size_t i = 0; i < records->n_records; i++) {
        const struct sp_modelfile_record *r = records->records + i;
        bool quoted =
            r->command == SP_MODELFILE_PARAMETER &&
            (strcmp(r->name, "stop") == 0 || strcmp(r->name, "dry_sequence_breakers") == 0);
        if (r->command != SP_MODELFILE_PARAMETER) continue;
        fprintf(lines, quoted ? "%-30s \"%s\"\n" : "%-30s %s\n", r->name, r->value);
    }
    if (sp_close_text(lines, &text, NULL) == SP_OK) {
        if (size > 0) size--;
        sp_json_out_string(out, "parameters", text, size);
    }
    free(text);
}

static void write_info(struct sp_json_out *out, const struct sp_serve_model *m)
{
    const struct sp_part_facts *target = &m->file.facts.parts[SP_PART_TARGET];
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"context_length", target->config.max_positions},
        {"embedding_length", sp_pooling_width(&target->config.pooling, target->config.n_hidden)},
        {"block_count", target->config.n_layers},
        {"vocab_size", target->config.n_vocab},
    };
    char key[128];

    sp_json_out_put(out, "model_info:{general.architecture:%s, general.parameter_count:%zu",
                    target->config.family, (size_t)target->n_weights);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(key, sizeof key, "%s.%s", target->config.family, rows[i].name);
        sp_json_out_u64(out, key, rows[i].value);
    }
    sp_json_out_end(out, '}');
}

void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *m)
{
    const struct sp_part_facts *target = &m->file.facts.parts[SP_PART_TARGET];
    struct timespec at = {.tv_sec = m->file.modified};
    char text[SP_TIME_TEXT];

    sp_json_out_text(out, "modelfile", m->file.modelfile);
    write_parameters(out, &m->file.facts.records);
    sp_json_out_text(out, "template", m->file.template ? m->file.template : "");
    write_details(out, m);
    write_info(out, m);
    sp_json_out_begin(out, "capabilities", '[');
    if (!target->config.bidirectional && !target->config.headless)
        sp_json_out_text(out, NULL, "completion");
    if (target->config.pooling.mode == SP_POOL_RANK)
        sp_json_out_text(out, NULL, "rerank");
    else if (target->config.pooling.mode)
        sp_json_out_text(out, NULL, "embedding");
    if (m->file.inserts) sp_json_out_text(out, NULL, "insert");
    if (m->file.facts.has_tool_calls) sp_json_out_text(out, NULL, "tools");
    if (m->file.facts.has_reasoning) sp_json_out_text(out, NULL, "thinking");
    sp_json_out_put(out, "], modified_at:%s", sp_serve_time(text, &at));
}
