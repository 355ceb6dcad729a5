/* Tests, which follow `is` and are arguments of select and reject. */
#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/jinja/jinja_text.h"

/* Defines a test that depends on the value alone. */
#define KIND_TEST(name, condition)                                                                 \
    SP_JINJA_FUNCTION(name)                                                                        \
    {                                                                                              \
        (void)m;                                                                                   \
        (void)arg;                                                                                 \
        *out = sp_value_bool(condition);                                                           \
        return SP_OK;                                                                              \
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

static enum sp_status remainder_is(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_value v, struct sp_value by, int64_t rest)
{
    enum sp_status st;
    struct sp_value r;
    bool same = false;

    if ((st = sp_jinja_binary(m, &r, SP_T_MOD, v, by))) return st;
    st = sp_value_equal(m->heap, &same, r, sp_value_int(rest));
    *out = sp_value_bool(same);
    return st;
}

SP_JINJA_FUNCTION(test_odd)
{
    (void)arg;
    return remainder_is(m, out, in, sp_value_int(2), 1);
}

SP_JINJA_FUNCTION(test_even)
{
    (void)arg;
    return remainder_is(m, out, in, sp_value_int(2), 0);
}

SP_JINJA_FUNCTION(test_divisibleby)
{
    return remainder_is(m, out, in, arg[0], 0);
}

#define COMPARISON(name, op)                                                                       \
    SP_JINJA_FUNCTION(name)                                                                        \
    {                                                                                              \
        bool truth = false;                                                                        \
        enum sp_status st = sp_jinja_compare(m, &truth, op, in, arg[0]);                           \
                                                                                                   \
        *out = sp_value_bool(truth);                                                               \
        return st;                                                                                 \
    }

COMPARISON(test_eq, SP_T_EQ)
COMPARISON(test_ne, SP_T_NE)
COMPARISON(test_lt, SP_T_LT)
COMPARISON(test_le, SP_T_LE)
COMPARISON(test_gt, SP_T_GT)
COMPARISON(test_ge, SP_T_GE)
COMPARISON(test_in, SP_T_IN)

/* Compares identity, as far as values have one: the same object, or equal small values. */
SP_JINJA_FUNCTION(test_sameas)
{
    enum sp_status st = SP_OK;
    const struct sp_value w = arg[0];
    bool same = in.kind == w.kind;

    if (same && in.kind == SP_V_LIST)
        same = in.list == w.list;
    else if (same && in.kind == SP_V_DICT)
        same = in.dict == w.dict;
    else if (same)
        st = sp_value_equal(m->heap, &same, in, w);
    *out = sp_value_bool(same);
    return st;
}

SP_JINJA_FUNCTION(test_lower)
{
    enum sp_status st = sp_jinja_to_text(m, &in, in);

    (void)arg;
    return st ? st : sp_jinja_has_case(m, out, in, false);
}

SP_JINJA_FUNCTION(test_upper)
{
    enum sp_status st = sp_jinja_to_text(m, &in, in);

    (void)arg;
    return st ? st : sp_jinja_has_case(m, out, in, true);
}

static const struct sp_jinja_function tests[] = {
    {"!=", "other", test_ne, NULL},
    {"<", "other", test_lt, NULL},
    {"<=", "other", test_le, NULL},
    {"==", "other", test_eq, NULL},
    {">", "other", test_gt, NULL},
    {">=", "other", test_ge, NULL},
    {"boolean", "", test_boolean, NULL},
    {"callable", "", test_callable, NULL},
    {"defined", "", test_defined, NULL},
    {"divisibleby", "num", test_divisibleby, NULL},
    {"eq", "other", test_eq, NULL},
    {"equalto", "other", test_eq, NULL},
    {"even", "", test_even, NULL},
    {"false", "", test_false, NULL},
    {"float", "", test_float, NULL},
    {"ge", "other", test_ge, NULL},
    {"greaterthan", "other", test_gt, NULL},
    {"gt", "other", test_gt, NULL},
    {"in", "seq", test_in, NULL},
    {"integer", "", test_integer, NULL},
    {"iterable", "", test_iterable, NULL},
    {"le", "other", test_le, NULL},
    {"lessthan", "other", test_lt, NULL},
    {"lower", "", test_lower, NULL},
    {"lt", "other", test_lt, NULL},
    {"mapping", "", test_mapping, NULL},
    {"ne", "other", test_ne, NULL},
    {"none", "", test_none, NULL},
    {"number", "", test_number, NULL},
    {"odd", "", test_odd, NULL},
    {"sameas", "other", test_sameas, NULL},
    {"sequence", "", test_sequence, NULL},
    {"string", "", test_string, NULL},
    {"true", "", test_true, NULL},
    {"undefined", "", test_undefined, NULL},
    {"upper", "", test_upper, NULL},
    {NULL, NULL, NULL, NULL},
};

const struct sp_jinja_function *sp_jinja_find_test(struct sp_value name)
{
    return sp_jinja_find_row(tests, name);
}
