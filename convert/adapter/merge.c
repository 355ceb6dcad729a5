/* Finding the places of an adapter's changes. The changing itself is in merge_rows.c. */
#include "convert/adapter/merge.h"

#include "format/base/affix.h"
#include "format/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

/* A row span with the name of the tensor it is cut from. */
struct place {
    const char *name; /* without prefix */
    size_t span;      /* number */
    const struct sp_source_tensor *tensor;
};

struct placing {
    struct sp_merge *merge;
    const struct sp_specs *specs;
    const struct sp_source_tensor *tensors; /* by name */
    size_t n_tensors;
    struct place *places; /* by name */
    size_t n_places;
    struct sp_err *err;
};

/* ---- names ---- */

/* The prefixes of wrappers and multimodal models differ between checkpoints of a model. */
static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = {"model.", "language_model.", "backbone."};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0];) {
        size_t n = strlen(prefixes[i]);
        bool here = strncmp(name, prefixes[i], n) == 0;
        if (here) name += n;
        i = here ? 0 : i + 1;
    }
    return name;
}

static bool is_table(const char *bare)
{
    static const char *const names[] = {"embed_tokens", "embeddings", "lm_head"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(bare, names[i], n) == 0 && (bare[n] == '\0' || bare[n] == '.')) return true;
    }
    return false;
}

bool sp_merge_touches_tables(const struct sp_adapter *adapter)
{
    for (size_t i = 0; i < adapter->n_products; i++)
        if (is_table(without_prefix(adapter->products[i].module))) return true;
    for (size_t i = 0; i < adapter->n_wholes; i++)
        if (is_table(without_prefix(adapter->wholes[i].name))) return true;
    return false;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->span > y->span) - (x->span < y->span);
}

/* The spec's name decides between embedding and output matrix, since either may be cut from the
 * other's tensor. */
static enum sp_status list_places(struct placing *p)
{
    enum sp_status st = sp_new(&p->places, p->specs->n_spans, sizeof *p->places, p->err);

    if (st) return st;
    for (size_t s = 0; s < p->specs->n_specs; s++) {
        const struct sp_tensor_spec *spec = &p->specs->specs[s];
        bool table = spec->role == SP_ROLE_EMBEDDING || spec->role == SP_ROLE_HEAD;
        for (size_t i = spec->first_span; i < spec->first_span + spec->n_spans; i++) {
            const char *source = p->specs->spans[i].source;
            struct place *place = &p->places[p->n_places++];
            place->span = i;
            place->name = table ? spec->name : without_prefix(source);
            place->tensor =
                bsearch(&source, p->tensors, p->n_tensors, sizeof *p->tensors, sp_compare_names);
            if (place->tensor == NULL)
                return sp_fail(p->err, SP_E_BUG, "tensor %s is not listed", source);
        }
    }
    if (p->n_places > 1) qsort(p->places, p->n_places, sizeof *p->places, compare_places);
    return SP_OK;
}

/* The places of a tensor, *n of them, by its name in the adapter; NULL: there are none. */
static const struct place *find_places(const struct placing *p, const char *name, size_t *n)
{
    const char *bare = without_prefix(name);
    size_t low = 0, high = p->n_places;

    if (strcmp(bare, "embeddings.weight") == 0) bare = "embed_tokens.weight";
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(p->places[middle].name, bare) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (*n = 0; low + *n < p->n_places && strcmp(p->places[low + *n].name, bare) == 0;)
        ++*n;
    return *n ? &p->places[low] : NULL;
}

/* ---- shapes ---- */

static enum sp_status check_float(const struct placing *p, const struct sp_adapter_tensor *t)
{
    if (t->dtype == SP_F32 || t->dtype == SP_F16 || t->dtype == SP_BF16) return SP_OK;
    return sp_fail(p->err, SP_E_UNSUPPORTED, "tensor \"%s\" is of type %s, expected a float",
                   t->name, sp_dtype_info(t->dtype)->name);
}

/* It must be of a float type, and [rows, cols], or [rows] where cols is 0; of `experts` (0: not by
 * experts) [experts, rows, cols]. */
static enum sp_status check_shape(const struct placing *p, const struct sp_adapter_tensor *t,
                                  uint64_t experts, uint64_t rows, uint64_t cols,
                                  const struct sp_source_tensor *of)
{
    uint64_t all[3] = {experts, rows, cols}, *want = experts ? all : all + 1;
    unsigned rank = (cols ? 2u : 1u) + (experts ? 1u : 0u);
    char found[SP_SHAPE_TEXT], wanted[SP_SHAPE_TEXT], model[SP_SHAPE_TEXT];
    enum sp_status st;

    if ((st = check_float(p, t))) return st;
    if (t->rank == rank && memcmp(t->shape, want, rank * sizeof *want) == 0) return SP_OK;
    return sp_fail(p->err, SP_E_INPUT,
                   "tensor \"%s\" has shape %s, expected %s, since %s has shape %s", t->name,
                   sp_shape_text(found, t->shape, t->rank), sp_shape_text(wanted, want, rank),
                   of->name, sp_shape_text(model, of->shape, of->rank));
}

static enum sp_status check_product(const struct placing *p, const struct sp_adapter_product *x,
                                    const struct sp_source_tensor *of)
{
    struct sp_adapter_factors f = sp_adapter_factors(&p->merge->adapter, x);
    uint64_t rank = f.rank, experts = x->experts ? x->a->shape[0] : 0;
    enum sp_status st;
    char shape[SP_SHAPE_TEXT];

    if (of->rank != 2) {
        return sp_fail(p->err, SP_E_UNSUPPORTED, "tensor \"%s\" is for %s, which is not a matrix",
                       x->a->name, of->name);
    }
    if (rank == 0 || rank > SP_ADAPTER_MAX_RANK) {
        return sp_fail(
            p->err, SP_E_INPUT, "tensor \"%s\" has shape %s, expected a matrix of rank 1 to %d",
            f.left->name, sp_shape_text(shape, f.left->shape, f.left->rank), SP_ADAPTER_MAX_RANK);
    }
    if (x->rank && rank != x->rank) {
        return sp_fail(p->err, SP_E_INPUT,
                       "tensor \"%s\" has rank %" PRIu64 ", but its config says %" PRIu64,
                       f.left->name, rank, x->rank);
    }
    st = check_shape(p, f.left, experts, f.left_transposed ? rank : of->shape[0],
                     f.left_transposed ? of->shape[0] : rank, of);
    if (st) return st;
    st = check_shape(p, f.right, experts, f.right_transposed ? of->shape[1] : rank,
                     f.right_transposed ? rank : of->shape[1], of);
    if (st || x->magnitudes == NULL) return st;
    return check_shape(p, x->magnitudes, 0, of->shape[0], 0, of);
}

/* ---- placing ---- */

static enum sp_status fail_without_place(const struct placing *p, const struct sp_adapter_tensor *t,
                                         const char *name)
{
    return sp_fail(p->err, SP_E_INPUT,
                   "tensor \"%s\" changes %s, which the model does not have: the adapter belongs "
                   "to another model, or changes a part that is not packed",
                   t->name, name);
}

/* Rows of matrices only: of what is packed the other way round, or counts as a vector, no row is a
 * row of the adapter's. */
static enum sp_status check_pieces(const struct placing *p, const struct place *places, size_t n,
                                   const char *changed_by)
{
    for (size_t i = 0; i < n; i++) {
        const struct sp_row_span *span = &p->specs->spans[places[i].span];
        const struct sp_source_tensor *of = places[i].tensor;
        if (!span->transposed && (of->rank == 1 || span->n_cols == of->shape[of->rank - 1]))
            continue;
        return sp_fail(p->err, SP_E_UNSUPPORTED, "tensor \"%s\" is for %s, which %s", changed_by,
                       of->name,
                       span->transposed ? "is transposed when it is packed" : "is not a matrix");
    }
    return SP_OK;
}

static enum sp_status place_bias(struct placing *p, const struct sp_adapter_product *x)
{
    char name[NAME_SIZE];
    const struct place *places;
    enum sp_status st;
    size_t n;

    snprintf(name, sizeof name, "%s.bias", x->module);
    if ((places = find_places(p, name, &n)) == NULL) {
        return sp_fail(p->err, SP_E_UNSUPPORTED,
                       "tensor \"%s\": %s has no bias that it could be added to", x->bias->name,
                       x->module);
    }
    if ((st = check_shape(p, x->bias, 0, places->tensor->shape[0], 0, places->tensor))) return st;
    if ((st = check_pieces(p, places, n, x->bias->name))) return st;
    for (size_t i = 0; i < n; i++)
        p->merge->changes[places[i].span].bias = x;
    return SP_OK;
}

/* At one weight, of the whole product or of one expert. */
static enum sp_status place_weight(struct placing *p, struct sp_adapter_product *x,
                                   const char *name, uint64_t expert)
{
    const struct place *places;
    enum sp_status st;
    size_t n;

    if ((places = find_places(p, name, &n)) == NULL) return fail_without_place(p, x->a, name);
    if (p->merge->adapter.config.format != SP_ADAPTER_PEFT)
        x->embeds = strcmp(places->name, "embed_tokens.weight") == 0;
    if ((st = check_product(p, x, places->tensor))) return st;
    if ((st = check_pieces(p, places, n, x->a->name))) return st;
    for (size_t i = 0; i < n; i++) {
        struct sp_merge_change *change = &p->merge->changes[places[i].span];
        if (change->product) {
            return sp_fail(p->err, SP_E_INPUT, "modules %s and %s are the same module",
                           change->product->module, x->module);
        }
        change->product = x;
        change->expert = expert;
    }
    return SP_OK;
}

/* mlx-lm and GGUF files have the experts of a layer in one: X.switch_mlp.up_proj for
 * X.experts.N.up_proj. */
static enum sp_status place_experts(struct placing *p, struct sp_adapter_product *x)
{
    static const char all[] = ".switch_mlp.";
    const char *at = strstr(x->module, all);
    uint64_t n = x->a->shape[0];
    char name[NAME_SIZE];
    enum sp_status st;
    size_t n_places;

    if (at == NULL || n == 0)
        return sp_fail(p->err, SP_E_UNSUPPORTED, "tensor \"%s\": not a matrix", x->a->name);
    for (uint64_t e = 0; e <= n; e++) {
        snprintf(name, sizeof name, "%.*s.experts.%" PRIu64 ".%s.weight", (int)(at - x->module),
                 x->module, e, at + sizeof all - 1);
        if (e == n) break;
        if ((st = place_weight(p, x, name, e))) return st;
    }
    if (find_places(p, name, &n_places) == NULL) return SP_OK;
    return sp_fail(p->err, SP_E_INPUT,
                   "tensor \"%s\" is of %" PRIu64 " experts, but the model has more", x->a->name,
                   n);
}

static enum sp_status place_product(struct placing *p, struct sp_adapter_product *x)
{
    char name[NAME_SIZE];
    enum sp_status st;

    if (x->experts) return place_experts(p, x);
    snprintf(name, sizeof name, "%s.weight", x->module);
    if ((st = place_weight(p, x, name, 0))) return st;
    return x->bias ? place_bias(p, x) : SP_OK;
}

static enum sp_status place_whole(struct placing *p, const struct sp_adapter_whole *x)
{
    const struct sp_source_tensor *of;
    enum sp_status st;
    char found[SP_SHAPE_TEXT], model[SP_SHAPE_TEXT];
    size_t n;
    const struct place *places = find_places(p, x->name, &n);

    if (places == NULL) return fail_without_place(p, x->tensor, x->name);
    of = places->tensor;
    if (x->tensor->rank != of->rank ||
        memcmp(x->tensor->shape, of->shape, of->rank * sizeof *of->shape) != 0) {
        return sp_fail(p->err, SP_E_INPUT, "tensor \"%s\" has shape %s, but %s has shape %s",
                       x->tensor->name, sp_shape_text(found, x->tensor->shape, x->tensor->rank),
                       of->name, sp_shape_text(model, of->shape, of->rank));
    }
    if ((st = check_float(p, x->tensor))) return st;
    if ((st = check_pieces(p, places, n, x->tensor->name))) return st;
    for (size_t i = 0; i < n; i++) {
        struct sp_merge_change *change = &p->merge->changes[places[i].span];
        if (change->whole) {
            return sp_fail(p->err, SP_E_INPUT, "tensors \"%s\" and \"%s\" have the same role",
                           change->whole->name, x->tensor->name);
        }
        change->whole = x->tensor;
    }
    return SP_OK;
}

enum sp_status sp_merge_place(struct sp_merge *merge, const struct sp_specs *spans,
                              struct sp_source_tensor *tensors, size_t n, struct sp_err *err)
{
    struct placing p = {
        .merge = merge, .specs = spans, .tensors = tensors, .n_tensors = n, .err = err};
    struct sp_adapter *a = &merge->adapter;
    enum sp_status st;

    if (n > 1) qsort(tensors, n, sizeof *tensors, sp_compare_names);
    if ((st = sp_new(&merge->changes, spans->n_spans, sizeof *merge->changes, err))) return st;
    merge->n_spans = spans->n_spans;
    if ((st = list_places(&p))) goto done;
    for (size_t i = 0; i < a->n_wholes; i++)
        if ((st = place_whole(&p, &a->wholes[i]))) goto done;
    for (size_t i = 0; i < a->n_products; i++)
        if ((st = place_product(&p, &a->products[i]))) goto done;
done:
    free(p.places);
    if (st) sp_context(err, "%s", a->path);
    return st;
}

const struct sp_tensor_spec *sp_merge_spec(const struct sp_merge *merge,
                                           const struct sp_tensor_spec *spec)
{
    return merge->specs.n_specs ? sp_specs_find(&merge->specs, spec->name) : spec;
}

bool sp_merge_changes(const struct sp_merge *merge, const struct sp_tensor_spec *spec)
{
    const struct sp_tensor_spec *cut = sp_merge_spec(merge, spec);

    for (size_t i = 0; i < cut->n_spans; i++) {
        const struct sp_merge_change *c = &merge->changes[cut->first_span + i];
        if (c->whole || c->product || c->bias) return true;
    }
    return false;
}

void sp_merge_release(struct sp_merge *merge)
{
    sp_adapter_release(&merge->adapter);
    sp_specs_release(&merge->specs);
    free(merge->changes);
    *merge = (struct sp_merge){0};
}
