/* DSpark drafts (DeepSpec's successor of DFlash, and SpecForge's): the keys of the heads that they
 * add to a DFlash block. Markov head: logits of a row are corrected by the token before it.
 * Confidence head: how likely each guess is right. Releases called dflash_*_block7 are DSpark
 * drafts with neither head; what sets them apart from DFlash is that the anchor's row guesses too.
 *
 * DeepSpec cuts proposals where the confidence falls below a threshold that is no part of the
 * checkpoint but an argument of its evaluator (0: never); here it is the depth that decides.
 *
 * In the speculators library a draft has both heads if it does not say otherwise, its anchor's row
 * may guess nothing, and it may have a vocabulary of its own. */
#include "format/model/config_parts.h"

#include <string.h>

static const char *const names[] = {
    [SP_MARKOV_VANILLA] = "vanilla",
    [SP_MARKOV_GATED] = "gated",
    [SP_MARKOV_RNN] = "rnn",
};

const char *sp_markov_name(const struct sp_dspark_config *dspark)
{
    return dspark->rank ? names[dspark->markov] : "none";
}

static enum sp_status read_type(enum sp_markov *out, const struct sp_config_text *t,
                                struct sp_err *err)
{
    static const char key[] = "markov_head_type";
    const char *name = names[SP_MARKOV_VANILLA];
    enum sp_status st;

    if ((st = sp_json_get_string(sp_dflash_holder(t, key), key, &name, err))) return st;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (enum sp_markov)i;
        return SP_OK;
    }
    return sp_fail(err, SP_E_UNSUPPORTED, "dspark: unknown markov_head_type \"%s\"", name);
}

static enum sp_status read_confidence(struct sp_dspark_config *d, const struct sp_config_text *t,
                                      struct sp_err *err)
{
    static const char key[] = "enable_confidence_head", with[] = "confidence_head_with_markov";
    enum sp_status st;

    st = sp_json_get_bool(sp_dflash_holder(t, key), key, &d->confidence, err);
    if (st || !d->confidence) return st;
    d->confidence_markov = d->rank != 0;
    st = sp_json_get_bool(sp_dflash_holder(t, with), with, &d->confidence_markov, err);
    if (st || !d->confidence_markov || d->rank != 0) return st;
    return sp_fail(err, SP_E_INPUT, "dspark: %s needs a markov_rank", with);
}

enum sp_status sp_config_read_dspark(struct sp_draft_config *out, const struct sp_config_text *t,
                                     struct sp_err *err)
{
    static const char rank[] = "markov_rank", anchor[] = "sample_from_anchor";
    struct sp_dspark_config *d = &out->dspark;
    bool from_anchor = true;
    enum sp_status st;

    if (out->kind != SP_DRAFT_DSPARK) return SP_OK;
    /* Its older classes had another default. */
    if (t->speculators && sp_dflash_holder(t, anchor) == NULL) {
        return sp_fail(err, SP_E_INPUT, "dspark config missing %s", anchor);
    }
    if (out->n_taps == 0) {
        return sp_fail(err, SP_E_INPUT, "dspark config missing target_layer_ids");
    }
    st = sp_json_get_bool(sp_dflash_holder(t, anchor), anchor, &from_anchor, err);
    if (st) return st;
    if (!from_anchor && !t->speculators) {
        return sp_fail(err, SP_E_UNSUPPORTED, "dspark: %s false is not supported", anchor);
    }
    d->rank = t->speculators ? 256 : 0;
    d->confidence = t->speculators;
    st = sp_object_unsigned(sp_dflash_holder(t, rank), rank, 0, SP_CAP_WIDTH, &d->rank, err);
    if (st) return st;
    if (d->rank && (st = read_type(&d->markov, t, err))) return st;
    return read_confidence(d, t, err);
}
