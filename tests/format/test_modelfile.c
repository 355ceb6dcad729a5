/* Tests the Modelfile's grammar and checks. The accepted cases are ollama's documented behavior.
 * Where ollama drops bytes or lines, the expected records keep them. */
#include "format/modelfile/modelfile.h"
#include "format/modelfile/modelfile_check.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#define SEP "\x1E"

/* The records as one string; kept. */
static char *records_as_text(const struct sp_modelfile *file)
{
    char *out = calloc(1, file->size + 32 * file->n_records + 1), *p = out;

    assert_non_null(out);
    for (size_t i = 0; i < file->n_records; i++) {
        const struct sp_modelfile_record *r = &file->records[i];
        p += sprintf(p, "%s%s|%s|%s", i ? SEP : "", sp_modelfile_command_name(r->command),
                     r->name ? r->name : "", r->value);
    }
    return keep(out);
}

/* A text of cases.jsonl: its records as "command|name|value", or the beginning of the error. */
static void check_grammar(const char *text, size_t size, const struct sp_json *line)
{
    const struct sp_json *records = sp_json_get(line, "records");
    const char *error = sp_json_get_text(line, "error"), *want = "";
    struct sp_modelfile file;
    struct sp_err err = {0};
    enum sp_status st = sp_modelfile_parse(&file, "m", text, size, &err);

    for (size_t i = 0; i < sp_json_len(records); i++)
        want = keep_format("%s%s%s", want, i ? SEP : "",
                           sp_json_to_string(sp_json_at(records, i), NULL));
    if (error == NULL) {
        if (st) fail_msg("%s: %s", text, err.text);
        assert_string_equal(records_as_text(&file), want);
    } else if (st != SP_E_INPUT || strncmp(err.text, error, strlen(error)) != 0) {
        fail_msg("%s: status %d, \"%s\", expected \"%s\"", text, (int)st, err.text, error);
    }
    sp_modelfile_release(&file);
}

static void add_warning(void *context, const char *sentence)
{
    char *warnings = context;

    strcat(warnings, sentence);
    strcat(warnings, "\n");
}

/* What is checked of a text: the beginning of the error, or of the warnings; none: no warnings. */
static void check_meaning(const char *text, size_t size, const char *message, bool is_right)
{
    const enum sp_status status = is_right ? SP_OK : SP_E_INPUT;
    struct sp_modelfile file;
    struct sp_err err = {0};
    char warnings[2048] = "";

    assert_ok(sp_modelfile_parse(&file, "m", text, size, why));
    if (sp_modelfile_check(&file, add_warning, warnings, &err) != status)
        fail_msg("%s: status %d, \"%s\"", text, (int)err.status, err.text);
    const char *reported = is_right ? warnings : err.text;
    if (message ? strncmp(reported, message, strlen(message)) != 0 : warnings[0])
        fail_msg("%s: \"%s\"", text, reported);
    assert_int_equal(sp_modelfile_check(&file, NULL, NULL, NULL), status);
    sp_modelfile_release(&file);
}

TEST(test_cases)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/modelfile/cases.jsonl");
    size_t n = 0, size;

    for (; line[n]; n++) {
        const char *text = sp_json_to_string(sp_json_get(line[n], "text"), &size);
        bool is_right;
        if (sp_json_to_bool(sp_json_get(line[n], "check"), &is_right))
            check_meaning(text, size, sp_json_get_text(line[n], "message"), is_right);
        else
            check_grammar(text, size, line[n]);
    }
    assert_int_equal(n, 105);
}

TEST(test_invalid_utf8)
{
    static const char *const texts[] = {"FROM a\nSYSTEM \xFF", "FROM a\nSYSTEM \xC0\x80"};
    struct sp_modelfile file;

    for (size_t i = 0; i < 2; i++)
        assert_fails(sp_modelfile_parse(&file, "m", texts[i], strlen(texts[i]), why), SP_E_INPUT,
                     "m:2:8: not UTF-8 text");
}

TEST(test_nul_is_refused)
{
    struct sp_modelfile file;

    assert_fails_as(sp_modelfile_parse(&file, "m", "FROM a\0b", 8, why), SP_E_INPUT,
                    "m:1:7: not UTF-8 text");
}

/* "FROM b\nSYSTEM <U+4F60><U+1F44B>" in both byte orders. */
TEST(test_utf16)
{
    static const uint16_t units[] = {0xFEFF, 'F', 'R', 'O', 'M', ' ', 'b',    '\n',   'S',
                                     'Y',    'S', 'T', 'E', 'M', ' ', 0x4F60, 0xD83D, 0xDC4B};
    enum { N = sizeof units / sizeof units[0] };

    for (int big = 0; big < 2; big++) {
        struct sp_modelfile file;
        uint8_t bytes[2 * N];
        for (size_t i = 0; i < N; i++) {
            bytes[2 * i + !big] = (uint8_t)(units[i] >> 8);
            bytes[2 * i + !!big] = (uint8_t)units[i];
        }
        assert_ok(sp_modelfile_parse(&file, "m", bytes, sizeof bytes, why));
        char *got = records_as_text(&file);
        assert_string_equal(got, "FROM||b" SEP "SYSTEM||\xE4\xBD\xA0\xF0\x9F\x91\x8B");
        sp_modelfile_release(&file);
        assert_int_equal(sp_modelfile_parse(&file, "m", bytes, sizeof bytes - 1, NULL), SP_E_INPUT);
        assert_fails_as(sp_modelfile_parse(&file, "m", bytes, sizeof bytes - 2, why), SP_E_INPUT,
                        "m:2:9: half of a UTF-16 surrogate pair");
    }
}

TEST(test_records_are_kept_byte_for_byte)
{
    static const char text[] = "# about\nfrom  ./a \r\n  System  \"\"\"x\r\n  y\"\"\"  \r\n\n"
                               "DRAFT ./b\nPARAMETER stop \"a \"\nLICENSE  z  ";
    static const char stored[] = "System  \"\"\"x\r\n  y\"\"\"  \nPARAMETER stop \"a \"\n"
                                 "LICENSE  z  \n";
    struct sp_modelfile file, again;
    struct sp_text out, whole, twice;

    assert_ok(sp_modelfile_parse(&file, "m", text, strlen(text), NULL));
    assert_ok(sp_modelfile_print(&out, &file, NULL));
    assert_string_equal(out.at, stored);
    assert_int_equal(out.size, strlen(stored));

    assert_ok(sp_modelfile_recreate(&whole, "dir/p.bin", "dir/p.bin", &out, NULL));
    assert_memory_equal(whole.at, "FROM dir/p.bin\nDRAFT dir/p.bin\nSystem", 37);
    assert_ok(sp_modelfile_parse(&again, "m", whole.at, whole.size, NULL));
    assert_ok(sp_modelfile_print(&twice, &again, NULL));
    assert_string_equal(twice.at, stored);
    free(again.records[0].value);
    free(again.records[1].value);
    again.records[0].value = calloc(1, 4);
    again.records[1].value = calloc(1, 4);
    memcpy(again.records[0].value, "./a", 4);
    memcpy(again.records[1].value, "./b", 4);
    char *got = records_as_text(&again);
    char *want = strdup("FROM||./a" SEP "DRAFT||./b" SEP "SYSTEM||x\r\n  y" SEP
                        "PARAMETER|stop|a " SEP "LICENSE||z");
    assert_string_equal(got, want);
    free(want);
    free(out.at);
    free(whole.at);
    free(twice.at);
    sp_modelfile_release(&file);
    sp_modelfile_release(&again);
}

TEST(test_odd_names_survive)
{
    static const char *const names[] = {"a b.bin", " lead", "trail ", "\"q\".bin", "\"q", "a\tb"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sp_modelfile file;
        struct sp_text text;
        assert_ok(sp_modelfile_recreate(&text, names[i], NULL, &(struct sp_text){0}, NULL));
        assert_ok(sp_modelfile_parse(&file, "m", text.at, text.size, NULL));
        assert_int_equal(file.n_records, 1);
        assert_string_equal(file.records[0].value, names[i]);
        sp_modelfile_release(&file);
        free(text.at);
    }
}

/* 64 stop texts are accepted. The 65th is refused with its location. */
TEST(test_number_of_stops)
{
    char text[2048] = "FROM a\n";
    struct sp_modelfile file;

    for (int i = 0; i < 64; i++)
        strcat(text, "PARAMETER stop a\n");
    assert_ok(sp_modelfile_parse(&file, "m", text, strlen(text), why));
    assert_ok(sp_modelfile_check(&file, NULL, NULL, why));
    sp_modelfile_release(&file);
    strcat(text, "PARAMETER stop b\n");
    assert_ok(sp_modelfile_parse(&file, "m", text, strlen(text), why));
    assert_fails_as(sp_modelfile_check(&file, NULL, NULL, why), SP_E_INPUT,
                    "m:66:1: PARAMETER stop: more than 64 stop texts");
    sp_modelfile_release(&file);
}

TEST(test_every_parameter_has_values)
{
    size_t n;
    const struct sp_parameter *all = sp_parameters(&n);

    assert_int_equal(n, 40);
    for (size_t i = 0; i < n; i++) {
        char value[64];
        int64_t integer;
        double number;
        bool flag;
        assert_ptr_equal(sp_parameter_find(all[i].name), &all[i]);
        switch (all[i].type) {
        case SP_PARAMETER_INT:
            assert_true(all[i].min < all[i].max);
            snprintf(value, sizeof value, "%.0f", all[i].min);
            assert_ok(sp_parameter_integer(&integer, &all[i], value, NULL));
            assert_true((double)integer == all[i].min);
            break;
        case SP_PARAMETER_FLOAT:
            snprintf(value, sizeof value, "%.17g", all[i].max);
            assert_ok(sp_parameter_number(&number, &all[i], value, NULL));
            assert_true(number == all[i].max);
            snprintf(value, sizeof value, "%.17g", all[i].max + 1);
            assert_int_equal(sp_parameter_number(&number, &all[i], value, NULL), SP_E_INPUT);
            break;
        case SP_PARAMETER_BOOL:
            assert_ok(sp_parameter_bool(&flag, &all[i], "True", NULL));
            assert_true(flag);
            assert_ok(sp_parameter_bool(&flag, &all[i], "0", NULL));
            assert_false(flag);
            break;
        case SP_PARAMETER_TEXT:
            assert_true(strcmp(all[i].name, "stop") == 0 ||
                        strcmp(all[i].name, "dry_sequence_breakers") == 0);
            break;
        }
    }
    assert_null(sp_parameter_find("penalty"));
}

TEST(test_the_last_record_counts)
{
    static const char text[] = "FROM a\nPARAMETER seed 1\nPARAMETER top_k 2\nPARAMETER seed 3";
    struct sp_modelfile file;

    assert_ok(sp_modelfile_parse(&file, "m", text, strlen(text), NULL));
    assert_string_equal(sp_modelfile_find(&file, SP_MODELFILE_PARAMETER, "seed")->value, "3");
    assert_string_equal(sp_modelfile_find(&file, SP_MODELFILE_PARAMETER, "top_k")->value, "2");
    assert_null(sp_modelfile_find(&file, SP_MODELFILE_PARAMETER, "top_p"));
    assert_null(sp_modelfile_find(&file, SP_MODELFILE_SYSTEM, NULL));
    sp_modelfile_release(&file);
}
