/* cli/base/opt.h: how command lines are read; and every command's table, walked. */
#include <math.h>

#include "cli/commands.h"
#include "format/base/spelling.h"
#include "cli/base/backend_opts.h"
#include "quantize/kernels/kernels.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

struct options {
    bool flag;
    int64_t n;
    double x, seconds;
    const char *text, *choice, *level;
    uint64_t size;
    struct sp_opt_list list;
};

static const char *const choices[] = {"one", "two", NULL};
static const char *const levels[] = {"on", "high", NULL};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Heading"},
    {SP_OPT_FLAG, 'f', "flag", NULL, NULL, AT(flag), .help = "h"},
    {SP_OPT_INT, 0, "number", "amount", "N", AT(n), .min = -5, .max = 10, .word = "auto",
     .word_value = 99, .help = "h"},
    {SP_OPT_NUMBER, 'x', "real", NULL, "X", AT(x), .min = 0, .max = 1, .help = "h"},
    {SP_OPT_STRING, 0, "text", NULL, "T", AT(text), .help = "h"},
    {SP_OPT_CHOICE, 0, "choice", NULL, "C", AT(choice), .choices = choices, .help = "h"},
    {SP_OPT_STRING, 0, "level", NULL, "L", AT(level), .words = levels, .help = "h"},
    {SP_OPT_SIZE, 0, "size", NULL, "S", AT(size), .help = "h"},
    {SP_OPT_SECONDS, 0, "time", NULL, "T", AT(seconds), .help = "h"},
    {SP_OPT_LIST, 0, "list", NULL, "L", AT(list), .help = "h"},
    {.kind = SP_OPT_END},
};

static const struct options defaults = {.n = 7, .x = 0.25, .text = "default"};

static const struct sp_command command = {
    .name = "test",
    .summary = "s",
    .operands = "A [B]",
    .min_operands = 1,
    .max_operands = 2,
    SP_COMMAND_OPTIONS(opts, defaults),
};

static const struct sp_command with_environment = {
    .name = "test",
    .summary = "s",
    .operands = "A [B]",
    .min_operands = 1,
    .max_operands = 2,
    .reads_environment = true,
    SP_COMMAND_OPTIONS(opts, defaults),
};

enum { MAX_WORDS = 16 };

/* Parses words that end with NULL; they stay valid until the next call. */
static enum sp_status parse(struct sp_args *args, struct sp_err *err, const char *const *words)
{
    static char copies[MAX_WORDS][64];
    static char *argv[MAX_WORDS];
    int argc = 0;

    for (; words[argc] != NULL; argc++) {
        strcpy(copies[argc], words[argc]);
        argv[argc] = copies[argc];
    }
    *err = (struct sp_err){0};
    return sp_args_parse(args, &command, argc, argv, err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(sizes)
{
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {
        {"1", 1},
        {"500", 500},
        {"7k", 7000},
        {"7KiB", 7 << 10},
        {"6G", 6000000000},
        {"6gb", 6000000000},
        {"3Mi", 3 << 20},
        {"3MB", 3000000},
        {"2B", 2},
        {"2Gi", (uint64_t)2 << 30},
        {"5.5G", 5500000000},
        {"0.25k", 250},
        {"1.0001k", 1000},
        {"1.5Ki", 1536},
        {"1.999999999Gi", 2147483646},
    };
    struct sp_args args;
    struct sp_err err;

    for (const char *const *text = WORDS("0", "", "G", "5T", "-1", " 1", "1 k", "0.0G", ".5G",
                                         "1.5", "1.G", "1.-5G", "1.1234567891G", "1.5.5G",
                                         "99999999999.5G", "99999999999G", "9999999999999999999");
         *text; text++)
        assert_int_equal(parse(&args, &err, WORDS("a", "--size", *text)), SP_E_USAGE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(parse(&args, &err, WORDS("a", "--size", cases[i].text)));
        assert_int_equal(((const struct options *)args.options)->size, cases[i].want);
        sp_args_release(&args);
    }
}

TEST(durations)
{
    static const struct {
        const char *text;
        double want; /* NAN: refused */
    } cases[] = {
        {"0", 0},      {"300", 300},   {"-1", -1},    {"5m", 300},   {"1h30m", 5400},
        {"1.5s", 1.5}, {"300ms", 0.3}, {"-1m", -60},  {"+2h", 7200}, {"0.5", 0.5},
        {"", NAN},     {"m", NAN},     {"5x", NAN},   {"1m5", NAN},  {"1..5s", NAN},
        {"5 m", NAN},  {"--5m", NAN},  {"1e3s", NAN}, {".s", NAN},   {"99999999999999h", NAN},
        {"1h30", NAN}, {"0s5", NAN},
    };
    struct sp_args args;
    struct sp_err err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum sp_status st = parse(&args, &err, WORDS("a", keep_format("--time=%s", cases[i].text)));
        if (isnan(cases[i].want)) {
            assert_int_equal(st, SP_E_USAGE);
            continue;
        }
        assert_ok(st);
        assert_true(fabs(((const struct options *)args.options)->seconds - cases[i].want) < 1e-9);
        sp_args_release(&args);
    }
}

TEST(values_are_stored)
{
    struct sp_args args;
    struct sp_err err;

    assert_ok(parse(&args, &err,
                    WORDS("a", "--flag", "--number", "-5", "--real=0.5", "--text=", "--choice",
                          "TWO", "--list", "1", "--list=2", "--", "--b")));
    const struct options *o = args.options;
    assert_true(o->flag);
    assert_int_equal(o->n, -5);
    assert_true(o->x == 0.5);
    assert_string_equal(o->text, "");
    assert_ptr_equal(o->choice, choices[1]);
    assert_int_equal(o->list.n, 2);
    assert_string_equal(o->list.items[0], "1");
    assert_string_equal(o->list.items[1], "2");
    assert_int_equal(args.n_operands, 2);
    assert_string_equal(args.operands[0], "a");
    assert_string_equal(args.operands[1], "--b");
    assert_true(sp_args_given(&args, "number"));
    sp_args_release(&args);
}

TEST(omitted_options_keep_their_defaults)
{
    struct sp_args args;
    struct sp_err err;

    assert_ok(parse(&args, &err, WORDS("-f", "-", "-x", "1")));
    const struct options *o = args.options;
    assert_true(o->flag);
    assert_true(o->x == 1);
    assert_int_equal(o->n, 7);
    assert_string_equal(o->text, "default");
    assert_null(o->choice);
    assert_string_equal(args.operands[0], "-");
    assert_false(sp_args_given(&args, "number"));
    sp_args_release(&args);
    assert_ok(parse(&args, &err, WORDS("a", "--amount", "Auto")));
    o = args.options;
    assert_int_equal(o->n, 99);
    assert_true(sp_args_given(&args, "number"));
    sp_args_release(&args);
}

TEST(a_value_may_be_left_out)
{
    static const struct {
        const char *words[4], *level, *second;
    } cases[] = {
        {{"a", "--level"}, "on", NULL},          {{"a", "--level", "high"}, "high", NULL},
        {{"--level", "a", "b"}, "on", "b"},      {{"a", "--level", "-f"}, "on", NULL},
        {{"a", "--level=own", "b"}, "own", "b"}, {{"a", "--level", "own"}, "on", "own"},
        {{"a", "--level=", "high"}, "", "high"},
    };
    struct sp_args args;
    struct sp_err err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(parse(&args, &err, cases[i].words));
        assert_string_equal(((const struct options *)args.options)->level, cases[i].level);
        assert_string_equal(args.operands[0], "a");
        assert_int_equal(args.n_operands, cases[i].second ? 2 : 1);
        if (cases[i].second) assert_string_equal(args.operands[1], cases[i].second);
        sp_args_release(&args);
    }
}

TEST(help_stops_parsing)
{
    struct sp_args args;
    struct sp_err err;

    assert_ok(parse(&args, &err, WORDS("--help", "--nonsense")));
    assert_true(args.help);
    sp_args_release(&args);
    assert_ok(parse(&args, &err, WORDS("--text", "--help", "a")));
    assert_false(args.help);
    assert_string_equal(((const struct options *)args.options)->text, "--help");
    sp_args_release(&args);
}

TEST(misuse_is_one_sentence)
{
    static const struct {
        const char *words[4];
        const char *sentence;
    } cases[] = {
        {{"--nubmer", "1", "a"}, "unknown option --nubmer, did you mean --number?"},
        {{"--zzz", "a"}, "unknown option --zzz"},
        {{"-z", "a"}, "unknown option -z"},
        {{"-ff", "a"}, "unknown option -ff"},
        {{"--flag=1", "a"}, "--flag takes no value"},
        {{"a", "--number"}, "--number needs a value: --number N"},
        {{"--number", "11", "a"}, "--number is 11, expected an integer -5..10 or auto"},
        {{"--number", "1x", "a"}, "--number is 1x, expected an integer -5..10 or auto"},
        {{"--number", "", "a"}, "--number is , expected an integer -5..10 or auto"},
        {{"--number", " 1", "a"}, "--number is  1, expected an integer -5..10 or auto"},
        {{"--number", "99999999999999999999", "a"}, "--number is 99999999999999999999, expected"},
        {{"--real", "nan", "a"}, "--real is nan, expected a number 0..1"},
        {{"--real", "0x1", "a"}, "--real is 0x1, expected a number 0..1"},
        {{"--real", "1.5", "a"}, "--real is 1.5, expected a number 0..1"},
        {{"--choice", "three", "a"}, "--choice is three, expected one of: one two"},
        {{"--flag"}, "expected A [B]"},
        {{"a", "b", "c"}, "unexpected argument c"},
    };
    struct sp_args args;
    struct sp_err err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words[5] = {cases[i].words[0], cases[i].words[1], cases[i].words[2], NULL,
                                NULL};
        assert_int_equal(parse(&args, &err, words), SP_E_USAGE);
        assert_memory_equal(err.text, cases[i].sentence, strlen(cases[i].sentence));
        assert_null(args.options);
    }
}

TEST(distances)
{
    assert_int_equal(sp_edit_distance("", ""), 0);
    assert_int_equal(sp_edit_distance("abc", "abc"), 0);
    assert_int_equal(sp_edit_distance("abc", "acb"), 1);
    assert_int_equal(sp_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(sp_edit_distance("", "abc"), 3);
}

static void check_option(const struct sp_command *c, const struct sp_opt *o)
{
    size_t sizes[] = {
        [SP_OPT_INT32] = sizeof(int),      [SP_OPT_FLOAT] = sizeof(float),
        [SP_OPT_FLAG] = sizeof(bool),      [SP_OPT_INT] = sizeof(int64_t),
        [SP_OPT_NUMBER] = sizeof(double),  [SP_OPT_STRING] = sizeof(char *),
        [SP_OPT_CHOICE] = sizeof(char *),  [SP_OPT_SIZE] = sizeof(uint64_t),
        [SP_OPT_SECONDS] = sizeof(double), [SP_OPT_LIST] = sizeof(struct sp_opt_list)};

    assert_non_null(o->help);
    assert_true(o->help[strlen(o->help) - 1] != '.');
    if (o->kind == SP_OPT_HEADING) return;
    assert_true(o->offset + sizes[o->kind] <= c->options_size);
    assert_int_equal(o->value == NULL, o->kind == SP_OPT_FLAG);
    assert_int_equal(o->choices != NULL, o->kind == SP_OPT_CHOICE);
    if (o->kind >= SP_OPT_INT && o->kind <= SP_OPT_FLOAT) assert_true(o->min < o->max);
    assert_true(strcmp(o->name, "help") != 0 && o->letter != 'h');
    assert_int_equal(o->letter == 't', strcmp(o->name, "threads") == 0);
    for (const struct sp_opt *other = c->opts; other != o; other++) {
        if (other->kind == SP_OPT_HEADING) continue;
        assert_string_not_equal(other->name, o->name);
        assert_true(o->letter == 0 || other->letter != o->letter);
        assert_true(other->offset != o->offset);
    }
}

TEST(every_command_is_well_formed)
{
    for (const struct sp_command *const *c = sp_commands; *c != NULL; c++) {
        size_t n = 0;
        assert_non_null((*c)->run);
        assert_true((*c)->summary[strlen((*c)->summary) - 1] != '.');
        assert_true((*c)->min_operands <= (*c)->max_operands);
        assert_int_equal((*c)->operands[0] == '\0', (*c)->max_operands == 0);
        for (const struct sp_opt *o = (*c)->opts; o->kind != SP_OPT_END; o++, n++)
            check_option(*c, o);
        assert_true(n < SP_OPT_MAX);
        for (const struct sp_command *const *other = sp_commands; other != c; other++)
            assert_string_not_equal((*other)->name, (*c)->name);
    }
}

TEST(kernels_are_those_of_the_machine)
{
    const struct sp_kernels *const *all = sp_kernels_all();
    size_t i = 0;

    assert_string_equal(sp_backend_kernels[0], "auto");
    for (; all[i] != NULL; i++)
        assert_string_equal(sp_backend_kernels[i + 1], all[i]->name);
    assert_null(sp_backend_kernels[i + 1]);
}

/* Parses a command line with one variable set. The caller releases the arguments. */
static enum sp_status parse_with(struct sp_args *args, struct sp_err *err, const char *variable,
                                 const char *value, const char *word)
{
    char operand[] = "a", option[64];
    char *argv[] = {operand, option};

    *err = (struct sp_err){0};
    snprintf(option, sizeof option, "%s", word ? word : "");
    assert_int_equal(setenv(variable, value, 1), 0);
    enum sp_status st = sp_args_parse(args, &with_environment, word ? 2 : 1, argv, err);
    assert_int_equal(unsetenv(variable), 0);
    return st;
}

TEST(the_environment_gives_options)
{
    static const struct {
        const char *variable, *value, *sentence;
    } wrong[] = {
        {"SPECTOOL_TEST_NUMBER", "11", "SPECTOOL_TEST_NUMBER: --number is 11, expected an integer"},
        {"SPECTOOL_TEST_FLAG", "maybe", "SPECTOOL_TEST_FLAG: \"maybe\", expected true or false"},
        {"SPECTOOL_TEST_CHOICE", "three", "SPECTOOL_TEST_CHOICE: --choice is three, expected one "},
        {"SPECTOOL_TEST_TIME", "soon", "SPECTOOL_TEST_TIME: --time is soon, expected seconds"},
    };
    struct sp_args args;
    struct sp_err err;

    assert_ok(parse_with(&args, &err, "SPECTOOL_TEST_NUMBER", "auto", NULL));
    const struct options *o = args.options;
    assert_true(o->n == 99 && sp_args_given(&args, "number"));
    assert_true(sp_args_by_environment(&args, "number") && !sp_args_given(&args, "flag"));
    sp_args_release(&args);
    /* The command line comes first, and an empty variable counts as absent. */
    assert_ok(parse_with(&args, &err, "SPECTOOL_TEST_NUMBER", "x", "--number=3"));
    o = args.options;
    assert_true(o->n == 3 && !sp_args_by_environment(&args, "number"));
    sp_args_release(&args);
    assert_ok(parse_with(&args, &err, "SPECTOOL_TEST_NUMBER", "", NULL));
    o = args.options;
    assert_true(o->n == 7 && !sp_args_given(&args, "number"));
    sp_args_release(&args);
    for (int on = 0; on < 2; on++) {
        assert_ok(parse_with(&args, &err, "SPECTOOL_TEST_FLAG", on ? "Yes" : "0", NULL));
        o = args.options;
        assert_int_equal(o->flag, on);
        sp_args_release(&args);
    }
    assert_ok(parse_with(&args, &err, "SPECTOOL_TEST_LIST", "a, b\n\nc\n", NULL));
    o = args.options;
    assert_int_equal(o->list.n, 2);
    assert_string_equal(o->list.items[0], "a, b");
    assert_string_equal(o->list.items[1], "c");
    sp_args_release(&args);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse_with(&args, &err, wrong[i].variable, wrong[i].value, NULL),
                         SP_E_USAGE);
        assert_ptr_equal(strstr(err.text, wrong[i].sentence), err.text);
        assert_ok(parse_with(&args, &err, wrong[i].variable, wrong[i].value, "--help"));
        sp_args_release(&args);
    }
    /* Other commands have no variables. */
    assert_int_equal(setenv("SPECTOOL_TEST_NUMBER", "x", 1), 0);
    assert_ok(parse(&args, &err, WORDS("a")));
    sp_args_release(&args);
    assert_int_equal(unsetenv("SPECTOOL_TEST_NUMBER"), 0);
}
