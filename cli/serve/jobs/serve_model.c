#include "cli/serve/jobs/serve_model.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* *out = the file's name without folder and suffix ("qwen" for "models/qwen.bin"), owned by the
 * caller. */
static enum sp_status name_of(char **out, const char *path, struct sp_err *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *ending = strrchr(name, '.');
    size_t len = ending && ending > name ? (size_t)(ending - name) : strlen(name);

    return sp_copy_text(out, name, len, err);
}

static enum sp_status read_names(struct sp_serve_model *m, const struct sp_opt_list *names,
                                 struct sp_err *err)
{
    enum sp_status st;

    m->n_names = names->n ? names->n : 1;
    if ((st = sp_new(&m->names, m->n_names, sizeof *m->names, err))) return st;
    for (size_t i = 0; i < m->n_names; i++) {
        m->names[i] = names->n ? names->items[i] : m->file_name;
        if (*m->names[i] == '\0') return sp_fail(err, SP_E_USAGE, "--name is empty");
    }
    return SP_OK;
}

/* Reads the file's records as a Modelfile, whose FROM is the name of the model itself. */
static enum sp_status read_modelfile(struct sp_serve_model *m, const struct sp_pack *pack,
                                     struct sp_err *err)
{
    char *records = NULL;
    size_t n = 0, size;
    enum sp_status st;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records, &n, err);
    if (st) return st;
    st = sp_modelfile_recreate(&m->modelfile, &size, m->names[0],
                               m->facts.parts[SP_PART_DRAFT].present ? m->names[0] : NULL,
                               records ? records : "", n, err);
    free(records);
    return st;
}

static enum sp_status read_pack(struct sp_serve_model *m, const char *path, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    snprintf(m->digest, sizeof m->digest, "%016" PRIx64, sp_pack_identity(pack));
    m->size = sp_pack_size(pack);
    st = sp_pack_facts_read(&m->facts, pack, err);
    if (!st) st = read_modelfile(m, pack, err);
    sp_pack_close(pack);
    return st;
}

enum sp_status sp_serve_model_read(struct sp_serve_model *out, const struct sp_generation *g,
                                   const struct sp_opt_list *names, struct sp_err *err)
{
    struct sp_serve_model m = {.n_context = sp_session_n_context(g->session), .generation = g};
    struct stat info;
    const char *text;
    size_t size;
    enum sp_status st;

    if (stat(g->path, &info) == 0) m.modified = info.st_mtime;
    if ((st = name_of(&m.file_name, g->path, err)) || (st = read_names(&m, names, err)) ||
        (st = read_pack(&m, g->path, err))) {
        goto done;
    }
    if (g->conversation.template != NULL) {
        text = sp_template_text(g->conversation.template, &size);
        st = sp_copy_text(&m.template, text, size, err);
    }
done:
    if (st) sp_serve_model_release(&m);
    *out = m;
    return st;
}

void sp_serve_model_release(struct sp_serve_model *m)
{
    sp_session_pool_free(m->sessions);
    sp_pack_facts_release(&m->facts);
    free(m->names);
    free(m->file_name);
    free(m->modelfile);
    free(m->template);
    *m = (struct sp_serve_model){0};
}

bool sp_serve_model_is(const struct sp_serve_model *m, const char *name)
{
    static const char latest[] = ":latest";
    size_t len = strlen(name), tail = strlen(latest);

    for (size_t i = 0; i < m->n_names; i++) {
        size_t own = strlen(m->names[i]);
        if (strncmp(m->names[i], name, own) != 0) continue;
        if (len == own || (len == own + tail && strcmp(name + own, latest) == 0)) return true;
    }
    return false;
}

bool sp_serve_model_inserts_by(const struct sp_template *t)
{
    size_t size;

    return t != NULL && sp_template_language(t) == SP_TEMPLATE_GO &&
           strstr(sp_template_text(t, &size), ".Suffix") != NULL;
}

enum sp_status sp_serve_model_check_infill(const struct sp_serve_model *m, const char *key,
                                           struct sp_err *err)
{
    if (m->generation->infill.found) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s: the tokenizer of %s has no tokens for filling a gap (fill-in-the-middle)",
                   key, m->names[0]);
}

const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at)
{
    struct tm t;
    size_t len;

    gmtime_r(&at->tv_sec, &t);
    len = strftime(text, SP_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(text + len, SP_TIME_TEXT - len, ".%06ldZ", at->tv_nsec / 1000);
    return text;
}

/* ---- OpenAI -----------------------------------------------------------------------------------
 */

static void write_entry(struct sp_json_out *out, const struct sp_serve_model *m, const char *name)
{
    sp_json_out_text(out, "id", name);
    sp_json_out_text(out, "object", "model");
    sp_json_out_u64(out, "created", (uint64_t)m->modified);
    sp_json_out_text(out, "owned_by", "spectool");
}

void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *m)
{
    write_entry(out, m, m->names[0]);
}

void sp_serve_model_list(struct sp_json_out *out, const struct sp_serve_model *m)
{
    sp_json_out_text(out, "object", "list");
    sp_json_out_begin(out, "data", '[');
    for (size_t i = 0; i < m->n_names; i++) {
        sp_json_out_begin(out, NULL, '{');
        write_entry(out, m, m->names[i]);
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
}

/* ---- Anthropic --------------------------------------------------------------------------------
 */

static void write_model(struct sp_json_out *out, const struct sp_serve_model *m, const char *name)
{
    const struct timespec made = {.tv_sec = m->modified};
    char time[SP_TIME_TEXT];

    sp_json_out_text(out, "type", "model");
    sp_json_out_text(out, "id", name);
    sp_json_out_text(out, "display_name", name);
    sp_json_out_text(out, "created_at", sp_serve_time(time, &made));
    sp_json_out_text(out, "lifecycle", "active");
    sp_json_out_u64(out, "max_input_tokens", m->n_context);
    sp_json_out_u64(out, "max_tokens", m->n_context);
}

void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *m)
{
    write_model(out, m, m->names[0]);
}

void sp_serve_model_anthropic_list(struct sp_json_out *out, const struct sp_serve_model *m)
{
    sp_json_out_begin(out, "data", '[');
    for (size_t i = 0; i < m->n_names; i++) {
        sp_json_out_begin(out, NULL, '{');
        write_model(out, m, m->names[i]);
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
    sp_json_out_bool(out, "has_more", false);
    sp_json_out_text(out, "first_id", m->names[0]);
    sp_json_out_text(out, "last_id", m->names[m->n_names - 1]);
}

/* ---- ollama -----------------------------------------------------------------------------------
 */

/* Returns the name of the type that holds most of the target's bytes. */
static const char *main_type(const struct sp_part_facts *target)
{
    uint32_t best = SP_F32;

    for (uint32_t d = SP_F32; d < SP_N_PACKED_DTYPES; d++) {
        if (target->size_of_type[d] > target->size_of_type[best]) best = d;
    }
    return sp_dtype_info((enum sp_dtype)best)->name;
}

static void write_details(struct sp_json_out *out, const struct sp_serve_model *m)
{
    const struct sp_part_facts *target = &m->facts.parts[SP_PART_TARGET];
    char count[SP_AMOUNT_TEXT];

    sp_json_out_begin(out, "details", '{');
    sp_json_out_text(out, "parent_model", "");
    sp_json_out_text(out, "format", "spectool");
    sp_json_out_text(out, "family", target->config.family);
    sp_json_out_begin(out, "families", '[');
    sp_json_out_text(out, NULL, target->config.family);
    sp_json_out_end(out, ']');
    sp_json_out_text(out, "parameter_size", sp_out_count(count, target->n_weights));
    sp_json_out_text(out, "quantization_level", main_type(target));
    sp_json_out_end(out, '}');
}

void sp_serve_model_tags(struct sp_json_out *out, const struct sp_serve_model *m, bool loaded)
{
    struct timespec at = {.tv_sec = m->modified};
    char text[SP_TIME_TEXT];

    sp_json_out_begin(out, "models", '[');
    for (size_t i = 0; i < (loaded ? 1 : m->n_names); i++) {
        sp_json_out_begin(out, NULL, '{');
        sp_json_out_text(out, "name", m->names[i]);
        sp_json_out_text(out, "model", m->names[i]);
        if (!loaded) sp_json_out_text(out, "modified_at", sp_serve_time(text, &at));
        sp_json_out_u64(out, "size", m->size);
        sp_json_out_text(out, "digest", m->digest);
        write_details(out, m);
        if (loaded) {
            sp_json_out_text(out, "expires_at", "9999-12-31T23:59:59Z");
            sp_json_out_u64(out, "size_vram", 0);
            sp_json_out_u64(out, "context_length", m->n_context);
        }
        sp_json_out_end(out, '}');
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
    const struct sp_part_facts *target = &m->facts.parts[SP_PART_TARGET];
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

    sp_json_out_begin(out, "model_info", '{');
    sp_json_out_text(out, "general.architecture", target->config.family);
    sp_json_out_u64(out, "general.parameter_count", target->n_weights);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(key, sizeof key, "%s.%s", target->config.family, rows[i].name);
        sp_json_out_u64(out, key, rows[i].value);
    }
    sp_json_out_end(out, '}');
}

void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *m)
{
    const struct sp_part_facts *target = &m->facts.parts[SP_PART_TARGET];
    struct timespec at = {.tv_sec = m->modified};
    char text[SP_TIME_TEXT];

    sp_json_out_text(out, "modelfile", m->modelfile);
    write_parameters(out, &m->facts.records);
    sp_json_out_text(out, "template", m->template ? m->template : "");
    write_details(out, m);
    write_info(out, m);
    sp_json_out_begin(out, "capabilities", '[');
    if (!target->config.bidirectional && !target->config.headless)
        sp_json_out_text(out, NULL, "completion");
    if (target->config.pooling.mode == SP_POOL_RANK) {
        sp_json_out_text(out, NULL, "rerank");
    } else if (target->config.pooling.mode) {
        sp_json_out_text(out, NULL, "embedding");
    }
    if (m->generation->infill.found ||
        sp_serve_model_inserts_by(m->generation->conversation.template)) {
        sp_json_out_text(out, NULL, "insert");
    }
    if (m->facts.has_tool_calls) sp_json_out_text(out, NULL, "tools");
    if (m->facts.has_reasoning) sp_json_out_text(out, NULL, "thinking");
    sp_json_out_end(out, ']');
    sp_json_out_text(out, "modified_at", sp_serve_time(text, &at));
}
