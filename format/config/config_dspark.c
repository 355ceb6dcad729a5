/* DSpark drafts (of DeepSpec, the successor of DFlash, and of SpecForge): the keys of the heads
 * that they add to a DFlash block. The Markov head corrects the logits of a row by the preceding
 * token. The confidence head predicts the acceptance of each draft token. Releases named
 * dflash_*_block7 are DSpark drafts with neither head; they differ from DFlash in that the row of
 * the anchor gives a draft token as well.
 *
 * DeepSpec cuts a proposal where the confidence falls below a threshold. The threshold is not part
 * of the checkpoint but an argument of its evaluator (0: never cut); spectool chooses the draft
 * length instead.
 *
 * In the speculators library a draft has both heads by default, the row of its anchor may give no
 * draft token, and it may have a vocabulary of its own. */
#include "format/config/config_readers.h"

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

static void read_type(enum sp_markov *out, const struct sp_config_text *t)
{
    static const char key[] = "markov_head_type";
    const char *name = names[SP_MARKOV_VANILLA];

    sp_text_string(t, key, &name);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (enum sp_markov)i;
        return;
    }
    SP_REFUSED(t, "dspark: unknown markov_head_type \"%s\"", name);
}

static void read_confidence(struct sp_dspark_config *d, const struct sp_config_text *t)
{
    static const char key[] = "enable_confidence_head", with[] = "confidence_head_with_markov";

    sp_text_bool(t, key, &d->confidence);
    if (!d->confidence) return;
    d->confidence_markov = d->rank != 0;
    sp_text_bool(t, with, &d->confidence_markov);
    if (d->confidence_markov && d->rank == 0) SP_INVALID(t, "dspark: %s needs a markov_rank", with);
}

void sp_config_read_dspark(struct sp_config *c, const struct sp_config_text *t)
{
    struct sp_draft_config *out = &c->draft;
    static const char rank[] = "markov_rank", anchor[] = "sample_from_anchor";
    struct sp_dspark_config *d = &out->dspark;
    bool from_anchor = true;

    if (out->kind != SP_DRAFT_DSPARK) return;
    /* The default differs between versions of the speculators library. */
    if (t->speculators && sp_text_get(t, anchor) == NULL)
        SP_INVALID(t, "dspark config missing %s", anchor);
    if (out->n_taps == 0) SP_INVALID(t, "dspark config missing target_layer_ids");
    sp_text_bool(t, anchor, &from_anchor);
    if (!from_anchor && !t->speculators) SP_REFUSED(t, "dspark: %s false is not supported", anchor);
    d->rank = t->speculators ? 256 : 0;
    d->confidence = t->speculators;
    sp_text_unsigned(t, rank, 0, SP_CAP_WIDTH, &d->rank);
    if (d->rank) read_type(&d->markov, t);
    read_confidence(d, t);
}
