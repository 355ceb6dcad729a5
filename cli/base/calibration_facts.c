#include "cli/base/calibration_facts.h"
#include "cli/base/out.h"
#include "format/base/json.h"
#include "format/weights/sensitivity.h"
#include "format/weights/smoothing.h"

#include <stdlib.h>

/* A tensor has the sums of one input, and the names of the matrices that read it, with commas. */
static size_t count_matrices(const struct sp_pack *pack)
{
    size_t n = sp_pack_n_tensors(pack);

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++)
        for (const char *at = sp_pack_tensor(pack, i)->name; *at; at++)
            n += *at == ',';
    return n;
}

static enum sp_status read_record(struct sp_calibration_facts *f, const struct sp_json *record,
                                  struct sp_err *err)
{
    struct sp_sensitivities sensitivities = {0};
    struct sp_smoothing smoothing = {0};
    enum sp_status st;

    if (!(st = sp_json_get_i64(record, "tokens", 0, INT64_MAX, &f->n_tokens, err)) &&
        !(st = sp_sensitivities_read(&sensitivities, record, err)))
        st = sp_smoothing_read(&smoothing, sp_json_get(record, "smoothing"), err);
    f->n_groups = sensitivities.n;
    f->n_smoothed = smoothing.n;
    sp_sensitivities_release(&sensitivities);
    sp_smoothing_release(&smoothing);
    return st;
}

enum sp_status sp_calibration_facts_read(struct sp_calibration_facts *out,
                                         const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_json *record = NULL;
    char *text = NULL;
    size_t size = 0;
    enum sp_status st;

    *out = (struct sp_calibration_facts){.n_matrices = count_matrices(pack)};
    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_CALIBRATION, &text, &size, err);
    if (st) return st;
    st = sp_json_parse_within(&record, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (!st) st = read_record(out, record, err);
    if (st) sp_context(err, "%s: section calibration", sp_pack_path(pack));
    sp_json_free(record);
    free(text);
    return st;
}

enum sp_status sp_calibration_facts_print(const struct sp_calibration_facts *facts,
                                          const char *name, const struct sp_pack *pack,
                                          struct sp_err *err)
{
    const struct {
        const char *what, *unit;
        size_t n;
    } rows[] = {{"texts", "tokens", (size_t)facts->n_tokens},
                {"statistics", "matrices", facts->n_matrices},
                {"smoothing", "norms", facts->n_smoothed},
                {"sensitivities", "groups of matrices", facts->n_groups}};
    struct sp_table table = {.align = "ll", .err = err};
    char size[SP_AMOUNT_TEXT];
    enum sp_status st;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].n == 0) continue;
        sp_table_add(&table, "%s", rows[i].what);
        sp_table_add(&table, "%zu %s", rows[i].n, rows[i].unit);
    }
    printf("%s: %s, a calibration, for --calibration of spectool create and quantize\n", name,
           sp_out_size(size, sp_pack_size(pack)));
    st = sp_table_print(stdout, &table, 2);
    sp_table_release(&table);
    return st;
}

void sp_calibration_facts_to_json(struct sp_json_out *out, const struct sp_calibration_facts *facts)
{
    sp_json_out_begin(out, "calibration", '{');
    sp_json_out_u64(out, "tokens", (uint64_t)facts->n_tokens);
    sp_json_out_u64(out, "matrices", facts->n_matrices);
    sp_json_out_u64(out, "smoothed_norms", facts->n_smoothed);
    sp_json_out_u64(out, "groups", facts->n_groups);
    sp_json_out_end(out, '}');
}
