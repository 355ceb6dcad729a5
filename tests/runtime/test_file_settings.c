/* Tests what a packed file states about its answers, and the simple API, which answers with it. */
#include "runtime/spectool.h"
#include "tests/support/generate_checks.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char records[] = "PARAMETER top_k 7\n"
                              "PARAMETER temperature 0.9\n"
                              "PARAMETER seed 5\n"
                              "PARAMETER num_predict 12\n"
                              "PARAMETER stop \"<|im_start|>\"\n"
                              "PARAMETER stop \"zebra\"\n"
                              "PARAMETER top_k 11\n"
                              "PARAMETER dry_sequence_breakers none\n"
                              "SYSTEM Be brief.\n"
                              "MESSAGE user Hello.\n"
                              "MESSAGE assistant Good day.\n";

/* The packed file of the tiny model with these records. */
static const char *file_with(const char *name, const char *lines)
{
    const char *path = packed_path(name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fprintf(file, "FROM %s/tiny/target\nDRAFT %s/tiny/dflash\n%s", TESTDATA, TESTDATA, lines);
    assert_int_equal(fclose(file), 0);
    return packed_file(path, SP_Q8, SP_Q8);
}

static const char *value_of(const struct sp_file_settings *info, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < info->n_settings; i++) {
        if (strcmp(info->settings[i].name, name) != 0) continue;
        assert_null(value);
        assert_false(info->settings[i].of_checkpoint);
        value = info->settings[i].value;
    }
    return value;
}

TEST(a_file_states_settings)
{
    struct sp_file_settings *settings = NULL;
    struct sp_request request = SP_REQUEST_INIT;

    assert_ok(sp_file_settings_open(&settings, file_with("settings", records), why));
    assert_int_equal(settings->n_settings, 7);
    assert_string_equal(value_of(settings, "top_k"), "11"); /* the last one counts */
    assert_string_equal(value_of(settings, "temperature"), "0.9");
    assert_null(value_of(settings, "top_p")); /* generation_config.json does not sample */
    assert_string_equal(settings->system, "Be brief.");
    assert_int_equal(settings->n_messages, 2);
    assert_string_equal(settings->messages[1].role, "assistant");
    assert_string_equal(settings->messages[1].content, "Good day.");
    assert_ok(sp_file_settings_apply(settings, &request, why));
    assert_int_equal(request.max_tokens, 12);
    assert_int_equal(request.draft_len, SP_DRAFT_LENGTH_AUTO);
    assert_int_equal(request.n_stops, 2);
    assert_string_equal(request.stops[1], "zebra");
    assert_int_equal(request.sampling->top_k, 11);
    assert_true(request.sampling->temperature > .89f && request.sampling->temperature < .91f);
    assert_int_equal(request.sampling->seed, 5);
    assert_non_null(request.sampling->dry_breakers); /* none, instead of the default ones */
    assert_int_equal(request.sampling->n_dry_breakers, 0);
    sp_file_settings_close(settings);
}

TEST(sampling_has_names)
{
    static const char *const values[][2] = {
        {"temperature", "0.7"}, {"top_k", "2147483647"}, {"min_p", "0.012345678"}};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    char value[SP_SAMPLING_VALUE_SIZE];
    const char *name;
    size_t n = 0;

    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_ok(sp_sampling_set(&sampling, values[i][0], values[i][1], why));
    for (size_t i = 0; (name = sp_sampling_get(&sampling, i, value)); i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            if (strcmp(name, values[k][0]) != 0) continue;
            assert_string_equal(value, values[k][1]);
            n++;
        }
    }
    assert_int_equal(n, 3);
    assert_fails_as(sp_sampling_set(&sampling, "seed", "1", why), SP_E_USAGE,
                    "unknown sampling option seed");
    assert_fails_as(sp_sampling_set(&sampling, "top_p", "1.5", why), SP_E_INPUT,
                    "top_p is 1.5, expected a number 0..1");
}

/* The answer to turns, step by step. */
static char *answer_to(struct sp_package *package, const struct sp_chat_message *turns, size_t n)
{
    const struct sp_chat_request chat = {.size = sizeof chat, .turns = turns, .n_turns = n};
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    struct sp_request request = SP_REQUEST_INIT;
    struct sp_result result;
    struct sp_chat *with;
    struct sp_chat_prompt *prompt;

    sampling.temperature = .9f;
    sampling.top_k = 11;
    sampling.seed = 5;
    assert_ok(sp_chat_open(&with, package, NULL, why));
    assert_ok(sp_chat_prompt_open(&prompt, with, &chat, why));
    sp_chat_prompt_apply(prompt, &request);
    request.sampling = &sampling;
    request.max_tokens = 12;
    result = keep_answer(keep_session(package, NULL), &request);
    sp_chat_prompt_close(prompt);
    sp_chat_close(with);
    return result.text;
}

struct heard {
    char text[1024];
    size_t n_parts, stop_at;
};

static int hear(void *context, const struct sp_chat_part *part)
{
    struct heard *heard = context;

    assert_true(strlen(heard->text) + part->size < sizeof heard->text);
    strncat(heard->text, part->text, part->size);
    return ++heard->n_parts == heard->stop_at;
}

TEST(ask_answers_with_them)
{
    static const struct sp_chat_message all[] = {{"system", "Be brief.", NULL},
                                                 {"user", "Hello.", NULL},
                                                 {"assistant", "Good day.", NULL},
                                                 {"user", "What is 7 plus 8?", NULL}};
    const struct sp_chat_request chat = {.size = sizeof chat, .turns = &all[3], .n_turns = 1};
    struct sp_result result = SP_RESULT_INIT;
    struct heard heard = {.stop_at = 0};
    char *text;

    struct sp_package *package = keep_package(file_with("ask", records), NULL);
    text = answer_to(package, all, 4);
    assert_ok(sp_ask(package, &chat, hear, &heard, &result, why));
    assert_string_equal(result.text, text);
    assert_string_equal(heard.text, text);
    sp_result_release(&result);
    heard = (struct heard){.stop_at = 1};
    assert_ok(sp_ask(package, &chat, hear, &heard, &result, why));
    assert_int_equal(result.stop, SP_STOP_CANCELLED);
    assert_int_equal(heard.n_parts, 1);
    sp_result_release(&result);
    assert_ok(sp_ask(package, &chat, NULL, NULL, NULL, why));
}

GROUP_FIXTURE(packed_setup, packed_teardown);
