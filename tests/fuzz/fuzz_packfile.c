/* Fuzzes packed files: the bytes are refused with a message, or all of their content can be found,
 * read and checked. Each input is tried unchanged and with corrected digests, which a fuzzer could
 * hardly produce, and as the content of the section of receipts, which is compressed in a file. */
#include "format/packfile.h"
#include "format/receipts.h"
#include "tests/support/repair_digests.h"
#include "tests/fuzz/fuzz.h"

static void read_receipts(const struct sp_pack *pack)
{
    struct sp_json *receipts = NULL;

    if (sp_receipts_read(&receipts, pack, NULL) != SP_OK && receipts != NULL) abort();
    sp_json_free(receipts);
}

/* What counts is joined, and is read again without a change. */
static void join_receipts(const uint8_t *data, size_t size)
{
    static const struct sp_part_digests digests = {0};
    struct sp_err err = {0};
    const struct sp_text before = {(char *)(uintptr_t)data, size};
    struct sp_text text, again = {0};
    size_t n_dropped;

    if (sp_receipts_join(&text, &n_dropped, &before, NULL, 0, &digests, &err) != SP_OK) {
        if (err.text[0] == 0 || text.at != NULL) abort();
        return;
    }
    if (text.at &&
        (sp_receipts_join(&again, &n_dropped, &text, NULL, 0, &digests, NULL) != SP_OK ||
         n_dropped || again.size != text.size || memcmp(again.at, text.at, text.size) != 0))
        abort();
    free(text.at);
    free(again.at);
}

static void read_all(const struct sp_pack *pack)
{
    volatile uint8_t sum = 0;

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (sp_pack_find(pack, t->part, t->name) != t) abort();
        for (uint64_t k = 0; k < t->size; k++)
            sum = (uint8_t)(sum + t->data[k]);
        (void)!sp_pack_check_tensor(pack, i, NULL);
    }
    for (size_t i = 0; i < sp_pack_n_sections(pack); i++) {
        const struct sp_pack_section *s = sp_pack_section(pack, i);
        struct sp_text text = {0};
        if (sp_pack_find_section(pack, s->part, s->kind) != s) abort();
        if (sp_pack_read_section(pack, s->part, s->kind, &text, NULL) == SP_OK) {
            if (text.at == NULL || text.size != s->size || text.at[text.size] != 0) abort();
        }
        (void)!sp_pack_check_section(pack, i, NULL);
        free(text.at);
    }
    read_receipts(pack);
}

static void open_one(const uint8_t *data, size_t size)
{
    struct sp_pack *pack = NULL;
    struct sp_err err = {0};

    if (sp_pack_open_bytes(&pack, data, size, "fuzz", &err) == SP_OK)
        read_all(pack);
    else if (err.text[0] == 0 || pack != NULL)
        abort();
    sp_pack_close(pack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    open_one(data, size);
    join_receipts(data, size);
    if (size == 0) return 0;
    if ((copy = malloc(size)) == NULL) abort();
    memcpy(copy, data, size);
    repair_digests(copy, size);
    open_one(copy, size);
    free(copy);
    return 0;
}
