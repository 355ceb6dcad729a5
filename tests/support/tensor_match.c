#include "format/family/config_parse.h"
#include "tests/support/tensor_match.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* Copies the text with `layer` for each "@"; returns the size with the final NUL. */
static size_t expand(char *out, size_t room, const char *text, const char *layer)
{
    size_t n = 0;

    for (; *text; text++) {
        assert_true(n + strlen(layer) + 1 < room);
        if (*text == '@')
            n += (size_t)sprintf(out + n, "%s", layer);
        else
            out[n++] = *text;
    }
    out[n] = '\0';
    return n + 1;
}

void match_add_tensors(struct match *c, const char *list)
{
    char *text = c->text + c->used;
    char *item, *rest;

    c->used += expand(text, sizeof c->text - c->used, list, "model.layers.0.");
    for (item = strtok_r(text, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        struct sp_source_tensor *t = &c->tensors[c->n++];
        assert_true(c->n <= MATCH_MAX_TENSORS);
        while (*item == ' ')
            item++;
        t->name = item;
        char *next = strchr(item, ' ');
        if (next == NULL) continue;
        *next++ = '\0';
        for (char *end; *next; next = end)
            t->shape[t->rank++] = strtoull(next, &end, 10);
    }
}

static void release(void *match)
{
    struct match *m = match;

    sp_specs_release(&m->specs);
    sp_config_release(&m->config);
    free(m);
}

struct match *match_open(const char *config, const char *list)
{
    struct match *m = calloc(1, sizeof *m);

    assert_non_null(m);
    if (sp_config_parse(&m->config, config, strlen(config), NULL, &m->err))
        fail_msg("%s", m->err.text);
    match_add_tensors(m, list);
    return keep_with(m, release);
}

void match_run(struct match *m)
{
    m->status = sp_specs_of_source(&m->specs, &m->config, m->tensors, m->n, &m->compare_equal,
                                   &m->n_skipped, &m->err);
}

struct match *match_accepted(const char *config, const char *list)
{
    struct match *m = match_open(config, list);

    match_run(m);
    assert_string_equal(m->err.text, "");
    return m;
}

void match_assert_spans(const struct match *m, const char *name, const char *expected)
{
    const char *source = "";
    char text[1024] = "", *at = text, *end = text + sizeof text, wanted[1024];

    expand(wanted, sizeof wanted, name, "layers.0.");
    const struct sp_tensor_spec *spec = sp_specs_find(&m->specs, wanted);
    if (spec == NULL) fail_msg("no %s", name);
    for (size_t i = 0; i < spec->n_spans; i++) {
        const struct sp_row_span *p = &m->specs.spans[spec->first_span + i];
        if (strcmp(p->source, source) != 0)
            at += snprintf(at, (size_t)(end - at), "%s%s", i ? ", " : "", p->source);
        at += snprintf(at, (size_t)(end - at), " %llu:%llu:%llux%llu%s",
                       (unsigned long long)p->first_row, (unsigned long long)p->step,
                       (unsigned long long)p->n_rows, (unsigned long long)p->n_cols,
                       p->transposed ? "T" : "");
        if (p->pitch) at += snprintf(at, (size_t)(end - at), "/%llu", (unsigned long long)p->pitch);
        assert_true(at < end);
        source = p->source;
    }
    expand(wanted, sizeof wanted, expected, "model.layers.0.");
    assert_string_equal(text, wanted);
}

void match_assert_refused(const char *config, const char *list, enum sp_status status,
                          const char *sentence)
{
    struct match *m = match_open(config, list);
    char wanted[sizeof m->err.text];

    match_run(m);
    expand(wanted, sizeof wanted, sentence, "model.layers.0.");
    assert_string_equal(m->err.text, wanted);
    assert_int_equal(m->status, status);
    assert_null(m->specs.specs);
}
