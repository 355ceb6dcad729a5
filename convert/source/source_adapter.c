/* Merging an adapter into a source: its changes are placed once, and from then on every read of a
 * row gives the merged one. */
#include "convert/source/source.h"

#include "convert/adapter/merge.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/pack_contents.h"

#include <stdlib.h>
#include <string.h>

/* An adapter of one of two tables that a model shares parts them: what was trained on stays as it
 * was. mlx-lm's is of the shared one. */
static enum sp_status part_tables(struct sp_source *source, const struct sp_adapter *a,
                                  char **warnings, struct sp_err *err)
{
    enum sp_status st;

    if (a->config.format == SP_ADAPTER_MLX || !source->config.tied || !sp_merge_touches_tables(a))
        return SP_OK;
    if (source->pack) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s: changes the embedding or the output matrix, which %s shares: merge it "
                       "into the checkpoint",
                       a->path, source->path);
    }
    if (a->config.keeps_tied) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s: ensure_weight_tying is true, and the adapter changes the embedding or "
                       "the output matrix, which the model shares: not supported",
                       a->path);
    }
    if ((st = sp_specs_untie_head(&source->specs, &source->config, err))) return st;
    return sp_warn(warnings, err,
                   "%s: changes the embedding or the output matrix, which were the same matrix: "
                   "both are stored",
                   a->path);
}

static enum sp_status add_record(struct sp_source *source, const struct sp_merge_record *record,
                                 struct sp_err *err)
{
    struct sp_text *text = &source->texts[SP_SECTION_ADAPTERS], joined;
    enum sp_status st = sp_merge_records_add(&joined, text, record, err);

    if (st) {
        sp_context(err, "%s", source->path);
        return st;
    }
    free(text->at);
    *text = joined;
    return SP_OK;
}

static enum sp_status assign(struct sp_source *source, struct sp_err *err)
{
    struct sp_merge *merge = source->merge;
    struct sp_source_tensor *tensors = NULL;
    size_t n = 0;
    /* The specs of a packed file have no row spans: those of the checkpoint that it would export
     * are used. */
    enum sp_status st =
        source->pack ? sp_specs_publish(&merge->specs, &tensors, &n, &source->config, NULL, err)
                     : sp_source_list(&tensors, &n, source, err);

    if (!st)
        st = sp_merge_place(merge, source->pack ? &merge->specs : &source->specs, tensors, n, err);
    free(tensors);
    return st;
}

enum sp_status sp_source_place(struct sp_source *source, const char *path, char **warnings,
                               struct sp_err *err)
{
    struct sp_merge *merge = NULL;
    enum sp_status st;

    if ((st = sp_new(&merge, 1, sizeof *merge, err))) return st;
    source->merge = merge;
    if ((st = sp_adapter_open(&merge->adapter, path, &source->config, err))) return st;
    if ((st = part_tables(source, &merge->adapter, warnings, err))) return st;
    if ((st = assign(source, err)) || merge->adapter.n_skipped == 0) return st;
    return sp_warn(warnings, err, "%s: %zu tensors that text generation does not use are left out",
                   path, merge->adapter.n_skipped);
}

enum sp_status sp_source_merge(struct sp_source *source, const char *path, char **warnings,
                               struct sp_err *err)
{
    struct sp_merge_record record;
    char words[SP_MERGE_WORDS];
    enum sp_status st;

    if ((st = sp_source_place(source, path, warnings, err))) return st;
    record = sp_merge_record_of(&source->merge->adapter);
    if ((st = add_record(source, &record, err))) return st;
    sp_merge_words(words, &record);
    return sp_warn(warnings, err, "%s: merged into %s: %s", path, source->path, words);
}
