/* The members of each kind of receipt are a table, which the check of foreign bytes walks. */
#include "format/receipts.h"

#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "format/base/unicode.h"
#include "format/dtype.h"
#include "format/packfile_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char sp_receipt_evaluation[] = "evaluation", sp_receipt_drafting[] = "drafting",
           sp_receipt_types[] = "types", sp_receipt_draft_type[] = "draft-type";

enum member_type {
    END,
    KIND,     /* the first member of a receipt */
    NAME,     /* 1 to 255 bytes of printable UTF-8 */
    DIGEST,   /* 16 lowercase hexadecimal digits */
    DIGEST2,  /* 32 of them */
    COUNT,    /* an integer, not negative */
    NUMBER,   /* finite */
    ESTIMATE, /* [mean, half of its interval or null] */
    DTYPE,    /* the name of a tensor's type */
    LIST,     /* an array of objects */
    RESULTS,  /* an array of as many objects as the list before it has */
};

struct member {
    enum member_type type;
    const char *name;
    bool optional;
    const struct member *items; /* of LIST and RESULTS */
};

static const struct member text_members[] = {
    {NAME, "name", false, NULL},
    {DIGEST2, "digest", false, NULL},
    {COUNT, "positions", false, NULL},
    {END, NULL, false, NULL},
};

static const struct member quality_members[] = {
    {ESTIMATE, "loss", false, NULL},
    {ESTIMATE, "divergence", true, NULL},
    {ESTIMATE, "agreement", true, NULL},
    {END, NULL, false, NULL},
};

static const struct member round_members[] = {
    {COUNT, "rounds", false, NULL},  {COUNT, "tokens", false, NULL},
    {COUNT, "drafted", false, NULL}, {COUNT, "accepted", false, NULL},
    {END, NULL, false, NULL},
};

static const struct member evaluation[] = {
    {KIND, "kind", false, NULL},
    {DIGEST, "target", false, NULL},
    {NAME, "reference_name", true, NULL},
    {DIGEST, "reference", true, NULL},
    {NAME, "kv_type", false, NULL},
    {COUNT, "window", false, NULL},
    {COUNT, "stride", false, NULL},
    {LIST, "texts", false, text_members},
    {RESULTS, "results", false, quality_members},
    {END, NULL, false, NULL},
};

static const struct member drafting[] = {
    {KIND, "kind", false, NULL},
    {DIGEST, "target", false, NULL},
    {DIGEST, "draft", false, NULL},
    {NAME, "kv_type", false, NULL},
    {COUNT, "draft_length", false, NULL},
    {COUNT, "places", false, NULL},
    {COUNT, "predict", false, NULL},
    {LIST, "texts", false, text_members},
    {RESULTS, "results", false, round_members},
    {END, NULL, false, NULL},
};

static const struct member types[] = {
    {KIND, "kind", false, NULL},  {DIGEST, "target", false, NULL},      {COUNT, "size", true, NULL},
    {NUMBER, "bits", true, NULL}, {NUMBER, "predicted_kl", true, NULL}, {END, NULL, false, NULL},
};

static const struct member trial_members[] = {
    {DTYPE, "type", false, NULL},
    {COUNT, "size", false, NULL},
    {COUNT, "draft_length", false, NULL},
    {COUNT, "round_bytes", false, NULL},
    {NUMBER, "tokens_per_round", false, NULL},
    {NUMBER, "speed_up", false, NULL},
    {END, NULL, false, NULL},
};

static const struct member draft_type[] = {
    {KIND, "kind", false, NULL},
    {DIGEST, "target", false, NULL},
    {DIGEST, "draft", false, NULL},
    {DTYPE, "type", false, NULL},
    {COUNT, "plain_bytes", false, NULL},
    {LIST, "texts", false, text_members},
    {LIST, "results", false, trial_members},
    {END, NULL, false, NULL},
};

static const struct {
    const char *name;
    const struct member *members;
} kinds[] = {
    {sp_receipt_evaluation, evaluation},
    {sp_receipt_drafting, drafting},
    {sp_receipt_types, types},
    {sp_receipt_draft_type, draft_type},
};

/* ---- the check --------------------------------------------------------------------------------
 */

static bool is_digest(const struct sp_json *v, size_t n)
{
    size_t len = 0;
    const char *text = sp_json_to_string(v, &len);

    return text && len == n && strspn(text, "0123456789abcdef") == n;
}

static bool is_name(const struct sp_json *v)
{
    size_t len = 0;
    const char *text = sp_json_to_string(v, &len);

    return text && sp_pack_name_valid(text, len);
}

static bool is_number(const struct sp_json *v)
{
    double x;

    return sp_json_to_double(v, &x) && isfinite(x);
}

static bool is_estimate(const struct sp_json *v)
{
    const struct sp_json *half = sp_json_at(v, 1);
    double x;

    if (sp_json_kind(v) != SP_JSON_ARRAY || sp_json_len(v) != 2 || !is_number(sp_json_at(v, 0)))
        return false;
    return half == NULL || (sp_json_to_double(half, &x) && isfinite(x) && x >= 0);
}

static bool is_dtype(const struct sp_json *v)
{
    const char *name = sp_json_to_string(v, NULL);

    return name && sp_dtype_find(name) != SP_DTYPE_NONE;
}

/* A member other than a list. */
static bool is_valid(const struct sp_json *v, enum member_type type)
{
    uint64_t n;

    switch (type) {
    case KIND:
        return true;
    case NAME:
        return is_name(v);
    case DIGEST:
        return is_digest(v, 16);
    case DIGEST2:
        return is_digest(v, 32);
    case COUNT:
        return sp_json_to_u64(v, &n);
    case NUMBER:
        return is_number(v);
    case ESTIMATE:
        return is_estimate(v);
    case DTYPE:
        return is_dtype(v);
    default:
        return false;
    }
}

/* Finds the row of the next member, from *at on: rows in between must be optional. */
static const struct member *find_row(const struct member **at, const char *key)
{
    const struct member *row = *at;

    while (row->type != END && strcmp(row->name, key) != 0) {
        if (!row->optional) return NULL;
        row++;
    }
    *at = row->type == END ? row : row + 1;
    return row->type == END ? NULL : row;
}

static enum sp_status fail_member(const char *key, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "member %s is not valid at its place", key);
}

/* An object without lists. */
static bool is_item(const struct sp_json *object, const struct member *rows)
{
    struct sp_json_iter it = {0};

    if (sp_json_kind(object) != SP_JSON_OBJECT) return false;
    while (sp_json_next(object, &it)) {
        const struct member *row = find_row(&rows, it.key);
        if (row == NULL || !is_valid(it.value, row->type)) return false;
    }
    for (; rows->type != END; rows++)
        if (!rows->optional) return false;
    return true;
}

/* *n_items becomes the number of objects. */
static bool is_list(const struct sp_json *list, const struct member *row, size_t *n_items)
{
    size_t n = sp_json_len(list);

    if (sp_json_kind(list) != SP_JSON_ARRAY || n == 0) return false;
    if (row->type == RESULTS && n != *n_items) return false;
    *n_items = n;
    for (size_t i = 0; i < n; i++)
        if (!is_item(sp_json_at(list, i), row->items)) return false;
    return true;
}

static enum sp_status check_members(const struct sp_json *receipt, const struct member *rows,
                                    struct sp_err *err)
{
    struct sp_json_iter it = {0};
    size_t n_items = 0;

    while (sp_json_next(receipt, &it)) {
        const struct member *row = find_row(&rows, it.key);
        bool good =
            row && (row->items ? is_list(it.value, row, &n_items) : is_valid(it.value, row->type));
        if (!good) return fail_member(it.key, err);
    }
    for (; rows->type != END; rows++)
        if (!rows->optional) return sp_fail(err, SP_E_INPUT, "member %s is missing", rows->name);
    return SP_OK;
}

static enum sp_status check_receipt(const struct sp_json *receipt, struct sp_err *err)
{
    const char *kind = sp_json_get_text(receipt, "kind");

    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0) return check_members(receipt, kinds[i].members, err);
    return sp_fail(err, SP_E_INPUT, "its kind is not known");
}

/* ---- the weights that a receipt is about -------------------------------------------------------
 */

enum sp_status sp_part_digests_of(struct sp_part_digests *out, const struct sp_pack *pack,
                                  struct sp_err *err)
{
    enum sp_status st = sp_pack_part_digest(&out->target, pack, SP_PART_TARGET, err);

    return st ? st : sp_pack_part_digest(&out->draft, pack, SP_PART_DRAFT, err);
}

static bool is_about(const struct sp_json *receipt, const struct sp_part_digests *digests)
{
    const char *target = sp_json_get_text(receipt, "target"),
               *draft = sp_json_get_text(receipt, "draft");
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, digests->target);
    if (target == NULL || strcmp(target, text) != 0) return false;
    snprintf(text, sizeof text, "%016" PRIx64, digests->draft);
    return draft == NULL || strcmp(draft, text) == 0;
}

enum sp_status sp_receipts_parse(struct sp_json **out, const char *text, size_t size,
                                 const struct sp_part_digests *digests, struct sp_err *err)
{
    struct sp_json *root = NULL;
    enum sp_status st;
    size_t n;

    if ((st = sp_json_parse_within(&root, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err)))
        goto done;
    n = sp_json_len(root);
    if (sp_json_kind(root) != SP_JSON_ARRAY || n == 0 || n > SP_RECEIPTS_MAX)
        st = sp_fail(err, SP_E_INPUT, "not a list of 1 to %d receipts", SP_RECEIPTS_MAX);
    for (size_t i = 0; i < n && !st; i++) {
        const struct sp_json *receipt = sp_json_at(root, i);

        st = check_receipt(receipt, err);
        if (!st && !is_about(receipt, digests))
            st = sp_fail(err, SP_E_INPUT, "it is about weights that the file does not have");
        if (st) sp_context(err, "receipt %zu", i + 1);
    }
    if (st) goto done;
    *out = root;
    root = NULL;
done:
    if (st) sp_context(err, "receipts");
    sp_json_free(root);
    return st;
}

enum sp_status sp_receipts_read(struct sp_json **out, const struct sp_pack *pack,
                                struct sp_err *err)
{
    struct sp_part_digests digests = {0};
    struct sp_json *root = NULL;
    char *text = NULL;
    size_t size = 0;
    enum sp_status st;

    if ((st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_RECEIPTS, &text, &size, err)))
        return st;
    if (text && !(st = sp_part_digests_of(&digests, pack, err)))
        st = sp_receipts_parse(&root, text, size, &digests, err);
    if (st) sp_context(err, "%s", sp_pack_path(pack));
    if (!st) *out = root;
    free(text);
    return st;
}

/* ---- joining ----------------------------------------------------------------------------------
 */

/* The bytes of a receipt that say what was measured: those before its results. In JSON the mark
 * cannot be part of a string. */
static size_t subject_size(const char *receipt)
{
    const char *results = strstr(receipt, ",\"results\":");

    return results ? (size_t)(results - receipt) : strlen(receipt);
}

static bool same_subject(const char *a, const char *b)
{
    size_t n = subject_size(a);

    return n == subject_size(b) && memcmp(a, b, n) == 0;
}

/* Appends a receipt to "[...", without the bracket at the end. */
static enum sp_status append(struct sp_strbuf *list, size_t *n, const char *receipt,
                             struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(list, *n ? "," : "[", 1, err);

    if (*n == SP_RECEIPTS_MAX) {
        return sp_fail(err, SP_E_UNSUPPORTED, "a packed file has at most %d receipts",
                       SP_RECEIPTS_MAX);
    }
    ++*n;
    return st ? st : sp_strbuf_append(list, receipt, strlen(receipt), err);
}

enum sp_status sp_receipts_join(char **text, size_t *size, size_t *n_dropped,
                                const struct sp_json *receipts, const char *added,
                                const struct sp_part_digests *digests, struct sp_err *err)
{
    struct sp_strbuf list = {0};
    enum sp_status st = SP_OK;
    size_t n = 0, dropped = 0;
    char *one = NULL;

    for (size_t i = 0; i < sp_json_len(receipts); i++) {
        const struct sp_json *receipt = sp_json_at(receipts, i);

        if (!is_about(receipt, digests)) {
            dropped++;
            continue;
        }
        if ((st = sp_json_print(&one, receipt, err))) goto done;
        if (added && same_subject(one, added)) {
            st = append(&list, &n, added, err);
            added = NULL;
        } else {
            st = append(&list, &n, one, err);
        }
        if (st) goto done;
        free(one);
        one = NULL;
    }
    if (added && (st = append(&list, &n, added, err))) goto done;
    if (n && (st = sp_strbuf_append(&list, "]", 2, err))) goto done;
    *text = list.at;
    *size = n ? list.len - 1 : 0;
    *n_dropped = dropped;
    list = (struct sp_strbuf){0};
done:
    sp_strbuf_release(&list);
    free(one);
    return st;
}

enum sp_status sp_receipts_add(char **text, size_t *size, const char *receipt,
                               const struct sp_part_digests *digests, struct sp_err *err)
{
    struct sp_json *receipts = NULL;
    char *joined = NULL;
    size_t n_dropped;
    enum sp_status st = SP_OK;

    if (*text) st = sp_receipts_parse(&receipts, *text, *size, digests, err);
    if (!st) st = sp_receipts_join(&joined, size, &n_dropped, receipts, receipt, digests, err);
    sp_json_free(receipts);
    if (st) return st;
    free(*text);
    *text = joined;
    return SP_OK;
}
