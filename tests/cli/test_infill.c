/* Tests the prompts of fill-in-the-middle against those that the tokenizers library and the
 * families' publications give (tests/oracle/infill_cases.py). */
#include "cli/chat/loaded_model.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

enum { MOST_EXTRA = 4 };

static struct sp_infill_text text_of(const struct sp_json *value)
{
    struct sp_infill_text text = {NULL, 0};

    text.at = sp_json_to_string(value, &text.size);
    return text;
}

static void check_case(const struct tokenizer_case *t, const struct sp_infill_tokens *tokens,
                       const struct sp_json *c, const char *where)
{
    const struct sp_json *list = sp_json_get(c, "extra");
    struct sp_infill_extra extra[MOST_EXTRA] = {{{NULL, 0}, {NULL, 0}}};
    struct sp_infill_gap gap = {.prefix = text_of(sp_json_get(c, "prefix")),
                                .suffix = text_of(sp_json_get(c, "suffix")),
                                .begun = text_of(sp_json_get(c, "begun")),
                                .extra = extra,
                                .n_extra = sp_json_len(list)};
    struct sp_ids ids = {0};
    int64_t most = 0;
    size_t n;
    uint32_t *want = golden_ids(sp_json_get(c, "ids"), &n);

    assert_true(gap.n_extra <= MOST_EXTRA);
    for (size_t i = 0; i < gap.n_extra; i++) {
        extra[i].name = text_of(sp_json_at(sp_json_at(list, i), 0));
        extra[i].text = text_of(sp_json_at(sp_json_at(list, i), 1));
    }
    assert_true(sp_json_to_i64(sp_json_get(c, "most"), &most));
    gap.n_most = (size_t)most;
    assert_case_ok(where, sp_infill_prompt(&ids, tokens, t->tok, &gap, why));
    for (size_t i = 0; i < n && i < ids.n; i++) {
        if (ids.at[i] == want[i]) continue;
        fail_msg("%s: '%s': id %zu of %zu is %u, expected %u", where, gap.prefix.at, i, n,
                 (unsigned)ids.at[i], (unsigned)want[i]);
    }
    if (ids.n != n) fail_msg("%s: '%s': %zu ids, expected %zu", where, gap.prefix.at, ids.n, n);
    sp_ids_release(&ids);
}

static void check_line(const struct sp_json *line)
{
    const struct sp_json *cases = sp_json_get(line, "cases");
    struct sp_infill_text json = text_of(sp_json_get(line, "tokenizer"));
    const char *name = sp_json_get_text(line, "name");
    struct sp_infill_tokens tokens;
    struct tokenizer_case t;
    size_t n_ends;
    uint32_t *ends = golden_ids(sp_json_get(line, "ends"), &n_ends);

    tokenizer_case_open(&t, json.at, json.size, NULL);
    assert_ok(sp_infill_find(&tokens, t.tok, NULL));
    assert_int_equal(tokens.found, sp_json_len(cases) > 0);
    assert_int_equal(tokens.n_ends, n_ends);
    for (size_t i = 0; i < n_ends; i++)
        assert_int_equal(tokens.ends[i], ends[i]);
    for (size_t i = 0; i < sp_json_len(cases); i++)
        check_case(&t, &tokens, sp_json_at(cases, i), name);
}

TEST(test_families)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/tokenizer/infill.jsonl");
    size_t n = 0;

    for (; line[n]; n++)
        check_line(line[n]);
    assert_int_equal(n, 9);
}
