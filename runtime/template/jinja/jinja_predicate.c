/* Tests, which follow `is` and are arguments of select and reject. */
#include "runtime/template/jinja/jinja_predicate.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/jinja/jinja_filter.h"
#include "runtime/template/jinja/jinja_lex.h"
#include "runtime/template/jinja/jinja_object.h"
#include "runtime/template/jinja/jinja_ops.h"
#include "runtime/template/jinja/jinja_text.h"

#include <string.h>

#define TEST(name)                                                                                 \
    static enum sp_status name(struct sp_jinja_machine *m, bool *out, struct sp_value v,           \
                               const struct sp_value *arg)
/* Defines a test that depends on the value alone. */
#define KIND_TEST(name, condition)                                                                 \
    TEST(name)                                                                                     \
    {                                                                                              \
        (void)m;                                                                                   \
        (void)arg;                                                                                 \
        *out = (condition);                                                                        \
        return SP_OK;                                                                              \
    }

KIND_TEST(test_defined, v.kind != SP_V_UNDEFINED)
KIND_TEST(test_undefined, v.kind == SP_V_UNDEFINED)
KIND_TEST(test_none, v.kind == SP_V_NONE)
KIND_TEST(test_boolean, v.kind == SP_V_BOOL)
KIND_TEST(test_true, v.kind == SP_V_BOOL && v.truth)
KIND_TEST(test_false, v.kind == SP_V_BOOL && !v.truth)
KIND_TEST(test_integer, v.kind == SP_V_INT || v.kind == SP_V_BIG)
KIND_TEST(test_float, v.kind == SP_V_FLOAT)
KIND_TEST(test_number, sp_value_is_number(v))
KIND_TEST(test_string, v.kind == SP_V_TEXT)
KIND_TEST(test_mapping, v.kind == SP_V_DICT)
KIND_TEST(test_iterable, sp_jinja_iterable(v))
KIND_TEST(test_escaped, v.kind == SP_V_TEXT && v.shape == SP_SHAPE_MARKUP)
KIND_TEST(test_sequence,
          sp_jinja_iterable(v) &&
              !(v.kind == SP_V_LIST && v.shape >= SP_SHAPE_KEYS && v.shape <= SP_SHAPE_ITEMS) &&
              !(v.kind == SP_V_LIST && v.shape == SP_SHAPE_ITERATOR))

static bool can_be_called(const struct sp_jinja_object *object)
{
    return object->kind != SP_JINJA_NAMESPACE && object->kind != SP_JINJA_CYCLER;
}

/* An undefined value is callable; the call fails. */
KIND_TEST(test_callable,
          v.kind == SP_V_UNDEFINED || (v.kind == SP_V_OBJECT && can_be_called(v.object)))
KIND_TEST(test_filter, sp_jinja_find_filter(v) != NULL)
KIND_TEST(test_test, sp_jinja_find_test(v) != NULL)

static enum sp_status remainder_is(struct sp_jinja_machine *m, bool *out, struct sp_value v,
                                   struct sp_value by, int64_t rest)
{
    enum sp_status st;
    struct sp_value r;

    if ((st = sp_jinja_binary(m, &r, SP_T_MOD, v, by))) return st;
    return sp_value_equal(m->heap, out, r, sp_value_int(rest));
}

TEST(test_odd)
{
    (void)arg;
    return remainder_is(m, out, v, sp_value_int(2), 1);
}

TEST(test_even)
{
    (void)arg;
    return remainder_is(m, out, v, sp_value_int(2), 0);
}

TEST(test_divisibleby)
{
    return remainder_is(m, out, v, arg[0], 0);
}

TEST(test_eq)
{
    return sp_jinja_compare(m, out, SP_T_EQ, v, arg[0]);
}

TEST(test_ne)
{
    return sp_jinja_compare(m, out, SP_T_NE, v, arg[0]);
}

TEST(test_lt)
{
    return sp_jinja_compare(m, out, SP_T_LT, v, arg[0]);
}

TEST(test_le)
{
    return sp_jinja_compare(m, out, SP_T_LE, v, arg[0]);
}

TEST(test_gt)
{
    return sp_jinja_compare(m, out, SP_T_GT, v, arg[0]);
}

TEST(test_ge)
{
    return sp_jinja_compare(m, out, SP_T_GE, v, arg[0]);
}

TEST(test_in)
{
    return sp_jinja_contains(m, out, v, arg[0]);
}

/* Compares identity, as far as values have one: the same object, or equal small values. */
TEST(test_sameas)
{
    const struct sp_value w = arg[0];

    *out = false;
    if (v.kind != w.kind) return SP_OK;
    switch (v.kind) {
    case SP_V_LIST:
        *out = v.list == w.list;
        return SP_OK;
    case SP_V_DICT:
        *out = v.dict == w.dict;
        return SP_OK;
    case SP_V_OBJECT:
        *out = v.object == w.object;
        return SP_OK;
    default:
        return sp_value_equal(m->heap, out, v, w);
    }
}

/* True if a text has letters with case and all of them have the same one. */
static enum sp_status cased(struct sp_jinja_machine *m, bool *out, struct sp_value v, bool upper)
{
    enum sp_status st;
    bool any = false;

    *out = false;
    if ((st = sp_jinja_to_text(m, &v, v))) return st;
    for (size_t pos = 0; pos < v.len;) {
        uint32_t c = sp_utf8_next(v.text, v.len, &pos);

        if (!sp_unicode_is_cased(c)) continue;
        if (!(upper ? sp_unicode_is_upper(c) : sp_unicode_is_lower(c))) return SP_OK;
        any = true;
    }
    *out = any;
    return sp_heap_charge(m->heap, v.len / 4);
}

TEST(test_lower)
{
    (void)arg;
    return cased(m, out, v, false);
}

TEST(test_upper)
{
    (void)arg;
    return cased(m, out, v, true);
}

static const struct sp_jinja_test tests[] = {
    {"!=", "other", test_ne},
    {"<", "other", test_lt},
    {"<=", "other", test_le},
    {"==", "other", test_eq},
    {">", "other", test_gt},
    {">=", "other", test_ge},
    {"boolean", "", test_boolean},
    {"callable", "", test_callable},
    {"defined", "", test_defined},
    {"divisibleby", "num", test_divisibleby},
    {"eq", "other", test_eq},
    {"equalto", "other", test_eq},
    {"escaped", "", test_escaped},
    {"even", "", test_even},
    {"false", "", test_false},
    {"filter", "", test_filter},
    {"float", "", test_float},
    {"ge", "other", test_ge},
    {"greaterthan", "other", test_gt},
    {"gt", "other", test_gt},
    {"in", "seq", test_in},
    {"integer", "", test_integer},
    {"iterable", "", test_iterable},
    {"le", "other", test_le},
    {"lessthan", "other", test_lt},
    {"lower", "", test_lower},
    {"lt", "other", test_lt},
    {"mapping", "", test_mapping},
    {"ne", "other", test_ne},
    {"none", "", test_none},
    {"number", "", test_number},
    {"odd", "", test_odd},
    {"sameas", "other", test_sameas},
    {"sequence", "", test_sequence},
    {"string", "", test_string},
    {"test", "", test_test},
    {"true", "", test_true},
    {"undefined", "", test_undefined},
    {"upper", "", test_upper},
};

const struct sp_jinja_test *sp_jinja_find_test(struct sp_value name)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (sp_text_is(name, tests[i].name)) return &tests[i];
    return NULL;
}
