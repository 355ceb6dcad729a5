/* runtime/speculate/drafting_controller_json: what one process writes, the next begins with. */
#include "runtime/speculate/draft_length.h"
#include "runtime/speculate/drafting_controller.h"
#include "tests/support/unit_test.h"
#include <math.h>

enum { MAX = 8, N_ROUNDS = 60 };

/* Plays rounds of two draft tokens, of which both or none are accepted: nine times in ten both. A
 * plain step takes a second, a row .05, a draft token `cost`. */
static void play(struct sp_drafting_controller *batch, double cost)
{
    struct sp_draft_length d;

    sp_drafting_controller_init(batch, MAX, true);
    sp_draft_length_init(&d, batch);
    for (size_t i = 0; i < N_ROUNDS; i++) {
        struct sp_round r = {.pass = i + 1, .verify_seconds = 1};
        if (i % 3) {
            r.asked = r.made = r.drafted = 2;
            r.accepted = i % 10 ? 2 : 0;
            r.draft_seconds = r.draft_cost = 2 * cost;
            r.verify_seconds = 1.1;
            r.n_caught_up = i == 1 ? 100 : 0;
            r.catch_up_seconds = i == 1 ? 5 : 0;
        }
        r.emitted = r.accepted + 1;
        sp_draft_length_record(&d, &r);
    }
}

static struct sp_strbuf written(const struct sp_drafting_controller *batch)
{
    struct sp_strbuf text = {0};

    assert_ok(sp_drafting_controller_json_write(&text, batch, why));
    assert_ok(sp_strbuf_append(&text, "", 1, why));
    text.len--;
    return text;
}

static enum sp_status read_text(struct sp_drafting_controller *batch, const char *text, size_t size,
                                bool retry)
{
    struct sp_json *json = NULL;
    enum sp_status st = sp_json_parse(&json, text, size, SP_JSON_STRICT, NULL);

    if (!st) st = sp_drafting_controller_json_read(batch, json, retry, NULL);
    sp_json_free(json);
    return st;
}

/* Returns the draft length of the first round of a process that begins with the statistics. */
static size_t first_length(struct sp_drafting_controller *batch, const struct sp_strbuf *text,
                           bool retry)
{
    struct sp_draft_length d;

    sp_drafting_controller_init(batch, MAX, true);
    assert_int_equal(read_text(batch, text->at, text->len, retry), SP_OK);
    sp_draft_length_init(&d, batch);
    return sp_draft_length_choose(&d, MAX, NULL);
}

TEST(next_process_knows)
{
    struct sp_drafting_controller first, next;
    struct sp_strbuf text;

    play(&first, .2);
    text = written(&first);
    assert_true(first_length(&next, &text, false) > 0);
    assert_true(fabs(sp_cost_model_at(&next.verify, 2) - 1.1) < .02);
    assert_true(fabs(sp_cost_model_at(&next.draft, 2) - .4) < .02);
    assert_true(fabs(next.acceptance[1] - .9) < .05);
    assert_true(next.tried[1] <= 8 && next.tokens <= 24 && next.verify.weight[2] <= 2);
    assert_true(fabs(next.confidence.a - first.confidence.a) < 1e-4);
    assert_true(next.caught_up == 100 && next.catch_up_seconds == 5);
    sp_strbuf_release(&text);
}

TEST(costly_draft_begins_paused)
{
    struct sp_drafting_controller first, next;
    struct sp_strbuf text;

    play(&first, 1.5);
    text = written(&first);
    assert_int_equal(first_length(&next, &text, false), 0);
    assert_true(next.paused && next.wait >= 60);
    assert_true(first_length(&next, &text, true) > 0);
    sp_strbuf_release(&text);
}

/* One text at which drafting lost a little does not keep the next from being drafted. */
TEST(slight_loss_is_tried_again)
{
    struct sp_drafting_controller first, next;
    struct sp_strbuf text;

    play(&first, .92); /* 2.8 tokens in 2.94 s */
    text = written(&first);
    assert_true(first_length(&next, &text, false) > 0);
    assert_true(next.drafted < 1); /* tokens a second; plain steps make one */
    sp_strbuf_release(&text);
}

TEST(few_rounds_are_not_kept)
{
    struct sp_drafting_controller batch;

    play(&batch, .2);
    assert_true(sp_drafting_controller_json_is_new(&batch));
    sp_drafting_controller_init(&batch, MAX, true);
    assert_false(sp_drafting_controller_json_is_new(&batch));
}

/* Each member in turn gets a value that cannot be. */
TEST(damaged_statistics_are_refused)
{
    static const char *const parts[][2] = {
        {"{\"version\": 1", "{\"version\": 2"},
        {"\"verify\": [[0,", "\"verify\": [[-1,"},
        {"\"verify\": [[0,", "\"verify\": [[256,"},
        {"\"verify\": [[0, 1,", "\"verify\": [[0, \"1\","},
        {"\"verify\": [", "\"verify\": [[3, 1, 0], "},
        {"\"draft\": [[2,", "\"draft\": [[9,"},
        {"\"draft\": [[2,", "\"draft\": [[2, 1,"},
        {"\"catch_up\": [100", "\"catch_up\": [1e99"},
        {"\"accepted\": [[1,", "\"accepted\": [[0,"},
        {"\"accepted\": [[1,", "\"accepted\": [[9,"},
        {"\"confidence\": [", "\"confidence\": [0, "},
        {"\"drafted\"", "\"draft\""},
    };
    struct sp_drafting_controller first, batch, fresh;
    struct sp_strbuf text;
    char damaged[4096];

    play(&first, .2);
    text = written(&first);
    sp_drafting_controller_init(&fresh, MAX, true);
    batch = fresh;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *at = strstr(text.at, parts[i][0]);
        size_t before, removed = strlen(parts[i][0]);
        assert_non_null(at);
        before = (size_t)(at - text.at);
        int n = snprintf(damaged, sizeof damaged, "%.*s%s%.*s", (int)before, text.at, parts[i][1],
                         (int)(text.len - before - removed), at + removed);
        assert_int_not_equal(read_text(&batch, damaged, (size_t)n, false), SP_OK);
        assert_memory_equal(&batch, &fresh, sizeof batch);
    }
    assert_int_not_equal(read_text(&batch, "[]", 2, false), SP_OK);
    sp_strbuf_release(&text);
}

/* A draft that has a prompt to read first must save that time in the answer. */
TEST(long_prompt_must_pay)
{
    struct sp_drafting_controller batch;
    struct sp_draft_length d;
    struct sp_draft_outlook outlook = {.n_unread = 100, .n_left = 128, .row_seconds = .05};

    sp_drafting_controller_init(&batch, MAX, true);
    sp_draft_length_init(&d, &batch);
    assert_int_equal(sp_draft_length_choose(&d, MAX, &outlook), 0); /* no plain step is timed */
    assert_int_equal(d.reason, SP_ROUND_CATCH_UP);
    play(&batch, .2); /* 100 tokens take five plain steps; drafting halves the time */
    sp_draft_length_init(&d, &batch);
    d.pass = N_ROUNDS;
    assert_true(sp_draft_length_choose(&d, MAX, &outlook) > 0);
    outlook.n_left = 4;
    assert_int_equal(sp_draft_length_choose(&d, MAX, &outlook), 0);
    outlook.n_unread = 20;
    assert_true(sp_draft_length_choose(&d, MAX, &outlook) > 0);
    outlook = (struct sp_draft_outlook){.n_unread = 4000, .n_left = 128};
    assert_int_equal(sp_draft_length_choose(&d, MAX, &outlook), 0);
    outlook.n_written = outlook.n_left = 800;
    assert_true(sp_draft_length_choose(&d, MAX, &outlook) > 0);
}
