#include "cli/base/pack_facts.h"
#include "format/base/mem.h"
#include "format/family/config_packed.h"
#include "format/weights/smoothing.h"
#include "format/pack_contents.h"

#include <stdlib.h>
#include <string.h>

bool sp_pack_is_outline(const struct sp_pack *pack)
{
    return sp_pack_n_tensors(pack) > 0 && sp_pack_tensor(pack, 0)->digest == 0;
}

static void count_tensors(struct sp_pack_facts *facts, const struct sp_pack *pack)
{
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        struct sp_part_facts *p = facts->parts + t->part;
        p->present = true;
        p->n_tensors++;
        p->n_weights += sp_n_elements(t->shape, t->rank);
        p->size += t->size;
        p->n_of_type[t->dtype]++;
        p->size_of_type[t->dtype] += t->size;
    }
}

static enum sp_status read_records(struct sp_pack_facts *facts, const struct sp_pack *pack,
                                   struct sp_err *err)
{
    struct sp_text text = {0};
    enum sp_status st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &text, err);

    if (text.at)
        st = sp_modelfile_parse(&facts->records, sp_pack_path(pack), text.at, text.size, err);
    free(text.at);
    return st;
}

static enum sp_status read_merged(struct sp_pack_facts *facts, const struct sp_pack *pack,
                                  struct sp_err *err)
{
    struct sp_text text = {0};
    enum sp_status st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_ADAPTERS, &text, err);

    if (text.at &&
        (st = sp_merge_records_read(&facts->merged, &facts->n_merged, text.at, text.size, err)))
        sp_context(err, "%s", sp_pack_path(pack));
    free(text.at);
    return st;
}

static enum sp_status count_smoothed(struct sp_pack_facts *facts, const struct sp_pack *pack,
                                     struct sp_err *err)
{
    struct sp_smoothing smoothing;
    enum sp_status st = sp_smoothing_of_pack(&smoothing, pack, err);

    facts->n_smoothed = smoothing.n;
    sp_smoothing_release(&smoothing);
    return st;
}

/* True for failures of the machine, which say nothing about the file. */
static bool is_machine_failure(enum sp_status st)
{
    return st == SP_E_NOMEM || st == SP_E_IO;
}

static enum sp_status read_chat_format(struct sp_pack_facts *facts,
                                       const struct sp_template *template,
                                       const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_chat_options options = {.size = sizeof options, .chat_template = template};
    struct sp_chat_info info = {.size = sizeof info};
    struct sp_tokenizer *tokenizer = NULL;
    struct sp_chat *chat = NULL;
    struct sp_err own = {0};
    enum sp_status st = sp_tokenizer_open_file(&tokenizer, sp_pack_path(pack), &own);

    if (is_machine_failure(st)) return sp_fail_as(err, &own);
    options.tokenizer = tokenizer;
    if ((st = sp_chat_open(&chat, NULL, &options, err))) goto done;
    sp_chat_describe(chat, &info);
    facts->has_reasoning = info.has_reasoning;
    facts->has_tool_calls = info.has_tool_calls;
    st = sp_copy_text(&facts->reasoning, info.reasoning, strlen(info.reasoning), err);
    if (st) goto done;
    st = sp_copy_text(&facts->tool_calls, info.tool_calls, strlen(info.tool_calls), err);
done:
    sp_chat_close(chat);
    sp_tokenizer_close(tokenizer);
    return st;
}

/* Reads the facts of the template. An unusable template is not an error: its reason is recorded
 * and the rest of the file is shown. */
static enum sp_status read_template(struct sp_pack_facts *facts, const struct sp_pack *pack,
                                    struct sp_err *err)
{
    struct sp_template *template = NULL;
    size_t size = 0;
    enum sp_status st = sp_template_open_file(&template, sp_pack_path(pack), SP_TEMPLATE_UNKNOWN,
                                              &facts->template_error);

    if (is_machine_failure(st)) return sp_fail_as(err, &facts->template_error);
    if (template == NULL) return SP_OK;
    (void)sp_template_text(template, &size);
    facts->template_size = size;
    facts->template_language = sp_template_language(template);
    st = read_chat_format(facts, template, pack, err);
    sp_template_close(template);
    return st;
}

enum sp_status sp_pack_facts_read(struct sp_pack_facts *out, const struct sp_pack *pack,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_pack_facts facts = {0};

    count_tensors(&facts, pack);
    for (enum sp_part part = SP_PART_TARGET; part <= SP_PART_DRAFT && st == SP_OK; part++)
        if (facts.parts[part].present &&
            (st = sp_config_of_pack(&facts.parts[part].config, pack, part, err)))
            sp_context(err, "%s", sp_pack_path(pack));
    if (st == SP_OK && facts.parts[SP_PART_TARGET].present && facts.parts[SP_PART_DRAFT].present) {
        st = sp_config_fit_target(&facts.parts[SP_PART_DRAFT].config,
                                  &facts.parts[SP_PART_TARGET].config, err);
    }
    if (st == SP_OK) st = read_records(&facts, pack, err);
    if (st == SP_OK) st = read_merged(&facts, pack, err);
    if (st == SP_OK) st = count_smoothed(&facts, pack, err);
    if (st == SP_OK) st = sp_cache_divergences_of_pack(&facts.caches, pack, err);
    if (st == SP_OK) st = sp_receipts_read(&facts.receipts, pack, err);
    if (st == SP_OK) st = read_template(&facts, pack, err);
    if (st) sp_pack_facts_release(&facts);
    *out = facts;
    return st;
}

void sp_pack_facts_release(struct sp_pack_facts *facts)
{
    for (int part = 0; part < 3; part++)
        sp_config_release(&facts->parts[part].config);
    sp_modelfile_release(&facts->records);
    free(facts->merged);
    sp_json_free(facts->receipts);
    sp_cache_divergences_release(&facts->caches);
    free(facts->reasoning);
    free(facts->tool_calls);
    *facts = (struct sp_pack_facts){0};
}
