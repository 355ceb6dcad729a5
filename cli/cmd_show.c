/* spectool show: prints the contents of packed files, of target and draft, as text or JSON. */
#include "cli/commands.h"
#include "cli/base/out.h"
#include "cli/base/pack_facts.h"
#include "cli/packed_checkpoint.h"
#include "format/json/json.h"
#include "format/json/json_write.h"
#include "format/modelfile/modelfile.h"
#include "format/pack_contents.h"
#include "format/packfile.h"
#include "format/weights/cache_divergence.h"
#include "format/weights/sensitivity.h"
#include "format/weights/smoothing.h"

#include <inttypes.h>
#include <stdlib.h>

struct options {
    bool modelfile, template, tensors, metadata, sbom, json;
};

/* The counts of a calibration: of the texts that were read, of what was observed, smoothed and
 * measured. */
enum { TOKENS, MATRICES, SMOOTHED, GROUPS, CACHES, N_COUNTS };

static const struct {
    const char *what, *unit, *key; /* key: in JSON */
} counted[N_COUNTS] = {{"texts", "tokens", "tokens"},
                       {"statistics", "matrices", "matrices"},
                       {"smoothing", "norms", "smoothed_norms"},
                       {"sensitivities", "groups of matrices", "groups"},
                       {"caches", "layers", "caches"}};

/* A tensor has the sums of one input, and the names of the matrices that read it, with commas. */
static size_t count_matrices(const struct sp_pack *pack)
{
    size_t n = sp_pack_n_tensors(pack);

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++)
        for (const char *at = sp_pack_tensor(pack, i)->name; *at; at++)
            n += *at == ',';
    return n;
}

static enum sp_status read_record(size_t counts[N_COUNTS], const struct sp_json *record,
                                  struct sp_err *err)
{
    int64_t n_tokens = 0;
    struct sp_sensitivities sensitivities = {0};
    struct sp_smoothing smoothing = {0};
    struct sp_cache_divergences caches = {0};
    enum sp_status st;

    if (!(st = sp_json_get_i64(record, "tokens", 0, INT64_MAX, &n_tokens, err)) &&
        !(st = sp_sensitivities_read(&sensitivities, record, err)))
        st = sp_smoothing_read(&smoothing, sp_json_get(record, "smoothing"), err);
    if (!st) st = sp_cache_divergences_read(&caches, sp_json_get(record, "caches"), err);
    counts[TOKENS] = (size_t)n_tokens;
    counts[GROUPS] = sensitivities.n;
    counts[SMOOTHED] = smoothing.n;
    sp_sensitivities_release(&sensitivities);
    for (size_t i = 0; i < caches.n; i++)
        counts[CACHES] += caches.layers[i].nats[SP_LAYER_F16] >= 0;
    sp_smoothing_release(&smoothing);
    sp_cache_divergences_release(&caches);
    return st;
}

static enum sp_status read_calibration(size_t counts[N_COUNTS], const struct sp_pack *pack,
                                       struct sp_err *err)
{
    struct sp_json *record = NULL;
    struct sp_text text;
    enum sp_status st;

    counts[MATRICES] = count_matrices(pack);
    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_CALIBRATION, &text, err);
    if (st) return st;
    st = sp_json_parse_within(&record, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (!st) st = read_record(counts, record, err);
    if (st) sp_context(err, "%s: section calibration", sp_pack_path(pack));
    sp_json_free(record);
    free(text.at);
    return st;
}

/* `name` is what the user calls the file. */
static enum sp_status print_calibration(const size_t counts[N_COUNTS], const char *name,
                                        const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_table table = {.align = "ll", .err = err};
    char size[SP_AMOUNT_TEXT];
    enum sp_status st;

    for (size_t i = 0; i < N_COUNTS; i++) {
        if (counts[i] == 0) continue;
        sp_table_add(&table, "%s", counted[i].what);
        sp_table_add(&table, "%zu %s", counts[i], counted[i].unit);
    }
    printf("%s: %s, a calibration, for --calibration of spectool create and quantize\n", name,
           sp_out_size(size, sp_pack_size(pack)));
    st = sp_table_print(stdout, &table, 2);
    sp_table_release(&table);
    return st;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_FLAG, 0, "modelfile", NULL, NULL, AT(modelfile),
     .help = "Print a Modelfile that recreates this file"},
    {SP_OPT_FLAG, 0, "template", NULL, NULL, AT(template), .help = "Print the chat template"},
    {SP_OPT_FLAG, 0, "tensors", NULL, NULL, AT(tensors),
     .help = "List all tensors: name, type, shape, bytes"},
    {SP_OPT_FLAG, 0, "metadata", NULL, NULL, AT(metadata),
     .help = "List all sections, and the configurations as they were read"},
    {SP_OPT_FLAG, 0, "sbom", NULL, NULL, AT(sbom),
     .help = "Print what the file was made of, as an SPDX document in JSON"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json),
     .help = "Print a JSON object per file, each in a line"},
    {.kind = SP_OPT_END},
};

/* True if the file has any tensor of the part. */
static bool has_part(const struct sp_pack *pack, enum sp_part part)
{
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++)
        if (sp_pack_tensor(pack, i)->part == part) return true;
    return false;
}

static enum sp_status show_modelfile(const char *name, const struct sp_pack *pack,
                                     struct sp_err *err)
{
    enum sp_status st;
    struct sp_text records, text = {0};

    if ((st = sp_pack_expect_model(pack, err))) return st;
    if ((st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records, err)))
        return st;
    st = sp_modelfile_recreate(&text, name, has_part(pack, SP_PART_DRAFT) ? name : NULL, &records,
                               err);
    if (st == SP_OK) fwrite(text.at, 1, text.size, stdout);
    free(records.at);
    free(text.at);
    return st;
}

/* Prints the template that `run` uses. */
static enum sp_status show_template(const char *name, const struct sp_pack *pack,
                                    struct sp_err *err)
{
    enum sp_status st;
    struct sp_template *template = NULL;
    const char *text;
    size_t size;

    if ((st = sp_template_open_file(&template, sp_pack_path(pack), SP_TEMPLATE_UNKNOWN, err)))
        return st;
    if (template == NULL) return sp_fail(err, SP_E_INPUT, "%s has no template", name);
    text = sp_template_text(template, &size);
    sp_out_text(stdout, text, size);
    if (sp_out_is_terminal(stdout) && size > 0 && text[size - 1] != '\n') putchar('\n');
    sp_template_close(template);
    return SP_OK;
}

static void shape_text(char text[96], const struct sp_pack_tensor *t)
{
    size_t len = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < t->rank; i++)
        len += (size_t)snprintf(text + len, 96 - len, "%s%" PRIu64, i ? "x" : "", t->shape[i]);
}

static enum sp_status show_tensors(const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_table table = {.align = "lllrr", .err = err};
    enum sp_status st;
    char shape[96];

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        shape_text(shape, t);
        sp_table_add(&table, "%s", sp_part_name(t->part));
        sp_table_add(&table, "%s", t->name);
        sp_table_add(&table, "%s", sp_dtype_info(t->dtype)->name);
        sp_table_add(&table, "%s", shape);
        sp_table_add(&table, "%" PRIu64, t->size);
    }
    st = sp_table_print(stdout, &table, 0);
    sp_table_release(&table);
    return st;
}

static void tensors_to_json(struct sp_json_out *out, const struct sp_pack *pack)
{
    sp_json_out_begin(out, "tensors", '[');
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        sp_json_out_put(out, "{part:%s, name:%s, type:%s, shape:[", sp_part_name(t->part), t->name,
                        sp_dtype_info(t->dtype)->name);
        for (unsigned k = 0; k < t->rank; k++)
            sp_json_out_u64(out, NULL, t->shape[k]);
        sp_json_out_put(out, "], size:%zu}", (size_t)t->size);
    }
    sp_json_out_end(out, ']');
}

static bool is_text(enum sp_section kind)
{
    return kind != SP_SECTION_TOKENIZER_MAP && kind != SP_SECTION_TOKENIZER;
}

static enum sp_status show_metadata(const struct sp_pack *pack, struct sp_err *err)
{
    for (size_t i = 0; i < sp_pack_n_sections(pack); i++) {
        const struct sp_pack_section *s = sp_pack_section(pack, i);
        enum sp_status st;
        struct sp_text text;
        printf("%s %s: %" PRIu64 " bytes, %" PRIu64 " stored\n", sp_part_name(s->part),
               sp_section_name(s->kind), s->size, s->stored);
        if (!is_text(s->kind)) continue;
        if ((st = sp_pack_read_section(pack, s->part, s->kind, &text, err))) return st;
        sp_out_text(stdout, text.at, text.size);
        if (text.size == 0 || text.at[text.size - 1] != '\n') putchar('\n');
        putchar('\n');
        free(text.at);
    }
    return SP_OK;
}

static enum sp_status metadata_to_json(struct sp_json_out *out, const struct sp_pack *pack,
                                       struct sp_err *err)
{
    sp_json_out_begin(out, "sections", '[');
    for (size_t i = 0; i < sp_pack_n_sections(pack); i++) {
        const struct sp_pack_section *s = sp_pack_section(pack, i);
        enum sp_status st;
        struct sp_text text = {0};
        if (is_text(s->kind) && (st = sp_pack_read_section(pack, s->part, s->kind, &text, err)))
            return st;
        sp_json_out_put(out, "{part:%s, name:%s, size:%zu, stored:%zu", sp_part_name(s->part),
                        sp_section_name(s->kind), (size_t)s->size, (size_t)s->stored);
        if (text.at) sp_json_out_string(out, "text", text.at, text.size);
        sp_json_out_end(out, '}');
        free(text.at);
    }
    sp_json_out_end(out, ']');
    return SP_OK;
}

static enum sp_status show_overview(const char *name, const struct sp_pack *pack, bool sbom,
                                    struct sp_err *err)
{
    enum sp_status st;
    size_t counts[N_COUNTS] = {0};
    struct sp_pack_facts facts;

    if (sbom && (st = sp_pack_expect_model(pack, err))) return st;
    if (sp_pack_is_calibration(pack)) {
        if ((st = read_calibration(counts, pack, err))) return st;
        return print_calibration(counts, name, pack, err);
    }
    if ((st = sp_pack_facts_read(&facts, pack, err))) return st;
    st = sbom ? sp_pack_facts_to_sbom(&facts, name, pack, err)
              : sp_pack_facts_print(&facts, name, pack, err);
    sp_pack_facts_release(&facts);
    return st;
}

static enum sp_status show_json(const char *name, const struct sp_pack *pack,
                                const struct options *o, struct sp_err *err)
{
    bool is_calibration = sp_pack_is_calibration(pack);
    size_t counts[N_COUNTS] = {0};
    struct sp_pack_facts facts = {0};
    struct sp_json_out out = {.file = stdout};
    char identity[17];
    enum sp_status st = is_calibration ? read_calibration(counts, pack, err)
                                       : sp_pack_facts_read(&facts, pack, err);

    if (st) return st;
    snprintf(identity, sizeof identity, "%016" PRIx64, sp_pack_identity(pack));
    sp_json_out_put(&out, "{file:%s, size:%zu", name, (size_t)sp_pack_size(pack));
    if (!sp_pack_is_outline(pack)) sp_json_out_text(&out, "identity", identity);
    if (is_calibration) {
        sp_json_out_begin(&out, "calibration", '{');
        for (size_t i = 0; i < N_COUNTS; i++)
            sp_json_out_u64(&out, counted[i].key, counts[i]);
        sp_json_out_end(&out, '}');
    } else {
        sp_pack_facts_to_json(&out, &facts);
    }
    if (o->tensors) tensors_to_json(&out, pack);
    if (o->metadata && !st) st = metadata_to_json(&out, pack, err);
    sp_json_out_end_line(&out);
    sp_pack_facts_release(&facts);
    return st;
}

static enum sp_status show_file(const char *name, const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_temp_file outline = {0};
    struct sp_pack *pack = NULL;
    enum sp_status st = sp_packed_checkpoint_is_needed(name)
                            ? sp_packed_checkpoint_outline(&outline, name, args->command->name, err)
                            : sp_packed_checkpoint_check_name(name, err);

    if (st || (st = sp_pack_open(&pack, outline.path ? outline.path : name, err))) goto done;
    /* The overview begins with the name. */
    if (args->n_operands > 1 && (o->tensors || o->metadata) && !o->json) printf("%s:\n", name);
    st = o->json        ? show_json(name, pack, o, err)
         : o->modelfile ? show_modelfile(name, pack, err)
         : o->template  ? show_template(name, pack, err)
         : o->tensors   ? show_tensors(pack, err)
         : o->metadata  ? show_metadata(pack, err)
                        : show_overview(name, pack, o->sbom, err);
done:
    sp_pack_close(pack);
    sp_temp_file_remove(&outline);
    return st;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    enum sp_status st = SP_OK;
    bool whole = o->modelfile || o->template || o->sbom; /* all that is printed */

    if (o->modelfile + o->template + o->tensors + o->metadata + o->sbom > 1 || (o->json && whole)) {
        return sp_fail(err, SP_E_USAGE,
                       "--modelfile, --template, --sbom, --tensors and --metadata cannot be "
                       "combined, and --json only with the last two");
    }
    if (args->n_operands > 1 && whole) {
        return sp_fail(err, SP_E_USAGE, "--%s takes one FILE",
                       o->modelfile  ? "modelfile"
                       : o->template ? "template"
                                     : "sbom");
    }
    for (size_t i = 0; i < args->n_operands && st == SP_OK; i++) {
        if (i > 0 && !o->json) putchar('\n');
        st = show_file(args->operands[i], args, err);
    }
    return st;
}

const struct sp_command sp_cmd_show = {
    .name = "show",
    .summary = "Show what packed files contain",
    .operands = "FILE...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .opts = opts,
    .options_size = sizeof(struct options),
    .takes_model = true,
    .in_place = true,
    .run = run,
};
