/* Fuzzes the statistics of drafting in the user's cache folder: a text is refused with a message
 * and changes nothing, or rounds begin with it, and what they leave can be read again. */
#include "runtime/speculate/draft_length.h"
#include "runtime/speculate/drafting_controller.h"
#include "tests/fuzz/fuzz.h"

enum { MAX = 8, N_ROUNDS = 40 };

static enum sp_status read_text(struct sp_drafting_controller *batch, const char *text, size_t size,
                                bool retry, struct sp_err *err)
{
    struct sp_json *json = NULL;
    enum sp_status st =
        sp_json_parse_within(&json, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);

    if (!st) st = sp_drafting_controller_json_read(batch, json, retry, err);
    sp_json_free(json);
    return st;
}

/* Plays rounds of the chosen lengths, of which every third is accepted in part. */
static void play(struct sp_drafting_controller *batch)
{
    struct sp_draft_length d;

    sp_draft_length_init(&d, batch);
    for (size_t i = 0; i < N_ROUNDS; i++) {
        size_t n = sp_draft_length_choose(&d, MAX, NULL);
        struct sp_round r = {.pass = i + 1, .verify_seconds = .1 + .01 * (double)n};
        if (n > MAX) abort();
        r.asked = r.made = r.drafted = n;
        r.accepted = i % 3 ? n : n / 2;
        r.draft_seconds = r.draft_cost = .02 * (double)n;
        r.emitted = r.accepted + 1;
        sp_draft_length_record(&d, &r);
    }
}

static void write_and_read(const struct sp_drafting_controller *batch, bool retry)
{
    struct sp_drafting_controller next;
    struct sp_strbuf text = {0};
    struct sp_err err = {0};

    if (sp_drafting_controller_json_write(&text, batch, &err)) abort();
    sp_drafting_controller_init(&next, MAX, true);
    if (sp_drafting_controller_json_is_new(batch) &&
        read_text(&next, text.at, text.len, retry, &err))
        abort();
    sp_strbuf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int retry = 0; retry < 2; retry++) {
        struct sp_drafting_controller batch, before;
        struct sp_err err = {0};
        sp_drafting_controller_init(&batch, MAX, true);
        before = batch;
        if (read_text(&batch, (const char *)data, size, retry, &err)) {
            if (err.text[0] == '\0' || memcmp(&batch, &before, sizeof batch) != 0) abort();
            return 0;
        }
        play(&batch);
        write_and_read(&batch, retry);
    }
    return 0;
}
