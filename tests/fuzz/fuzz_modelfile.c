/* Fuzzes Modelfiles: the bytes are refused with a location and a message, or the parsed records are
 * the same after being stored, printed and parsed again. */
#include "format/modelfile/modelfile.h"
#include "format/modelfile/modelfile_check.h"
#include "tests/fuzz/fuzz.h"

static bool is_source(const struct sp_modelfile_record *r)
{
    return r->command == SP_MODELFILE_FROM || r->command == SP_MODELFILE_DRAFT;
}

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Checks that every record of `a` except its sources is in `b`, in order, after `b`'s sources. */
static void compare(const struct sp_modelfile *a, const struct sp_modelfile *b)
{
    size_t k = 0;

    while (k < b->n_records && is_source(&b->records[k]))
        k++;
    for (size_t i = 0; i < a->n_records; i++) {
        const struct sp_modelfile_record *x = &a->records[i], *y = &b->records[k];
        if (is_source(x)) continue;
        if (k++ == b->n_records) abort();
        if (x->command != y->command || x->value_size != y->value_size || !same(x->name, y->name) ||
            !same(x->value, y->value) || x->size != y->size)
            abort();
    }
    if (k != b->n_records) abort();
}

static void round_trip(const struct sp_modelfile *file)
{
    struct sp_modelfile again;
    struct sp_text records, text;

    if (sp_modelfile_print(&records, file, NULL)) abort();
    if (sp_modelfile_recreate(&text, "p.bin", "p.bin", &records, NULL)) abort();
    if (sp_modelfile_parse(&again, "again", text.at, text.size, NULL)) abort();
    compare(file, &again);
    sp_modelfile_release(&again);
    free(text.at);
    free(records.at);
}

static void ignore(void *context, const char *sentence)
{
    (void)context;
    if (strlen(sentence) == 0 || strchr(sentence, '\n')) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_modelfile file;
    struct sp_err err = {0};

    if (sp_modelfile_parse(&file, "fuzz", data, size, &err)) {
        if (strncmp(err.text, "fuzz:", 5) != 0) abort();
        return 0;
    }
    (void)!sp_modelfile_check(&file, ignore, NULL, &err);
    round_trip(&file);
    sp_modelfile_release(&file);
    return 0;
}
