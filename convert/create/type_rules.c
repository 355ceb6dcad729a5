#include "convert/create/type_rules.h"

#include "format/base/mem.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const char draft_prefix[] = "draft:";

static enum sp_part part_of(const struct sp_type_rule *rule)
{
    bool is_draft = strncmp(rule->text, draft_prefix, sizeof draft_prefix - 1) == 0;

    return is_draft ? SP_PART_DRAFT : SP_PART_TARGET;
}

static enum sp_status apply_rule(struct sp_plan_choice *choices, const struct sp_type_rule *rule,
                                 const struct sp_source *source, enum sp_part part,
                                 struct sp_err *err)
{
    enum sp_status st;
    const char *start = rule->text + (part == SP_PART_DRAFT ? sizeof draft_prefix - 1 : 0);
    const char *end = strrchr(start, '=');
    char *pattern = NULL;
    size_t n = 0;

    if ((st = sp_copy_text(&pattern, start, end ? (size_t)(end - start) : strlen(start), err)))
        return st;
    for (size_t i = 0; i < source->specs.n_specs; i++) {
        if (fnmatch(pattern, source->specs.specs[i].name, 0) != 0) continue;
        choices[i] = (struct sp_plan_choice){.type = rule->type, .rule = rule->text};
        n++;
    }
    free(pattern);
    if (n > 0) return SP_OK;
    return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_RULE, "rule %s matches no tensor of the %s",
                         rule->text, sp_part_name(part));
}

enum sp_status sp_type_rules_apply(struct sp_plan_choice *choices,
                                   const struct sp_type_rules *rules,
                                   const struct sp_source *source, enum sp_part part,
                                   struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < rules->n && !st; i++)
        if (part_of(&rules->rules[i]) == part)
            st = apply_rule(choices, &rules->rules[i], source, part, err);
    return st;
}

const struct sp_type_rule *sp_type_rules_first(const struct sp_type_rules *rules, enum sp_part part)
{
    for (size_t i = 0; i < rules->n; i++)
        if (part_of(&rules->rules[i]) == part) return &rules->rules[i];
    return NULL;
}
