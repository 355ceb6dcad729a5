/* The operators of Jinja with Python's semantics: arithmetic, order, containment. */
#include "format/base/number_text.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const char *sp_jinja_type_name(struct sp_value v)
{
    static const char *const lists[] = {
        [SP_SHAPE_PLAIN] = "list",         [SP_SHAPE_TUPLE] = "tuple",
        [SP_SHAPE_ITERATOR] = "generator", [SP_SHAPE_RANGE] = "range",
        [SP_SHAPE_KEYS] = "dict_keys",     [SP_SHAPE_VALUES] = "dict_values",
        [SP_SHAPE_ITEMS] = "dict_items",
    };

    switch (v.kind) {
    case SP_V_ABSENT:
    case SP_V_UNDEFINED:
        return "Undefined";
    case SP_V_NONE:
        return "NoneType";
    case SP_V_BOOL:
        return "bool";
    case SP_V_INT:
    case SP_V_BIG:
        return "int";
    case SP_V_FLOAT:
        return "float";
    case SP_V_TEXT:
        return v.shape == SP_SHAPE_MARKUP ? "Markup" : "str";
    case SP_V_LIST:
        return lists[v.shape];
    case SP_V_DICT:
        return "dict";
    default:
        break;
    }
    switch (((const struct sp_jinja_object *)v.object)->kind) {
    case SP_JINJA_MACRO:
        return "Macro";
    case SP_JINJA_LOOP:
        return "LoopContext";
    case SP_JINJA_NAMESPACE:
        return "Namespace";
    default:
        return "function";
    }
}

struct sp_value sp_jinja_undefined(struct sp_jinja_machine *m, const char *format, ...)
{
    struct sp_value out;
    char text[256];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    out = sp_value_copy_text(m->heap, text, strlen(text));
    out.kind = SP_V_UNDEFINED;
    return out;
}

bool sp_jinja_defined(struct sp_jinja_machine *m, struct sp_value v)
{
    if (v.kind == SP_V_UNDEFINED) sp_jinja_fail(m, "%s", v.text);
    return v.kind != SP_V_UNDEFINED;
}

static struct sp_value too_big(struct sp_jinja_machine *m, enum sp_jinja_token op)
{
    return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "the result of %s does not fit 64 bits",
                        sp_jinja_token_name(op));
}

static bool pow_checked(int64_t *out, int64_t base, int64_t exponent)
{
    for (*out = 1; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(*out, base, out)) return false;
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return false;
    }
    return true;
}

/* Divides with the quotient rounded down; the remainder has the divisor's sign. b is not 0. Returns
 * false if the quotient does not fit; the remainder always does. */
static bool floor_div(int64_t *quotient, int64_t *rest, int64_t a, int64_t b)
{
    if (b == -1) {
        *rest = 0;
        return !__builtin_mul_overflow(a, b, quotient);
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *rest += b;
        --*quotient;
    }
    return true;
}

static struct sp_value float_op(struct sp_jinja_machine *m, enum sp_jinja_token op, double a,
                                double b)
{
    double r;

    if (b == 0 && (op == SP_T_DIV || op == SP_T_FLOORDIV || op == SP_T_MOD))
        return sp_jinja_fail(m, "division by zero in %s", sp_jinja_token_name(op));
    switch (op) {
    case SP_T_ADD:
        return sp_value_float(a + b);
    case SP_T_SUB:
        return sp_value_float(a - b);
    case SP_T_MUL:
        return sp_value_float(a * b);
    case SP_T_DIV:
        return sp_value_float(a / b);
    case SP_T_FLOORDIV:
    case SP_T_MOD:
        r = fmod(a, b);
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        if (r == 0) r = copysign(0.0, b);
        if (op == SP_T_MOD) return sp_value_float(r);
        r = (a - r) / b;
        return sp_value_float(r != 0 ? floor(r) + (r - floor(r) > 0.5) : copysign(0.0, a / b));
    default:
        if (a == 0 && b < 0) return sp_jinja_fail(m, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b))
            return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "complex numbers are not supported");
        r = pow(a, b);
        if (isinf(r) && !isinf(a) && !isinf(b))
            return sp_jinja_fail(m, "result of ** is too large");
        return sp_value_float(r);
    }
}

static struct sp_value int_op(struct sp_jinja_machine *m, enum sp_jinja_token op, int64_t a,
                              int64_t b)
{
    int64_t r = 0, rest = 0;
    bool fits;

    if (op == SP_T_DIV || (op == SP_T_POW && b < 0)) return float_op(m, op, (double)a, (double)b);
    if (b == 0 && (op == SP_T_FLOORDIV || op == SP_T_MOD))
        return sp_jinja_fail(m, "division by zero in %s", sp_jinja_token_name(op));
    switch (op) {
    case SP_T_ADD:
        fits = !__builtin_add_overflow(a, b, &r);
        break;
    case SP_T_SUB:
        fits = !__builtin_sub_overflow(a, b, &r);
        break;
    case SP_T_MUL:
        fits = !__builtin_mul_overflow(a, b, &r);
        break;
    case SP_T_POW:
        fits = pow_checked(&r, a, b);
        break;
    default:
        fits = floor_div(&r, &rest, a, b) || op == SP_T_MOD;
        if (op == SP_T_MOD) r = rest;
    }
    return fits ? sp_value_int(r) : too_big(m, op);
}

static struct sp_value number_op(struct sp_jinja_machine *m, enum sp_jinja_token op,
                                 struct sp_value a, struct sp_value b)
{
    if (a.kind == SP_V_FLOAT || b.kind == SP_V_FLOAT)
        return float_op(m, op, sp_value_to_double(a), sp_value_to_double(b));
    if (a.kind == SP_V_BIG || b.kind == SP_V_BIG) {
        return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "%s of integers beyond 64 bits",
                            sp_jinja_token_name(op));
    }
    return int_op(m, op, sp_value_to_integer(a), sp_value_to_integer(b));
}

static bool repeatable(struct sp_value v)
{
    return v.kind == SP_V_TEXT ||
           (v.kind == SP_V_LIST && (v.shape == SP_SHAPE_PLAIN || v.shape == SP_SHAPE_TUPLE));
}

static struct sp_value repeat(struct sp_jinja_machine *m, struct sp_value v, int64_t times)
{
    struct sp_builder b = {.heap = m->heap};
    struct sp_value out;

    if (v.kind == SP_V_TEXT) {
        for (int64_t i = 0; i < times && v.len && !m->heap->status; i++)
            sp_build_value(&b, v);
        out = sp_builder_value(&b);
        out.shape = v.shape;
        return out;
    }
    out = sp_value_list(m->heap, v.shape, 0);
    for (int64_t i = 0; i < times && v.list->n && !m->heap->status; i++)
        for (size_t k = 0; k < v.list->n; k++)
            sp_list_push(m->heap, out.list, v.list->at[k]);
    return out;
}

static struct sp_value join_texts(struct sp_jinja_machine *m, struct sp_value a, struct sp_value b)
{
    struct sp_builder text = {.heap = m->heap};
    bool markup = a.shape == SP_SHAPE_MARKUP || b.shape == SP_SHAPE_MARKUP;
    struct sp_value out;

    sp_build_value(&text, markup ? sp_jinja_escape(m, a, NULL, 0) : a);
    sp_build_value(&text, markup ? sp_jinja_escape(m, b, NULL, 0) : b);
    out = sp_builder_value(&text);
    if (markup) out.shape = SP_SHAPE_MARKUP;
    return out;
}

static struct sp_value join_lists(struct sp_jinja_machine *m, struct sp_value a, struct sp_value b)
{
    struct sp_value out = sp_value_list(m->heap, a.shape, a.list->n + b.list->n);

    for (size_t i = 0; i < a.list->n; i++)
        sp_list_push(m->heap, out.list, a.list->at[i]);
    for (size_t i = 0; i < b.list->n; i++)
        sp_list_push(m->heap, out.list, b.list->at[i]);
    return out;
}

struct sp_value sp_jinja_binary(struct sp_jinja_machine *m, enum sp_jinja_token op,
                                struct sp_value a, struct sp_value b)
{
    if (sp_value_is_number(a) && sp_value_is_number(b)) return number_op(m, op, a, b);
    if (op == SP_T_ADD && a.kind == SP_V_TEXT && b.kind == SP_V_TEXT) return join_texts(m, a, b);
    if (op == SP_T_ADD && repeatable(a) && repeatable(b) && a.kind == b.kind && a.shape == b.shape)
        return join_lists(m, a, b);
    if (op == SP_T_MUL && repeatable(a) && (b.kind == SP_V_INT || b.kind == SP_V_BOOL))
        return repeat(m, a, sp_value_to_integer(b));
    if (op == SP_T_MUL && repeatable(b) && (a.kind == SP_V_INT || a.kind == SP_V_BOOL))
        return repeat(m, b, sp_value_to_integer(a));
    if (op == SP_T_MOD && a.kind == SP_V_TEXT)
        return sp_jinja_refuse(m, "the operator", sp_value_name("% of strings"));
    if (!sp_jinja_defined(m, a) || !sp_jinja_defined(m, b)) return SP_VALUE_ABSENT;
    return sp_jinja_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'",
                         op == SP_T_POW ? "** or pow()" : sp_jinja_token_name(op),
                         sp_jinja_type_name(a), sp_jinja_type_name(b));
}

struct sp_value sp_jinja_unary(struct sp_jinja_machine *m, enum sp_jinja_token op,
                               struct sp_value a)
{
    if (!sp_jinja_defined(m, a)) return SP_VALUE_ABSENT;
    if (!sp_value_is_number(a)) {
        return sp_jinja_fail(m, "bad operand type for unary %s: '%s'", sp_jinja_token_name(op),
                             sp_jinja_type_name(a));
    }
    if (a.kind == SP_V_FLOAT) return sp_value_float(op == SP_T_SUB ? -a.real : a.real);
    if (a.kind == SP_V_BIG && op == SP_T_ADD) return a;
    if (a.kind == SP_V_BIG || (op == SP_T_SUB && sp_value_to_integer(a) == INT64_MIN))
        return too_big(m, op);
    return sp_value_int(op == SP_T_SUB ? -sp_value_to_integer(a) : sp_value_to_integer(a));
}

static int order_at(struct sp_jinja_machine *m, struct sp_value a, struct sp_value b, int depth);

static int order_lists(struct sp_jinja_machine *m, const struct sp_list *a, const struct sp_list *b,
                       int depth)
{
    size_t n = a->n < b->n ? a->n : b->n;

    for (size_t i = 0; i < n; i++)
        if (!sp_value_equal(m->heap, a->at[i], b->at[i]))
            return order_at(m, a->at[i], b->at[i], depth + 1);
    return (a->n > b->n) - (a->n < b->n);
}

static int order_at(struct sp_jinja_machine *m, struct sp_value a, struct sp_value b, int depth)
{
    if (!sp_heap_charge(m->heap, 1) || !sp_jinja_defined(m, a) || !sp_jinja_defined(m, b)) return 0;
    if (sp_value_is_number(a) && sp_value_is_number(b)) return sp_number_order(a, b);
    if (a.kind == SP_V_TEXT && b.kind == SP_V_TEXT) {
        sp_heap_charge(m->heap, (a.len < b.len ? a.len : b.len) / 16);
        return sp_text_order(a, b);
    }
    if (a.kind == SP_V_LIST && b.kind == SP_V_LIST && repeatable(a) && a.shape == b.shape &&
        depth < SP_VALUE_DEPTH)
        return order_lists(m, a.list, b.list, depth);
    sp_jinja_fail(m, "'<' not supported between instances of '%s' and '%s'", sp_jinja_type_name(a),
                  sp_jinja_type_name(b));
    return 0;
}

int sp_jinja_order(struct sp_jinja_machine *m, struct sp_value a, struct sp_value b)
{
    return order_at(m, a, b, 0);
}

static bool contains(struct sp_jinja_machine *m, struct sp_value item, struct sp_value in)
{
    const struct sp_list *items;
    bool found = false;

    if (in.kind == SP_V_DICT && !sp_value_hashable(item))
        sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(item));
    else if (in.kind == SP_V_DICT)
        found = sp_dict_find(m->heap, in.dict, item) != NULL;
    else if (in.kind == SP_V_TEXT && item.kind != SP_V_TEXT)
        sp_jinja_fail(m, "'in <string>' requires string as left operand, not %s",
                      sp_jinja_type_name(item));
    else if (in.kind == SP_V_TEXT)
        found = sp_jinja_find(m, in, item, 0) != SIZE_MAX;
    else if (!sp_jinja_iterable(in))
        sp_jinja_fail(m, "argument of type '%s' is not iterable", sp_jinja_type_name(in));
    if (in.kind == SP_V_DICT || in.kind == SP_V_TEXT || !sp_jinja_iterable(in)) return found;
    items = sp_jinja_items(m, in);
    for (size_t i = 0; i < items->n && !found; i++)
        found = sp_value_equal(m->heap, item, items->at[i]);
    return found;
}

bool sp_jinja_compare(struct sp_jinja_machine *m, enum sp_jinja_token op, struct sp_value a,
                      struct sp_value b)
{
    int order;

    if (op == SP_T_EQ || op == SP_T_NE) return sp_value_equal(m->heap, a, b) == (op == SP_T_EQ);
    if (op == SP_T_IN || op == SP_T_NOT_IN) return contains(m, a, b) == (op == SP_T_IN);
    if ((a.kind == SP_V_FLOAT && isnan(a.real)) || (b.kind == SP_V_FLOAT && isnan(b.real)))
        return false;
    order = sp_jinja_order(m, a, b);
    return op == SP_T_LT   ? order < 0
           : op == SP_T_LE ? order <= 0
           : op == SP_T_GT ? order > 0
                           : order >= 0;
}
