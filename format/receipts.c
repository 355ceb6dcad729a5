#include "format/receipts.h"
#include "format/base/affix.h"
#include "format/json/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char sp_receipt_types[] = "types", sp_receipt_draft_type[] = "draft-type";

static bool is_digest(const struct sp_json *v, uint64_t digest)
{
    const char *text = sp_json_to_string(v, NULL);
    char expected[17];

    snprintf(expected, sizeof expected, "%016" PRIx64, digest);
    return text && strcmp(text, expected) == 0;
}

static bool counts(const struct sp_json *receipt, const struct sp_part_digests *digests)
{
    const char *kind = sp_json_get_text(receipt, "kind");
    bool is_of_draft = kind && strcmp(kind, sp_receipt_draft_type) == 0;

    if (kind == NULL || (!is_of_draft && strcmp(kind, sp_receipt_types) != 0)) return false;
    return is_digest(sp_json_get(receipt, "target"), digests->target) &&
           (!is_of_draft || is_digest(sp_json_get(receipt, "draft"), digests->draft));
}

/* Appends a receipt to "[...", without the bracket at the end. */
static void append(struct sp_json_out *list, const char *receipt)
{
    sp_json_out_raw(list, list->text.len ? "," : "[");
    sp_json_out_raw(list, receipt);
}

/* True if one of the added receipts has the kind of this one, which it replaces. */
static bool is_replaced(const char *receipt, const struct sp_text *added, size_t n_added)
{
    for (size_t i = 0; i < n_added; i++)
        if (strncmp(receipt, added[i].at, strcspn(added[i].at, ",")) == 0) return true;
    return false;
}

/* Appends the receipts of a section that count and are not replaced. */
static enum sp_status append_those_before(struct sp_json_out *list, size_t *n_dropped,
                                          const struct sp_json *before, const struct sp_text *added,
                                          size_t n_added, const struct sp_part_digests *digests,
                                          struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sp_json_len(before) && !st; i++) {
        char *text = NULL;
        if (!counts(sp_json_at(before, i), digests)) {
            ++*n_dropped;
            continue;
        }
        st = sp_json_print(&text, sp_json_at(before, i), err);
        if (!st && !is_replaced(text, added, n_added)) append(list, text);
        free(text);
    }
    return st;
}

enum sp_status sp_receipts_join(struct sp_text *text, size_t *n_dropped,
                                const struct sp_text *before, const struct sp_text *added,
                                size_t n_added, const struct sp_part_digests *digests,
                                struct sp_err *err)
{
    struct sp_json_out list = {0};
    struct sp_json *root = NULL;
    enum sp_status st = SP_OK;
    size_t dropped = 0;

    if (before->at && (st = sp_json_parse_within(&root, before->at, before->size, SP_JSON_STRICT,
                                                 SP_JSON_SETTINGS, err)))
        sp_context(err, "receipts");
    if (!st) st = append_those_before(&list, &dropped, root, added, n_added, digests, err);
    sp_json_free(root);
    for (size_t i = 0; i < n_added; i++)
        append(&list, added[i].at);
    if (list.text.len) sp_json_out_raw(&list, "]");
    if (!st) st = sp_json_out_check(&list, err);
    *text = (struct sp_text){0};
    *n_dropped = dropped;
    if (!st && list.text.len) return sp_json_out_take(text, &list, err);
    sp_strbuf_release(&list.text);
    return st;
}

enum sp_status sp_receipts_read(struct sp_json **out, const struct sp_pack *pack,
                                struct sp_err *err)
{
    struct sp_part_digests digests = {0};
    struct sp_text section = {0}, text = {0};
    size_t n_dropped;
    enum sp_status st;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_RECEIPTS, &section, err);
    if (st || section.at == NULL) return st;
    if ((st = sp_pack_part_digests(&digests, pack, err))) goto done;
    st = sp_receipts_join(&text, &n_dropped, &section, NULL, 0, &digests, err);
    if (st) sp_context(err, "%s", sp_pack_path(pack));
    if (text.at)
        st = sp_json_parse_within(out, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
done:
    free(section.at);
    free(text.at);
    return st;
}
