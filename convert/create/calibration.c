#include "convert/create/calibration.h"

#include "format/base/mem.h"
#include "format/json/json.h"
#include "format/packfile.h"
#include "quantize/types/gptq.h"

#include <stdlib.h>
#include <string.h>

static int compare_entries(const void *a, const void *b)
{
    const struct sp_calibration_entry *x = a, *y = b;

    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return strcmp(x->name, y->name);
}

static enum sp_status fail_other(const char *path, struct sp_err *err)
{
    return sp_fail(
        err, SP_E_INPUT,
        "%s: not a calibration file; spectool calibrate makes one from a packed file and texts",
        path);
}

static enum sp_status read_check(struct sp_calibration_file *f, const struct sp_json *list,
                                 struct sp_err *err)
{
    size_t n = sp_json_len(list);
    enum sp_status st = sp_new(&f->check, n, sizeof *f->check, err);
    int64_t id;

    for (size_t i = 0; i < n && !st; i++)
        if (sp_json_to_i64(sp_json_at(list, i), &id) && id >= 0 && id <= INT32_MAX)
            f->check[f->n_check++] = (uint32_t)id;
        else
            st = sp_fail(err, SP_E_INPUT, "check[%zu] is not a token ID", i);
    return st;
}

static enum sp_status read_record(struct sp_calibration_file *f, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_pack *pack = f->pack;
    struct sp_json *record = NULL;
    struct sp_text text;
    int64_t block = 0;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_CALIBRATION, &text, err);
    if (st) return st;
    if (text.at == NULL) return fail_other(sp_pack_path(pack), err);
    st = sp_json_parse_within(&record, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (!st) st = sp_json_get_i64(record, "block", 1, INT32_MAX, &block, err);
    if (!st && block != SP_GPTQ_BLOCK) {
        st = sp_fail(
            err, SP_E_UNSUPPORTED,
            "it has blocks of %lld columns, as another version of spectool makes them, not of %d; "
            "make the calibration again",
            (long long)block, SP_GPTQ_BLOCK);
    }
    if (!st) st = read_check(f, sp_json_get(record, "check"), err);
    if (!st) st = sp_sensitivities_read(&f->sensitivities, record, err);
    if (!st) st = sp_smoothing_read(&f->smoothing, sp_json_get(record, "smoothing"), err);
    if (!st) st = sp_cache_divergences_read(&f->caches, sp_json_get(record, "caches"), err);
    if (st)
        sp_context(err, "%s: section %s", sp_pack_path(pack),
                   sp_section_name(SP_SECTION_CALIBRATION));
    sp_json_free(record);
    free(text.at);
    return st;
}

static const float *squares_of(const struct sp_pack_tensor *t)
{
    return (const float *)(const void *)t->data;
}

static enum sp_status check_numbers(const struct sp_pack *pack, size_t i, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
    size_t n = (size_t)t->shape[0];

    if (t->part == SP_PART_FILE || t->dtype != (t->rank == 2 ? SP_F32 : SP_BF16) ||
        t->layout != SP_PLAIN || t->rank > 2) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: tensor %s: expected bf16 of rank 1 or f32 of rank 2, of a model",
                       sp_pack_path(pack), t->name);
    }
    if (t->rank == 1 && sp_gptq_cols(n) == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: tensor %s: %zu numbers are not the factors of any input",
                       sp_pack_path(pack), t->name, n);
    }
    if ((st = sp_pack_check_tensor(pack, i, err))) return st;
    if (t->rank == 2 ? sp_gptq_are_squares(squares_of(t), n * (size_t)t->shape[1])
                     : sp_gptq_is_sound(t->data, sp_gptq_cols(n)))
        return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "%s: tensor %s: it contains a number that is not finite or out of its range",
                   sp_pack_path(pack), t->name);
}

/* One entry for each of the names between commas. */
static enum sp_status add_names(struct sp_calibration_file *f, const struct sp_pack_tensor *t,
                                struct sp_err *err)
{
    enum sp_status st;

    for (const char *at = t->name, *end; at; at = *end ? end + 1 : NULL) {
        struct sp_calibration_entry *e;
        end = at + strcspn(at, ",");
        st = sp_grow(&f->entries, &f->cap_entries, f->n_entries + 1, sizeof *f->entries, err);
        if (st) return st;
        e = &f->entries[f->n_entries];
        *e = (struct sp_calibration_entry){.part = t->part, .tensor = t};
        if ((st = sp_copy_text(&e->name, at, (size_t)(end - at), err))) return st;
        f->n_entries++;
    }
    return SP_OK;
}

static const char *path_of(const struct sp_calibration_file *f)
{
    return f->pack ? sp_pack_path(f->pack) : f->path;
}

static enum sp_status sort_names(struct sp_calibration_file *f, struct sp_err *err)
{
    if (f->n_entries) qsort(f->entries, f->n_entries, sizeof *f->entries, compare_entries);
    for (size_t i = 1; i < f->n_entries; i++) {
        if (compare_entries(&f->entries[i - 1], &f->entries[i]) != 0) continue;
        return sp_fail(err, SP_E_INPUT, "%s: matrix %s occurs twice", path_of(f),
                       f->entries[i].name);
    }
    return SP_OK;
}

enum sp_status sp_calibration_take(struct sp_calibration_file *out, struct sp_pack *pack,
                                   struct sp_err *err)
{
    enum sp_status st;

    out->pack = pack;
    if ((st = read_record(out, err))) return st;
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        if ((st = check_numbers(pack, i, err))) return st;
        if ((st = add_names(out, sp_pack_tensor(pack, i), err))) return st;
    }
    return sort_names(out, err);
}

enum sp_status sp_calibration_open(struct sp_calibration_file *out, const char *path,
                                   const struct sp_source *target, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st;
    bool is_pack, is_one;

    if ((st = sp_pack_recognize(&is_pack, path, err))) return st;
    if (is_pack) {
        st = sp_pack_open(&pack, path, err);
        return st ? st : sp_calibration_take(out, pack, err);
    }
    if (target == NULL) return SP_OK;
    if ((st = sp_copy_text(&out->path, path, strlen(path), err))) return st;
    if ((st = sp_importances_read(&out->importances, &is_one, path, target, err))) return st;
    if (!is_one) return fail_other(path, err);
    for (size_t i = 0; i < out->importances.n; i++)
        if ((st = add_names(out, &out->importances.tensors[i], err))) return st;
    return sort_names(out, err);
}

void sp_calibration_release(struct sp_calibration_file *file)
{
    for (size_t i = 0; i < file->n_entries; i++)
        free(file->entries[i].name);
    free(file->entries);
    sp_sensitivities_release(&file->sensitivities);
    sp_smoothing_release(&file->smoothing);
    sp_cache_divergences_release(&file->caches);
    free(file->check);
    free(file->path);
    sp_importances_release(&file->importances);
    sp_pack_close(file->pack);
}

/* Whether a tensor of the file has the numbers for a matrix, or for each matrix of a stack. */
static bool suits(const struct sp_pack_tensor *t, const struct sp_tensor_spec *spec)
{
    uint64_t cols = sp_spec_cols(spec), n = spec->rank == 3 ? spec->shape[0] : 1;

    if (t->rank == 1) return sp_gptq_cols((size_t)t->shape[0]) == cols;
    return t->shape[0] == n && t->shape[1] == cols;
}

static enum sp_status check_source(const struct sp_calibration_file *f,
                                   const struct sp_source *source, enum sp_part part,
                                   struct sp_err *err)
{
    const char *model = part == SP_PART_DRAFT ? "draft" : "model";

    for (size_t i = 0; i < f->n_entries; i++) {
        const struct sp_calibration_entry *e = &f->entries[i];
        const struct sp_tensor_spec *spec = sp_specs_find(&source->specs, e->name);
        if (e->part != part) continue;
        if (spec == NULL || !sp_role_is_matrix(spec->role)) {
            return sp_fail(err, SP_E_INPUT, "%s: made for another %s: %s has no matrix %s",
                           path_of(f), model, source->path, e->name);
        }
        if (suits(e->tensor, spec)) continue;
        return sp_fail(err, SP_E_INPUT,
                       "%s: made for another %s: its numbers for %s do not suit the shape in %s",
                       path_of(f), model, e->name, source->path);
    }
    return SP_OK;
}

/* The entry of a matrix of a part; NULL: there is none. */
static const struct sp_calibration_entry *find_entry(const struct sp_calibration_file *file,
                                                     enum sp_part part, const char *name)
{
    struct sp_calibration_entry key = {.name = (char *)(uintptr_t)name, .part = part};

    if (file->n_entries == 0) return NULL;
    return bsearch(&key, file->entries, file->n_entries, sizeof key, compare_entries);
}

/* Whether an item becomes q2 to q6. */
static bool is_rounded(const struct sp_plan_item *item)
{
    return item->bytes == NULL && sp_dtype_code_bits(item->to);
}

static bool rounds(const struct sp_plan *plan, enum sp_part part)
{
    for (size_t i = 0; i < plan->n_items; i++)
        if (plan->items[i].part == part && is_rounded(&plan->items[i])) return true;
    return false;
}

/* Whether a tensor is only looked up: an embedding, unless it is the output matrix, too. */
static bool is_lookup(const struct sp_tensor_spec *spec, bool is_tied)
{
    if (spec->role != SP_ROLE_EMBEDDING) return false;
    return !is_tied || strcmp(spec->name, "embed_tokens.weight") != 0;
}

enum sp_status sp_calibration_apply(const struct sp_calibration_file *file, struct sp_plan *plan,
                                    const struct sp_source *source, enum sp_part part,
                                    size_t *n_used, size_t *n_without, struct sp_err *err)
{
    bool is_tied = true;
    enum sp_status st;

    for (size_t i = 0; i < source->specs.n_specs; i++)
        is_tied = is_tied && source->specs.specs[i].role != SP_ROLE_HEAD;
    *n_used = *n_without = 0;
    if (part == SP_PART_DRAFT && !rounds(plan, part)) return SP_OK;
    if ((st = check_source(file, source, part, err))) return st;
    for (size_t i = 0; i < plan->n_items; i++) {
        struct sp_plan_item *item = &plan->items[i];
        const struct sp_calibration_entry *e;
        if (item->part != part || !is_rounded(item)) continue;
        e = find_entry(file, part, item->spec->name);
        *n_used += e != NULL;
        *n_without += e == NULL && !is_lookup(item->spec, is_tied);
        if (e == NULL) continue;
        if (e->tensor->rank == 2 && item->exponents) {
            return sp_fail(err, SP_E_INPUT,
                           "%s: it smooths the input of %s, so that squares do not suffice",
                           path_of(file), e->name);
        }
        if (e->tensor->rank == 2)
            item->weights.squares = squares_of(e->tensor);
        else
            item->weights.factors = e->tensor->data;
    }
    return SP_OK;
}

bool sp_calibration_names(const struct sp_calibration_file *file, enum sp_part part,
                          const char *matrix)
{
    return find_entry(file, part, matrix) != NULL;
}

bool sp_calibration_has(const struct sp_calibration_file *file, enum sp_part part)
{
    for (size_t i = 0; i < file->n_entries; i++)
        if (file->entries[i].part == part) return true;
    return false;
}
