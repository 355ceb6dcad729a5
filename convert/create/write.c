/* Writes a packed file from sources and a plan: tensors, texts and pairing record, all or nothing.
 * Texts are compressed before the first weight is read, so that what can be refused is refused
 * early; pairing record and receipts come last, for they need the digests of the tensors. */
#include "convert/create/create_job.h"

#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/json/json_write.h"
#include "format/pack_contents.h"
#include "format/packfile_layout.h"
#include "format/receipts.h"
#include "format/tokenizer/tokmap_write.h"

#include <inttypes.h>
#include <stdlib.h>

static enum sp_status write_text(struct sp_pack_writer *w, enum sp_part part,
                                 enum sp_section section, const struct sp_text *text,
                                 struct sp_err *err)
{
    return sp_pack_writer_section(w, part, section, text->at, text->size, err);
}

/* Copies a section of a packed source. */
static enum sp_status copy_section(struct sp_pack_writer *w, enum sp_part part,
                                   const struct sp_source *source,
                                   const struct sp_pack_section *section, struct sp_err *err)
{
    enum sp_status st = sp_pack_writer_copy_section(w, part, section, err);

    if (st) sp_context(err, "%s", source->path);
    return st;
}

/* The compiled tokenizer: a packed source's own, or that of a checkpoint's tokenizer.json. */
static enum sp_status write_tokenizer(struct sp_pack_writer *w, const struct sp_source *source,
                                      enum sp_part part,
                                      const struct sp_create_callbacks *callbacks,
                                      struct sp_err *err)
{
    enum sp_status st;
    const struct sp_pack_section *map = NULL;
    uint8_t *blob = NULL;
    size_t size;
    char *warning = NULL;

    if (source->pack) {
        map = sp_pack_find_section(source->pack, source->part, SP_SECTION_TOKENIZER_MAP);
        return map ? copy_section(w, part, source, map, err) : SP_OK;
    }
    if (source->texts[SP_SECTION_TOKENIZER].at == NULL) return SP_OK;
    st = sp_vocab_compile(&blob, &size, &source->texts[SP_SECTION_TOKENIZER],
                          &source->texts[SP_SECTION_TOKENIZER_CONFIG], &warning, err);
    if (st) sp_context(err, "%s: tokenizer.json", source->path);
    if (!st && warning && callbacks->note) callbacks->note(callbacks->context, warning);
    if (!st) st = sp_pack_writer_section(w, part, SP_SECTION_TOKENIZER_MAP, blob, size, err);
    free(warning);
    free(blob);
    return st;
}

static enum sp_status write_texts(struct sp_pack_writer *w, const struct sp_source *source,
                                  enum sp_part part, const struct sp_create_callbacks *callbacks,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (int s = SP_SECTION_CONFIG; s <= SP_SECTION_TEMPLATE && !st; s++) {
        enum sp_section kind = (enum sp_section)s;
        if (!sp_source_has_text(source, kind)) continue;
        st = source->pack
                 ? copy_section(w, part, source,
                                sp_pack_find_section(source->pack, source->part, kind), err)
                 : write_text(w, part, kind, &source->texts[s], err);
    }
    for (int s = SP_SECTION_ADAPTERS; s <= SP_SECTION_POOLING && !st; s++)
        if (source->texts[s].at && part == SP_PART_TARGET)
            st = write_text(w, part, (enum sp_section)s, &source->texts[s], err);
    return st ? st : write_tokenizer(w, source, part, callbacks, err);
}

/* ---- receipts ---- */

/* *out = the receipt of types that were chosen for a budget; none if there was no budget. */
static enum sp_status print_types(struct sp_text *out, const struct sp_create_job *job,
                                  uint64_t target_digest, struct sp_err *err)
{
    const struct sp_budget *b = &job->options->budget;
    double predicted = b->check.uniform ? b->check.predicted_kl : job->predicted_kl;
    struct sp_json_out text = {0};

    if (b->size == 0 && !(b->bits > 0)) return SP_OK;
    sp_json_out_print(&text, "{\"kind\":\"%s\",\"target\":\"%016" PRIx64 "\",", sp_receipt_types,
                      target_digest);
    if (b->size)
        sp_json_out_print(&text, "\"size\":%" PRIu64, b->size);
    else
        sp_json_out_print(&text, "\"bits\":%.17g", b->bits);
    if (predicted > 0) sp_json_out_print(&text, ",\"predicted_kl\":%.17g", predicted);
    if (b->check.uniform) {
        sp_json_out_print(&text, ",\"measured_kl\":%.17g,\"uniform\":\"%s\",\"uniform_kl\":%.17g",
                          b->check.chosen_kl, sp_dtype_info(b->check.uniform)->name,
                          b->check.uniform_kl);
    }
    sp_json_out_raw(&text, "}");
    return sp_json_out_take(out, &text, err);
}

static enum sp_status note_dropped(size_t n, const struct sp_create_callbacks *callbacks,
                                   struct sp_err *err)
{
    char *warning = NULL;
    enum sp_status st;

    if (n == 0 || callbacks->note == NULL) return SP_OK;
    st = sp_warn(&warning, err, "%zu receipt%s that no longer appl%s left out", n,
                 n == 1 ? "" : "s", n == 1 ? "ies is" : "y are");
    if (!st) callbacks->note(callbacks->context, warning);
    free(warning);
    return st;
}

/* *out = the receipt of the draft's type that was chosen. */
static enum sp_status print_draft_choice(struct sp_text *out, const char *members,
                                         const struct sp_part_digests *digests, struct sp_err *err)
{
    struct sp_json_out text = {0};

    sp_json_out_print(
        &text, "{\"kind\":\"%s\",\"target\":\"%016" PRIx64 "\",\"draft\":\"%016" PRIx64 "\",",
        sp_receipt_draft_type, digests->target, digests->draft);
    sp_json_out_raw(&text, members);
    sp_json_out_raw(&text, "}");
    return sp_json_out_take(out, &text, err);
}

/* The receipts of a packed source that are about the weights as they were written, and those of the
 * choices of types. */
static enum sp_status write_receipts(struct sp_pack_writer *w, const struct sp_create_job *job,
                                     const struct sp_part_digests *digests, struct sp_err *err)
{
    const struct sp_pack *pack = job->target.pack;
    const char *draft_choice = job->options->draft_choice;
    struct sp_text added[2] = {{0}}, before = {0}, text = {0};
    size_t n_added = 0, n_dropped;
    enum sp_status st;

    if ((st = print_types(&added[0], job, digests->target, err))) return st;
    if (added[0].at) n_added++;
    if (draft_choice) st = print_draft_choice(&added[n_added++], draft_choice, digests, err);
    if (!st && pack)
        st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_RECEIPTS, &before, err);
    if (!st) st = sp_receipts_join(&text, &n_dropped, &before, added, n_added, digests, err);
    if (!st && text.at) st = write_text(w, SP_PART_FILE, SP_SECTION_RECEIPTS, &text, err);
    if (!st) st = note_dropped(n_dropped, &job->options->callbacks, err);
    free(added[0].at);
    free(added[1].at);
    free(before.at);
    free(text.at);
    return st;
}

/* Writes a section of the target that a calibration stated, or that its packed source has. */
static enum sp_status write_stated(struct sp_pack_writer *w, const struct sp_create_job *job,
                                   enum sp_section kind, const struct sp_strbuf *stated,
                                   struct sp_err *err)
{
    const struct sp_source *target = &job->target;
    const struct sp_text text = {stated->at, stated->len};
    const struct sp_pack_section *section = NULL;

    if (text.at) return write_text(w, SP_PART_TARGET, kind, &text, err);
    if (target->pack) section = sp_pack_find_section(target->pack, target->part, kind);
    return section ? copy_section(w, SP_PART_TARGET, target, section, err) : SP_OK;
}

/* Records and texts of both parts. */
static enum sp_status write_sections(struct sp_pack_writer *w, const struct sp_create_job *job,
                                     const struct sp_create_callbacks *callbacks,
                                     struct sp_err *err)
{
    enum sp_status st = write_text(w, SP_PART_FILE, SP_SECTION_MODELFILE, &job->records, err);
    struct sp_json_out caches = {0};

    if (job->calibration.caches.n) sp_cache_divergences_print(&caches, &job->calibration.caches);
    if (!st) st = sp_json_out_check(&caches, err);
    if (!st) st = write_texts(w, &job->target, SP_PART_TARGET, callbacks, err);
    if (!st) st = write_stated(w, job, SP_SECTION_SMOOTHING, &job->smoothing, err);
    if (!st) st = write_stated(w, job, SP_SECTION_CACHES, &caches.text, err);
    sp_strbuf_release(&caches.text);
    if (!st && job->has_draft) st = write_texts(w, &job->draft, SP_PART_DRAFT, callbacks, err);
    return st;
}

/* Opens a writer for the plan's tensors; tensor i of the writer is item i of the plan. */
static enum sp_status open_writer(struct sp_pack_writer **out, const struct sp_plan *plan,
                                  const char *path, bool force, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_tensor *tensors = NULL;

    if ((st = sp_new(&tensors, plan->n_items, sizeof *tensors, err))) return st;
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];
        tensors[i] = (struct sp_pack_tensor){.name = item->spec->name,
                                             .part = item->part,
                                             .dtype = item->to,
                                             .layout = item->layout,
                                             .rank = item->spec->rank};
        for (unsigned d = 0; d < item->spec->rank; d++)
            tensors[i].shape[d] = item->spec->shape[d];
    }
    st = sp_pack_writer_open(out, path, force, tensors, plan->n_items, err);
    free(tensors);
    return st;
}

enum sp_status sp_create_job_measure(uint64_t *most, const struct sp_create_job *job,
                                     const char *outline, struct sp_err *err)
{
    static const struct sp_create_callbacks silent = {0};
    enum { DIGITS = 64 }; /* by how much two compressed records with other digests may differ */
    enum { RECEIPT_SIZE = 256 }; /* more than one takes at its longest */
    enum { RECEIPTS = RECEIPT_SIZE + SP_PACK_SECTION_ENTRY + 2 * SP_PACK_ALIGN };
    static const struct sp_part_digests random = {0x9e3779b97f4a7c15, ~0x9e3779b97f4a7c15u};
    const struct sp_pack *pack = job->target.pack;
    const struct sp_pack_section *receipts =
        pack ? sp_pack_find_section(pack, SP_PART_FILE, SP_SECTION_RECEIPTS) : NULL;
    enum sp_status st;
    struct sp_pack_writer *w = NULL;
    uint64_t size = 0;

    if ((st = open_writer(&w, &job->plan, NULL, false, err))) return st;
    st = write_sections(w, job, &silent, err);
    if (!st && job->has_draft) st = sp_pairing_record_put(w, &job->draft.config, &random, err);
    if (!st) st = sp_pack_writer_measure(&size, w, err);
    if (!st && outline) st = sp_pack_writer_outline(w, outline, err);
    /* The receipts of a packed source may be left to the file. */
    if (!st) *most = size + DIGITS + RECEIPTS + (receipts ? receipts->size : 0);
    sp_pack_writer_close(w);
    return st;
}

enum sp_status sp_create_job_write(uint64_t *file_size, const struct sp_create_job *job,
                                   struct sp_err *err)
{
    const struct sp_create_options *o = job->options;
    enum sp_status st;
    struct sp_pool *pool = NULL;
    struct sp_pack_writer *w = NULL;
    struct sp_part_digests digests;

    if (o->outline && !o->only_read) return sp_create_job_measure(file_size, job, job->output, err);
    if (!o->only_read) {
        bool force = o->force || job->in_place;
        if ((st = open_writer(&w, &job->plan, job->output, force, err))) goto done;
        if (job->target.pack) sp_pack_writer_copies(w, job->target.pack);
        if ((st = write_sections(w, job, &o->callbacks, err))) goto done;
    }
    if ((st = sp_pool_open(&pool, o->n_threads, err))) goto done;
    st = sp_plan_execute(&job->plan, w, pool, &o->callbacks, err);
    if (st || o->only_read) goto done;
    if ((st = sp_pack_writer_part_digests(&digests, w, err))) goto done;
    if (job->has_draft && (st = sp_pairing_record_put(w, &job->draft.config, &digests, err)))
        goto done;
    if ((st = write_receipts(w, job, &digests, err))) goto done;
    st = sp_pack_writer_finish(w, file_size, err);
done:
    sp_pool_close(pool);
    sp_pack_writer_close(w);
    return st;
}
