/* Tests, which follow `is` and are arguments of select and reject. */
#include "runtime/template/jinja/jinja_machine.h"

/* Defines a test that depends on the value alone. */
#define KIND_TEST(name, condition)                                                                 \
    static SP_JINJA_FUNCTION(name)                                                                 \
    {                                                                                              \
        return sp_value_bool(condition);                                                           \
    }

KIND_TEST(test_defined, in.kind != SP_V_UNDEFINED)
KIND_TEST(test_undefined, in.kind == SP_V_UNDEFINED)
KIND_TEST(test_none, in.kind == SP_V_NONE)
KIND_TEST(test_boolean, in.kind == SP_V_BOOL)
KIND_TEST(test_true, in.kind == SP_V_BOOL && in.truth)
KIND_TEST(test_false, in.kind == SP_V_BOOL && !in.truth)
KIND_TEST(test_integer, in.kind == SP_V_INT || in.kind == SP_V_BIG)
KIND_TEST(test_float, in.kind == SP_V_FLOAT)
KIND_TEST(test_number, sp_value_is_number(in))
KIND_TEST(test_string, in.kind == SP_V_TEXT)
KIND_TEST(test_mapping, in.kind == SP_V_DICT)
KIND_TEST(test_iterable, sp_jinja_iterable(in))
KIND_TEST(test_sequence,
          sp_jinja_iterable(in) &&
              !(in.kind == SP_V_LIST && in.shape >= SP_SHAPE_KEYS && in.shape <= SP_SHAPE_ITEMS) &&
              !(in.kind == SP_V_LIST && in.shape == SP_SHAPE_ITERATOR))
/* An undefined value is callable; the call fails. */
KIND_TEST(test_callable,
          in.kind == SP_V_UNDEFINED ||
              (in.kind == SP_V_OBJECT &&
               ((const struct sp_jinja_object *)in.object)->kind != SP_JINJA_NAMESPACE))

/* Tells whether the remainder of a division by arg[0], or by 2, is the one of the row. */
static SP_JINJA_FUNCTION(test_remainder)
{
    struct sp_value by = arg[0].kind == SP_V_ABSENT ? sp_value_int(2) : arg[0];
    struct sp_value rest = sp_jinja_binary(m, SP_T_MOD, in, by);

    return sp_value_bool(sp_value_equal(m->heap, rest, sp_value_int(how)));
}

static SP_JINJA_FUNCTION(test_compare)
{
    return sp_value_bool(sp_jinja_compare(m, (enum sp_jinja_token)how, in, arg[0]));
}

/* Compares identity, as far as values have one: the same object, or equal small values. */
static SP_JINJA_FUNCTION(test_sameas)
{
    if (in.kind != arg[0].kind) return sp_value_bool(false);
    if (in.kind == SP_V_LIST) return sp_value_bool(in.list == arg[0].list);
    if (in.kind == SP_V_DICT) return sp_value_bool(in.dict == arg[0].dict);
    return sp_value_bool(sp_value_equal(m->heap, in, arg[0]));
}

static const struct sp_jinja_function tests[] = {
    {"!=", "other", test_compare, NULL, SP_T_NE},
    {"<", "other", test_compare, NULL, SP_T_LT},
    {"<=", "other", test_compare, NULL, SP_T_LE},
    {"==", "other", test_compare, NULL, SP_T_EQ},
    {">", "other", test_compare, NULL, SP_T_GT},
    {">=", "other", test_compare, NULL, SP_T_GE},
    {"boolean", "", test_boolean, NULL, 0},
    {"callable", "", test_callable, NULL, 0},
    {"defined", "", test_defined, NULL, 0},
    {"divisibleby", "num", test_remainder, NULL, 0},
    {"eq", "other", test_compare, NULL, SP_T_EQ},
    {"equalto", "other", test_compare, NULL, SP_T_EQ},
    {"even", "", test_remainder, NULL, 0},
    {"false", "", test_false, NULL, 0},
    {"float", "", test_float, NULL, 0},
    {"ge", "other", test_compare, NULL, SP_T_GE},
    {"greaterthan", "other", test_compare, NULL, SP_T_GT},
    {"gt", "other", test_compare, NULL, SP_T_GT},
    {"in", "seq", test_compare, NULL, SP_T_IN},
    {"integer", "", test_integer, NULL, 0},
    {"iterable", "", test_iterable, NULL, 0},
    {"le", "other", test_compare, NULL, SP_T_LE},
    {"lessthan", "other", test_compare, NULL, SP_T_LT},
    {"lower", "", sp_jinja_has_case, NULL, SP_JINJA_LOWER},
    {"lt", "other", test_compare, NULL, SP_T_LT},
    {"mapping", "", test_mapping, NULL, 0},
    {"ne", "other", test_compare, NULL, SP_T_NE},
    {"none", "", test_none, NULL, 0},
    {"number", "", test_number, NULL, 0},
    {"odd", "", test_remainder, NULL, 1},
    {"sameas", "other", test_sameas, NULL, 0},
    {"sequence", "", test_sequence, NULL, 0},
    {"string", "", test_string, NULL, 0},
    {"true", "", test_true, NULL, 0},
    {"undefined", "", test_undefined, NULL, 0},
    {"upper", "", sp_jinja_has_case, NULL, SP_JINJA_UPPER},
    {NULL, NULL, NULL, NULL, 0},
};

const struct sp_jinja_function *sp_jinja_find_test(struct sp_value name)
{
    return sp_jinja_find_row(tests, name);
}
