/* Tests the Modelfile's grammar and checks. The accepted cases are ollama's documented behavior.
 * Where ollama drops bytes or lines, the expected records keep them. */
#include "format/modelfile/modelfile.h"
#include "format/modelfile/modelfile_check.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* A text, and its records as "command|name|value", joined by SEP, or "!" and the error. */
struct parse_case {
    const char *text, *expected;
};

#define SEP "\x1E"
#define TEMPLATE_TEXT "{{ if .System }}<|s|>\n\n{{ .System }}<|e|>{{ end }}\n\n{{ .Response }}<|e|>"

static const struct parse_case parse_cases[] = {
    /* all commands */
    {"\nFROM model1\nADAPTER adapter1\nLICENSE MIT\nPARAMETER param1 value1\n"
     "PARAMETER param2 value2\nTEMPLATE \"\"\"" TEMPLATE_TEXT "\"\"\"    \n",
     "FROM||model1" SEP "ADAPTER||adapter1" SEP "LICENSE||MIT" SEP "PARAMETER|param1|value1" SEP
     "PARAMETER|param2|value2" SEP "TEMPLATE||" TEMPLATE_TEXT},
    {"\nFROM base\nDRAFT ./assistant\n", "FROM||base" SEP "DRAFT||./assistant"},
    {"FROM foo\nRENDERER renderer1\nPARSER parser1\nREQUIRES v1.2.3",
     "FROM||foo" SEP "RENDERER||renderer1" SEP "PARSER||parser1" SEP "REQUIRES||v1.2.3"},
    {"from foo\nSyStEm x\npArAmEtEr TEMPERATURE 1",
     "FROM||foo" SEP "SYSTEM||x" SEP "PARAMETER|temperature|1"},
    /* whitespace */
    {"\nFROM \"     model 1\"\nADAPTER      adapter3\nLICENSE \"MIT       \"\n"
     "PARAMETER param1        value1\nTEMPLATE \"\"\"   {{ x }}\n   \"\"\"    \n",
     "FROM||     model 1" SEP "ADAPTER||adapter3" SEP "LICENSE||MIT       " SEP
     "PARAMETER|param1|value1" SEP "TEMPLATE||   {{ x }}\n   "},
    {"FROM \"FOO  BAR  \"", "FROM||FOO  BAR  "},
    {"FROM \"FOO BAR\"\nPARAMETER param1 value1", "FROM||FOO BAR" SEP "PARAMETER|param1|value1"},
    {"FROM     FOOO BAR    ", "FROM||FOOO BAR"},
    {"FROM /what/is/the path ", "FROM||/what/is/the path"},
    {"FROM foo", "FROM||foo"},
    {"FROM /path/to/model/fp16.bin", "FROM||/path/to/model/fp16.bin"},
    {"FROM llama3:7b-instruct-q4_K_M", "FROM||llama3:7b-instruct-q4_K_M"},
    {"", ""},
    {"PARAMETER param1 value1\nFROM foo", "PARAMETER|param1|value1" SEP "FROM||foo"},
    {"PARAMETER what the \nFROM lemons make lemonade ",
     "PARAMETER|what|the" SEP "FROM||lemons make lemonade"},
    {"  \t FROM\t foo\t\n\r\n\n\tSYSTEM  x", "FROM||foo" SEP "SYSTEM||x"},
    /* messages */
    {"\nFROM foo\nMESSAGE system You are a file parser. Always parse things.\n",
     "FROM||foo" SEP "MESSAGE|system|You are a file parser. Always parse things."},
    {"FROM foo\nMESSAGE system You are.\nMESSAGE user Hey there!\nMESSAGE assistant Hello, I",
     "FROM||foo" SEP "MESSAGE|system|You are." SEP "MESSAGE|user|Hey there!" SEP
     "MESSAGE|assistant|Hello, I"},
    {"\nFROM foo\nMESSAGE system \"\"\"\nYou are a multiline file parser.\n\"\"\"\n\t\t\t",
     "FROM||foo" SEP "MESSAGE|system|\nYou are a multiline file parser.\n"},
    /* quotes */
    {"FROM foo\nSYSTEM \"\"\"\nThis is a\nmultiline system.\n\"\"\"\n\t\t\t",
     "FROM||foo" SEP "SYSTEM||\nThis is a\nmultiline system.\n"},
    {"FROM foo\nSYSTEM \"\"\"\nThis is a\nmultiline system.\"\"\"\n",
     "FROM||foo" SEP "SYSTEM||\nThis is a\nmultiline system."},
    {"FROM foo\nSYSTEM \"\"\"This is a\nmultiline system.\"\"\"\n",
     "FROM||foo" SEP "SYSTEM||This is a\nmultiline system."},
    {"FROM foo\nSYSTEM \"\"\"One line.\"\"\"", "FROM||foo" SEP "SYSTEM||One line."},
    {"FROM foo\nSYSTEM \"\"\"\nwith \"quotes\".\n\"\"\"\n",
     "FROM||foo" SEP "SYSTEM||\nwith \"quotes\".\n"},
    {"FROM foo\nSYSTEM \"\"\"\"\"\"\n", "FROM||foo" SEP "SYSTEM||"},
    {"FROM foo\nSYSTEM \"\"\n", "FROM||foo" SEP "SYSTEM||"},
    {"FROM foo\nSYSTEM \"'\"\n", "FROM||foo" SEP "SYSTEM||'"},
    {"FROM foo\nSYSTEM \"\"\"''\"'\"\"'\"\"'\"'''''\"\"'\"\"'\"\"\"\n",
     "FROM||foo" SEP "SYSTEM||''\"'\"\"'\"\"'\"'''''\"\"'\"\"'"},
    {"FROM foo\nTEMPLATE \"\"\"\n{{ .Prompt }}\n\"\"\"",
     "FROM||foo" SEP "TEMPLATE||\n{{ .Prompt }}\n"},
    {"SYSTEM \"one\ntwo\"\nFROM x", "SYSTEM||one\ntwo" SEP "FROM||x"},
    {"SYSTEM \"\"\"said \"yes\"\"\"\"\nFROM x", "SYSTEM||said \"yes\"" SEP "FROM||x"},
    {"SYSTEM \"a\" and \"b\"\nFROM x", "SYSTEM||a\" and \"b" SEP "FROM||x"},
    {"SYSTEM \"\"\"\nsay \"\"\"hi\"\"\" now\n\"\"\" \nFROM x",
     "SYSTEM||\nsay \"\"\"hi\"\"\" now\n" SEP "FROM||x"},
    {"SYSTEM \"\"\"say \"\"\"hi\"\"\" ok\"\"\"\nFROM x",
     "SYSTEM||say \"\"\"hi\"\"\" ok" SEP "FROM||x"},
    {"SYSTEM \"Say \"hi\" and\nleave\"\nFROM x", "SYSTEM||Say \"hi\" and\nleave" SEP "FROM||x"},
    {"SYSTEM say \"hi\"\nFROM x", "SYSTEM||say \"hi\"" SEP "FROM||x"},
    {"SYSTEM 'x'\nFROM x", "SYSTEM||'x'" SEP "FROM||x"},
    {"SYSTEM \"\"\"a\r\nb\"\"\"\r\nFROM x", "SYSTEM||a\r\nb" SEP "FROM||x"},
    {"FROM x\nSYSTEM \"\"\"FROM y\n# no comment\n\"\"\"\nLICENSE l",
     "FROM||x" SEP "SYSTEM||FROM y\n# no comment\n" SEP "LICENSE||l"},
    /* parameters */
    {"FROM f\nPARAMETER stop ### User:\nPARAMETER stop ### User: \n",
     "FROM||f" SEP "PARAMETER|stop|### User:" SEP "PARAMETER|stop|### User:"},
    {"FROM f\nPARAMETER stop \"### User:\"\nPARAMETER stop \"### User: \"\n",
     "FROM||f" SEP "PARAMETER|stop|### User:" SEP "PARAMETER|stop|### User: "},
    {"FROM f\nPARAMETER stop \"\"\"### User:\"\"\"\nPARAMETER stop \"\"\"### User:\n\"\"\"\n",
     "FROM||f" SEP "PARAMETER|stop|### User:" SEP "PARAMETER|stop|### User:\n"},
    {"FROM f\nPARAMETER stop <|eot_id|>\nPARAMETER stop </s>",
     "FROM||f" SEP "PARAMETER|stop|<|eot_id|>" SEP "PARAMETER|stop|</s>"},
    /* comments */
    {"\n# comment\nFROM foo\n\t", "FROM||foo"},
    {"  # FROM a\rFROM b # c\n#", "FROM||b # c"},
    /* bytes that ollama drops */
    {"FROM f\nSYSTEM a\xC2\xA0"
     "b\xE3\x80\x80"
     "c \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
     "FROM||f" SEP "SYSTEM||a\xC2\xA0"
     "b\xE3\x80\x80"
     "c \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80"},
    {"\xEF\xBB\xBF"
     "FROM test\n\tSYSTEM \xE4\xBD\xA0\xE5\xA5\xBD\xF0\x9F\x91\x8B",
     "FROM||test" SEP "SYSTEM||\xE4\xBD\xA0\xE5\xA5\xBD\xF0\x9F\x91\x8B"},

    /* errors and their locations */
    {"\nFROM foo\nPARAMETER param1\n", "!m:3:17: param1: a value is missing"},
    {"\nFROM foo\nBADCOMMAND param1 value1\n", "!m:3:1: BADCOMMAND is not a command"},
    {"FROM a\nBAD\n", "!m:2:1: BAD is not a command"},
    {"FROM a\r\n\r\nBAD\r\n", "!m:3:1: BAD is not a command"},
    {"FROM a\rBAD", "!m:2:1: BAD is not a command"},
    {"FROM\n", "!m:1:5: FROM: a value is missing"},
    {"FROM ", "!m:1:6: FROM: a value is missing"},
    {"FROM=x", "!m:1:1: FROM=x is not a command"},
    {"FROMX x", "!m:1:1: FROMX is not a command"},
    {"\"FROM\" x", "!m:1:1: \"FROM\" is not a command"},
    {"FROM foo\nMESSAGE badguy I'm a bad guy!\n", "!m:2:9: MESSAGE: role badguy, expected"},
    {"FROM foo\nMESSAGE system\n", "!m:2:15: system: a value is missing"},
    {"FROM foo\nMESSAGE system", "!m:2:15: system: a value is missing"},
    {"FROM foo\nMESSAGE user: hi", "!m:2:13: MESSAGE: a role consists of letters"},
    {"PARAMETER top-k 1", "!m:1:14: PARAMETER: a name consists of letters, digits and _"},
    {"PARAMETER\n", "!m:1:10: PARAMETER: a name and a value are missing"},
    {"FROM foo\nSYSTEM \"\"\"This is a multiline system.\"\"\n",
     "!m:2:8: these \"\"\" are never closed"},
    {"FROM foo\nSYSTEM \"\n\t\t\t", "!m:2:8: this quote is not closed"},
    {"FROM a\nSYSTEM \"\"\"x\"\"\" y\nPARAMETER seed 1",
     "!m:2:8: these \"\"\" are never closed at the end of a line"},
    {"FROM \xE4\xBD\xA0\xE5\xA5\xBD\nX", "!m:2:1: X is not a command"},
    {"FROM a\nSYSTEM \xFF", "!m:2:8: not UTF-8 text"},
    {"FROM a\nSYSTEM \xC0\x80", "!m:2:8: not UTF-8 text"},
};

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

TEST(test_grammar)
{
    for (size_t i = 0; i < sizeof parse_cases / sizeof parse_cases[0]; i++) {
        const struct parse_case *c = &parse_cases[i];
        struct sp_modelfile file;
        struct sp_err err = {0};
        enum sp_status st = sp_modelfile_parse(&file, "m", c->text, strlen(c->text), &err);
        if (*c->expected != '!') {
            if (st) fail_msg("case %zu: %s", i, err.text);
            assert_string_equal(records_as_text(&file), c->expected);
        } else if (st != SP_E_INPUT ||
                   strncmp(err.text, c->expected + 1, strlen(c->expected + 1)) != 0) {
            fail_msg("case %zu: status %d, \"%s\", expected \"%s\"", i, (int)st, err.text,
                     c->expected);
        }
        sp_modelfile_release(&file);
    }
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

/* ---- checks ---- */

struct check_case {
    const char *text;
    enum sp_status status;
    const char *message; /* beginning of the error, or part of the warnings; NULL: no warnings */
};

static const struct check_case check_cases[] = {
    {"FROM a\nDRAFT b\nPARAMETER temperature 0.5\nPARAMETER top_k 1\nSYSTEM x\nLICENSE 1\n"
     "LICENSE 2\nMESSAGE user a\nMESSAGE assistant b\nPARAMETER stop a\nPARAMETER stop b",
     SP_OK, NULL},
    {"", SP_E_INPUT, "m:1:1: no FROM line"},
    {"PARAMETER seed 1\n", SP_E_INPUT, "m:2:1: no FROM line"},
    {"FROM \"\"", SP_E_INPUT, "m:1:6: FROM is empty"},
    {"FROM a\nFROM b", SP_E_INPUT, "m:2:1: a second FROM, after line 1"},
    {"FROM a\nDRAFT b\n\nDRAFT c", SP_E_INPUT, "m:4:1: a second DRAFT, after line 2"},
    {"FROM a\nADAPTER \"\"", SP_E_INPUT, "m:2:9: ADAPTER is empty"},
    {"FROM a\nADAPTER b\nADAPTER b", SP_E_INPUT, "m:3:1: a second ADAPTER, after line 2"},
    {"FROM a\nPARAMETER what the", SP_E_INPUT, "m:2:1: unknown parameter what"},
    {"FROM a\nPARAMETER temprature 1", SP_E_INPUT,
     "m:2:1: unknown parameter temprature, did you mean temperature?"},
    {"FROM a\nPARAMETER top_p -3", SP_E_INPUT, "m:2:17: PARAMETER top_p is -3, expected a number"},
    {"FROM a\nPARAMETER top_p 1.01", SP_E_INPUT, "m:2:17: PARAMETER top_p is 1.01"},
    {"FROM a\nPARAMETER top_k -1", SP_OK, NULL},
    {"FROM a\nPARAMETER top_k 1.5", SP_E_INPUT, "m:2:17: PARAMETER top_k is 1.5"},
    {"FROM a\nPARAMETER top_k 1 2", SP_E_INPUT, "m:2:17: PARAMETER top_k is 1 2"},
    {"FROM a\nPARAMETER top_k x", SP_E_INPUT, "m:2:17: PARAMETER top_k is x"},
    {"FROM a\nPARAMETER top_k 99999999999999999999", SP_E_INPUT, "m:2:17: PARAMETER top_k"},
    {"FROM a\nPARAMETER temperature NaN", SP_E_INPUT, "m:2:23: PARAMETER temperature is NaN"},
    {"FROM a\nPARAMETER temperature inf", SP_E_INPUT, "m:2:23: PARAMETER temperature is inf"},
    {"FROM a\nPARAMETER temperature 0x1", SP_E_INPUT, "m:2:23: PARAMETER temperature is 0x1"},
    {"FROM a\nPARAMETER temperature 1e999", SP_E_INPUT, "m:2:23: PARAMETER temperature"},
    {"FROM a\nPARAMETER temperature \"\"", SP_E_INPUT, "m:2:23: PARAMETER temperature is ,"},
    {"FROM a\nPARAMETER seed 1.5", SP_E_INPUT,
     "m:2:16: PARAMETER seed is 1.5, expected an integer "
     "-9223372036854775808..9223372036854775807"},
    {"FROM a\nPARAMETER seed 9223372036854775808", SP_E_INPUT, "m:2:16: PARAMETER seed is 9"},
    {"FROM a\nPARAMETER seed 9223372036854775807", SP_OK, NULL},
    {"FROM a\nPARAMETER seed -9223372036854775808", SP_OK, NULL},
    {"FROM a\nPARAMETER top_p 2", SP_E_INPUT,
     "m:2:17: PARAMETER top_p is 2, expected a number 0..1"},
    {"FROM a\nPARAMETER stop \"\"", SP_E_INPUT, "m:2:16: PARAMETER stop is empty"},
    {"FROM a\nPARAMETER use_mmap maybe", SP_E_INPUT, "m:2:20: PARAMETER use_mmap is maybe"},
    {"FROM a\nREQUIRES soon", SP_E_INPUT, "m:2:10: REQUIRES is soon"},
    {"FROM a\nREQUIRES 1.2.3.4", SP_E_INPUT, "m:2:10: REQUIRES is 1.2.3.4"},
    {"FROM a\nREQUIRES v0.19.0-rc1", SP_OK, "m:2: REQUIRES is stored without effect"},
    {"FROM a\nRENDERER x", SP_OK, "m:2: RENDERER is stored without effect: the template"},
    {"FROM a\nPARSER x", SP_OK, "m:2: PARSER is stored without effect"},
    {"FROM a\nPARAMETER num_gpu 1", SP_OK, "m:2: PARAMETER num_gpu is stored without effect"},
    {"FROM a # b", SP_OK, "m:1: \" #\" is part of the path"},
    {"FROM a\nSYSTEM x\nSYSTEM y", SP_OK, "m:2: SYSTEM is replaced by a later one"},
    {"FROM a\nPARAMETER seed 1\nPARAMETER Seed 2", SP_OK, "m:2: PARAMETER seed is replaced"},
};

static void add_warning(void *context, const char *sentence)
{
    char *warnings = context;

    strcat(warnings, sentence);
    strcat(warnings, "\n");
}

TEST(test_checks)
{
    for (size_t i = 0; i < sizeof check_cases / sizeof check_cases[0]; i++) {
        const struct check_case *c = &check_cases[i];
        struct sp_modelfile file;
        struct sp_err err = {0};
        char warnings[2048] = "";
        assert_ok(sp_modelfile_parse(&file, "m", c->text, strlen(c->text), &err));
        if (sp_modelfile_check(&file, add_warning, warnings, &err) != c->status)
            fail_msg("check %zu: status %d, \"%s\"", i, (int)err.status, err.text);
        const char *reported = c->status ? err.text : warnings;
        if (c->message ? strncmp(reported, c->message, strlen(c->message)) != 0 : warnings[0])
            fail_msg("check %zu: \"%s\"", i, reported);
        assert_int_equal(sp_modelfile_check(&file, NULL, NULL, NULL), c->status);
        sp_modelfile_release(&file);
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
