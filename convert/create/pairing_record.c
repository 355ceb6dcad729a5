/* The pairing record, written in one fixed form: keys in this order, no whitespace, so that equal
 * pairs give equal bytes. */
#include "convert/create/create_job.h"

#include "format/json/json_write.h"
#include "format/pack_contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rope_names[] = {
    [SP_ROPE_DEFAULT] = "default",   [SP_ROPE_LINEAR] = "linear",
    [SP_ROPE_LLAMA3] = "llama3",     [SP_ROPE_YARN] = "yarn",
    [SP_ROPE_LONGROPE] = "longrope", [SP_ROPE_PROPORTIONAL] = "proportional",
    [SP_ROPE_DYNAMIC] = "dynamic",   [SP_ROPE_NTK_ALPHA] = "stretched",
};

/* Layers whose output is read; -1 stands for the embeddings. */
static void put_taps(struct sp_json_out *out, const struct sp_draft_config *d)
{
    sp_json_out_raw(out, ",\"target_layer_ids\":[");
    for (unsigned i = 0; i < d->n_taps; i++)
        sp_json_out_print(out, "%s%d", i ? "," : "", sp_tap_number(d->taps[i]));
    sp_json_out_raw(out, "]");
}

static void put_block(struct sp_json_out *out, const struct sp_draft_config *d)
{
    sp_json_out_print(out,
                      ",\"block_size\":%u,\"mask_token_id\":%" PRIu32
                      ",\"target_hidden_size\":%u,\"num_target_layers\":%u",
                      d->block_size, d->mask_token, d->target_hidden, d->n_target_layers);
    put_taps(out, d);
    if (d->n_head_rows) sp_json_out_print(out, ",\"draft_vocab_size\":%u", d->n_head_rows);
    if (d->kind != SP_DRAFT_DSPARK) return;
    sp_json_out_print(out, ",\"markov_rank\":%u,\"markov_head_type\":\"%s\",\"confidence_head\":%s",
                      d->dspark.rank, sp_markov_name(&d->dspark),
                      d->dspark.confidence ? "true" : "false");
}

static void put_eagle(struct sp_json_out *out, const struct sp_draft_config *d)
{
    sp_json_out_print(out, ",\"draft_vocab_size\":%u,\"target_hidden_size\":%u", d->n_head_rows,
                      d->target_hidden);
    if (d->kind == SP_DRAFT_PEAGLE) {
        sp_json_out_print(out, ",\"block_size\":%u,\"mask_token_id\":%" PRIu32, d->block_size,
                          d->mask_token);
    }
    put_taps(out, d);
}

enum sp_status sp_pairing_record_print(struct sp_text *text, const struct sp_config *draft,
                                       const struct sp_part_digests *digests, struct sp_err *err)
{
    enum sp_draft_kind kind = draft->draft.kind;
    struct sp_json_out out = {0};

    sp_json_out_print(&out, "{\"kind\":\"%s\"",
                      kind == SP_DRAFT_NONE ? "language-model" : sp_draft_kind_name(kind));
    if (kind == SP_DRAFT_DFLASH || kind == SP_DRAFT_DFLASH2 || kind == SP_DRAFT_DSPARK)
        put_block(&out, &draft->draft);
    else if (sp_draft_is_eagle(kind))
        put_eagle(&out, &draft->draft);
    sp_json_out_raw(&out, ",\"rope\":[");
    for (unsigned i = 0; i < draft->n_ropes; i++) {
        const struct sp_rope *r = &draft->ropes[i];
        sp_json_out_print(&out,
                          "%s{\"type\":\"%s\",\"theta\":%.17g,\"factor\":%.17g,\"rotated\":%u}",
                          i ? "," : "", rope_names[r->kind], r->theta, r->factor, r->n_rot);
    }
    sp_json_out_print(&out, "],\"target\":\"%016" PRIx64 "\",\"draft\":\"%016" PRIx64 "\"}",
                      digests->target, digests->draft);
    return sp_json_out_take(text, &out, err);
}

enum sp_status sp_pairing_record_put(struct sp_pack_writer *w, const struct sp_config *draft,
                                     const struct sp_part_digests *digests, struct sp_err *err)
{
    enum sp_status st;
    struct sp_text text;

    if ((st = sp_pairing_record_print(&text, draft, digests, err))) return st;
    st = sp_pack_writer_section(w, SP_PART_FILE, SP_SECTION_PAIRING, text.at, text.size, err);
    free(text.at);
    return st;
}

static enum sp_status check_digest(uint64_t digest, const struct sp_json *record, enum sp_part part,
                                   struct sp_err *err)
{
    enum sp_status st;
    const char *stated = NULL;
    char found[20];

    if ((st = sp_json_get_string(record, sp_part_name(part), &stated, err))) return st;
    snprintf(found, sizeof found, "%016" PRIx64, digest);
    if (stated && strcmp(stated, found) == 0) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "the %s has digest %s, but the record has %s",
                   sp_part_name(part), found, stated ? stated : "nothing");
}

static enum sp_status check_record(const struct sp_pack *pack, const struct sp_text *text,
                                   struct sp_err *err)
{
    struct sp_part_digests digests;
    struct sp_json *record = NULL;
    enum sp_status st =
        sp_json_parse_within(&record, text->at, text->size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);

    if (st) return st;
    st = sp_pack_part_digests(&digests, pack, err);
    if (!st) st = check_digest(digests.target, record, SP_PART_TARGET, err);
    if (!st) st = check_digest(digests.draft, record, SP_PART_DRAFT, err);
    sp_json_free(record);
    return st;
}

enum sp_status sp_pairing_record_check(const struct sp_pack *pack, struct sp_err *err)
{
    enum sp_status st;
    bool has_draft = sp_pack_find_section(pack, SP_PART_DRAFT, SP_SECTION_CONFIG) != NULL;
    struct sp_text text;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_PAIRING, &text, err);
    if (st) return st;
    if (has_draft != (text.at != NULL)) {
        st = sp_fail(err, SP_E_INPUT,
                     has_draft ? "a draft without a pairing record"
                               : "a pairing record without a draft");
    } else if (text.at) {
        st = check_record(pack, &text, err);
    }
    if (st) sp_context(err, "%s: pairing", sp_pack_path(pack));
    free(text.at);
    return st;
}
