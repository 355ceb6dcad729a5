#include "format/family/config_parse.h"
#include "tests/support/tensor_match.h"
#include "tests/support/unit_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void match_add_tensors(struct match_checkpoint *c, const char *list)
{
    char *text = c->text + c->used;
    char *item, *rest;

    assert_true(c->used + strlen(list) + 1 < sizeof c->text);
    c->used += strlen(list) + 1;
    memcpy(text, list, strlen(list) + 1);
    for (item = strtok_r(text, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        struct sp_source_tensor *t = &c->tensors[c->n++];
        char *next;
        assert_true(c->n <= MATCH_MAX_TENSORS);
        while (*item == ' ')
            item++;
        t->name = item;
        next = strchr(item, ' ');
        if (next == NULL) continue;
        *next++ = '\0';
        for (char *end; *next; next = end)
            t->shape[t->rank++] = strtoull(next, &end, 10);
    }
}

void match_open(struct match_checkpoint *c, const char *config, const char *list)
{
    struct sp_err err = {0};

    memset(c, 0, sizeof *c);
    if (sp_config_parse(&c->config, config, strlen(config), NULL, &err)) fail_msg("%s", err.text);
    match_add_tensors(c, list);
}

void match_run(struct match_outcome *o, struct match_checkpoint *c)
{
    memset(o, 0, sizeof *o);
    o->status = sp_specs_of_source(&o->specs, &c->config, c->tensors, c->n, &o->compare_equal,
                                   &o->n_skipped, &o->err);
}

void match_close(struct match_outcome *o, struct match_checkpoint *c)
{
    sp_specs_release(&o->specs);
    sp_config_release(&c->config);
}

void match_assert_spans(const struct match_outcome *o, const char *name, const char *expected)
{
    const struct sp_tensor_spec *spec = sp_specs_find(&o->specs, name);
    char text[1024] = "";

    if (spec == NULL) fail_msg("no %s", name);
    for (size_t i = 0; i < spec->n_spans; i++) {
        const struct sp_row_span *p = &o->specs.spans[spec->first_span + i];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %llu:%llu:%llux%llu%s",
                 i ? ", " : "", p->source, (unsigned long long)p->first_row,
                 (unsigned long long)p->step, (unsigned long long)p->n_rows,
                 (unsigned long long)p->n_cols, p->transposed ? "T" : "");
        if (p->pitch) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "/%llu",
                     (unsigned long long)p->pitch);
        }
    }
    assert_string_equal(text, expected);
}

void match_assert_refused(const char *config, const char *list, enum sp_status status,
                          const char *sentence)
{
    struct match_checkpoint c;
    struct match_outcome o;

    match_open(&c, config, list);
    match_run(&o, &c);
    assert_string_equal(o.err.text, sentence);
    assert_int_equal(o.status, status);
    assert_null(o.specs.specs);
    match_close(&o, &c);
}
