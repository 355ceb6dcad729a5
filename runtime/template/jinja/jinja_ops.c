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

enum sp_status sp_jinja_undefined(struct sp_jinja_machine *m, struct sp_value *out,
                                  const char *format, ...)
{
    enum sp_status st;
    char text[256];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    if ((st = sp_value_copy_text(m->heap, out, text, strlen(text)))) return st;
    out->kind = SP_V_UNDEFINED;
    return SP_OK;
}

enum sp_status sp_jinja_defined(struct sp_jinja_machine *m, struct sp_value v)
{
    return v.kind == SP_V_UNDEFINED ? sp_jinja_fail(m, "%s", v.text) : SP_OK;
}

static enum sp_status too_big(struct sp_jinja_machine *m, enum sp_jinja_token op)
{
    return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "the result of %s does not fit 64 bits",
                   sp_jinja_token_name(op));
}

static bool add_checked(int64_t *out, int64_t a, int64_t b)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return false;
    *out = a + b;
    return true;
}

static bool mul_checked(int64_t *out, int64_t a, int64_t b)
{
    if (a == 0 || b == 0) {
        *out = 0;
        return true;
    }
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN)) return false;
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
              : (b > 0 ? a < INT64_MIN / b : a < INT64_MAX / b))
        return false;
    *out = a * b;
    return true;
}

static bool pow_checked(int64_t *out, int64_t base, int64_t exponent)
{
    int64_t result = 1;

    while (exponent > 0) {
        if ((exponent & 1) && !mul_checked(&result, result, base)) return false;
        exponent >>= 1;
        if (exponent && !mul_checked(&base, base, base)) return false;
    }
    *out = result;
    return true;
}

/* Divides with the quotient rounded down; the remainder has the divisor's sign. b is not 0. Returns
 * false if the quotient does not fit; the remainder always does. */
static bool floor_div(int64_t *quotient, int64_t *rest, int64_t a, int64_t b)
{
    if (b == -1) {
        *rest = 0;
        return mul_checked(quotient, a, b);
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *rest += b;
        --*quotient;
    }
    return true;
}

static enum sp_status float_op(struct sp_jinja_machine *m, struct sp_value *out,
                               enum sp_jinja_token op, double a, double b)
{
    double r;

    if (b == 0 && (op == SP_T_DIV || op == SP_T_FLOORDIV || op == SP_T_MOD))
        return sp_jinja_fail(m, "division by zero in %s", sp_jinja_token_name(op));
    switch (op) {
    case SP_T_ADD:
        r = a + b;
        break;
    case SP_T_SUB:
        r = a - b;
        break;
    case SP_T_MUL:
        r = a * b;
        break;
    case SP_T_DIV:
        r = a / b;
        break;
    case SP_T_FLOORDIV:
    case SP_T_MOD:
        r = fmod(a, b);
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        if (r == 0) r = copysign(0.0, b);
        if (op == SP_T_MOD) break;
        r = (a - r) / b;
        r = r != 0 ? floor(r) + (r - floor(r) > 0.5) : copysign(0.0, a / b);
        break;
    default:
        if (a == 0 && b < 0) return sp_jinja_fail(m, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b))
            return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "complex numbers are not supported");
        r = pow(a, b);
        if (isinf(r) && !isinf(a) && !isinf(b))
            return sp_jinja_fail(m, "result of ** is too large");
    }
    *out = sp_value_float(r);
    return SP_OK;
}

static enum sp_status int_op(struct sp_jinja_machine *m, struct sp_value *out,
                             enum sp_jinja_token op, int64_t a, int64_t b)
{
    int64_t r = 0, rest = 0;
    bool fits;

    if (op == SP_T_DIV || (op == SP_T_POW && b < 0))
        return float_op(m, out, op, (double)a, (double)b);
    if (b == 0 && (op == SP_T_FLOORDIV || op == SP_T_MOD))
        return sp_jinja_fail(m, "division by zero in %s", sp_jinja_token_name(op));
    switch (op) {
    case SP_T_ADD:
        fits = add_checked(&r, a, b);
        break;
    case SP_T_SUB:
        fits = b < 0 ? a <= INT64_MAX + b : a >= INT64_MIN + b;
        if (fits) r = a - b;
        break;
    case SP_T_MUL:
        fits = mul_checked(&r, a, b);
        break;
    case SP_T_POW:
        fits = pow_checked(&r, a, b);
        break;
    default:
        fits = floor_div(&r, &rest, a, b) || op == SP_T_MOD;
        if (op == SP_T_MOD) r = rest;
    }
    if (!fits) return too_big(m, op);
    *out = sp_value_int(r);
    return SP_OK;
}

static enum sp_status number_op(struct sp_jinja_machine *m, struct sp_value *out,
                                enum sp_jinja_token op, struct sp_value a, struct sp_value b)
{
    if (a.kind == SP_V_FLOAT || b.kind == SP_V_FLOAT)
        return float_op(m, out, op, sp_value_to_double(a), sp_value_to_double(b));
    if (a.kind == SP_V_BIG || b.kind == SP_V_BIG) {
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%s of integers beyond 64 bits",
                       sp_jinja_token_name(op));
    }
    return int_op(m, out, op, sp_value_to_integer(a), sp_value_to_integer(b));
}

static bool repeatable(struct sp_value v)
{
    return v.kind == SP_V_TEXT ||
           (v.kind == SP_V_LIST && (v.shape == SP_SHAPE_PLAIN || v.shape == SP_SHAPE_TUPLE));
}

static enum sp_status repeat(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value v,
                             int64_t times)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};

    if (v.kind == SP_V_TEXT) {
        for (int64_t i = 0; i < times && v.len && !st; i++)
            st = sp_build(&b, v.text, v.len);
        *out = sp_builder_value(&b);
        out->shape = v.shape;
        return st;
    }
    if ((st = sp_value_list(m->heap, out, v.shape, 0))) return st;
    for (int64_t i = 0; i < times && v.list->n && !st; i++)
        for (size_t k = 0; k < v.list->n && !st; k++)
            st = sp_list_push(m->heap, out->list, v.list->at[k]);
    return st;
}

static enum sp_status join_texts(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_value a, struct sp_value b)
{
    enum sp_status st;
    struct sp_builder text = {.heap = m->heap};
    bool markup = a.shape == SP_SHAPE_MARKUP || b.shape == SP_SHAPE_MARKUP;

    if (markup && ((st = sp_jinja_escape(m, &a, a)) || (st = sp_jinja_escape(m, &b, b)))) return st;
    if ((st = sp_build(&text, a.text, a.len))) return st;
    if ((st = sp_build(&text, b.text, b.len))) return st;
    *out = sp_builder_value(&text);
    if (markup) out->shape = SP_SHAPE_MARKUP;
    return SP_OK;
}

static enum sp_status join_lists(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_value a, struct sp_value b)
{
    enum sp_status st = sp_value_list(m->heap, out, a.shape, a.list->n + b.list->n);

    for (size_t i = 0; i < a.list->n && !st; i++)
        st = sp_list_push(m->heap, out->list, a.list->at[i]);
    for (size_t i = 0; i < b.list->n && !st; i++)
        st = sp_list_push(m->heap, out->list, b.list->at[i]);
    return st;
}

enum sp_status sp_jinja_binary(struct sp_jinja_machine *m, struct sp_value *out,
                               enum sp_jinja_token op, struct sp_value a, struct sp_value b)
{
    enum sp_status st;

    if (sp_value_is_number(a) && sp_value_is_number(b)) return number_op(m, out, op, a, b);
    if (op == SP_T_ADD && a.kind == SP_V_TEXT && b.kind == SP_V_TEXT)
        return join_texts(m, out, a, b);
    if (op == SP_T_ADD && repeatable(a) && repeatable(b) && a.kind == b.kind && a.shape == b.shape)
        return join_lists(m, out, a, b);
    if (op == SP_T_MUL && repeatable(a) && (b.kind == SP_V_INT || b.kind == SP_V_BOOL))
        return repeat(m, out, a, sp_value_to_integer(b));
    if (op == SP_T_MUL && repeatable(b) && (a.kind == SP_V_INT || a.kind == SP_V_BOOL))
        return repeat(m, out, b, sp_value_to_integer(a));
    if (op == SP_T_MOD && a.kind == SP_V_TEXT)
        return sp_jinja_refuse(m, "the operator", sp_value_name("% of strings"));
    if ((st = sp_jinja_defined(m, a)) || (st = sp_jinja_defined(m, b))) return st;
    return sp_jinja_fail(m, "unsupported operand type(s) for %s: '%s' and '%s'",
                         op == SP_T_POW ? "** or pow()" : sp_jinja_token_name(op),
                         sp_jinja_type_name(a), sp_jinja_type_name(b));
}

enum sp_status sp_jinja_unary(struct sp_jinja_machine *m, struct sp_value *out,
                              enum sp_jinja_token op, struct sp_value a)
{
    enum sp_status st;

    if ((st = sp_jinja_defined(m, a))) return st;
    if (!sp_value_is_number(a)) {
        return sp_jinja_fail(m, "bad operand type for unary %s: '%s'", sp_jinja_token_name(op),
                             sp_jinja_type_name(a));
    }
    if (a.kind == SP_V_FLOAT) {
        *out = sp_value_float(op == SP_T_SUB ? -a.real : a.real);
        return SP_OK;
    }
    if (a.kind == SP_V_BIG && op == SP_T_ADD) {
        *out = a;
        return SP_OK;
    }
    if (a.kind == SP_V_BIG || (op == SP_T_SUB && sp_value_to_integer(a) == INT64_MIN))
        return too_big(m, op);
    *out = sp_value_int(op == SP_T_SUB ? -sp_value_to_integer(a) : sp_value_to_integer(a));
    return SP_OK;
}

static enum sp_status order_at(struct sp_jinja_machine *m, int *out, struct sp_value a,
                               struct sp_value b, int depth);

static enum sp_status order_lists(struct sp_jinja_machine *m, int *out, const struct sp_list *a,
                                  const struct sp_list *b, int depth)
{
    enum sp_status st;
    bool same = true;
    size_t n = a->n < b->n ? a->n : b->n;

    for (size_t i = 0; i < n; i++) {
        if ((st = sp_value_equal(m->heap, &same, a->at[i], b->at[i]))) return st;
        if (!same) return order_at(m, out, a->at[i], b->at[i], depth + 1);
    }
    *out = (a->n > b->n) - (a->n < b->n);
    return SP_OK;
}

static enum sp_status order_at(struct sp_jinja_machine *m, int *out, struct sp_value a,
                               struct sp_value b, int depth)
{
    enum sp_status st;

    if ((st = sp_heap_charge(m->heap, 1))) return st;
    if ((st = sp_jinja_defined(m, a))) return st;
    if ((st = sp_jinja_defined(m, b))) return st;
    if (sp_value_is_number(a) && sp_value_is_number(b)) {
        *out = sp_number_order(a, b);
        return SP_OK;
    }
    if (a.kind == SP_V_TEXT && b.kind == SP_V_TEXT) {
        *out = sp_text_order(a, b);
        return sp_heap_charge(m->heap, (a.len < b.len ? a.len : b.len) / 16);
    }
    if (a.kind == SP_V_LIST && b.kind == SP_V_LIST && repeatable(a) && a.shape == b.shape &&
        depth < SP_VALUE_DEPTH)
        return order_lists(m, out, a.list, b.list, depth);
    return sp_jinja_fail(m, "'<' not supported between instances of '%s' and '%s'",
                         sp_jinja_type_name(a), sp_jinja_type_name(b));
}

enum sp_status sp_jinja_order(struct sp_jinja_machine *m, int *out, struct sp_value a,
                              struct sp_value b)
{
    return order_at(m, out, a, b, 0);
}

static enum sp_status contains(struct sp_jinja_machine *m, bool *out, struct sp_value item,
                               struct sp_value in)
{
    enum sp_status st;
    const struct sp_list *items;
    const struct sp_value *found;
    size_t at;

    *out = false;
    if (in.kind == SP_V_DICT) {
        if (!sp_value_hashable(item))
            return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(item));
        st = sp_dict_find(m->heap, &found, in.dict, item);
        *out = found != NULL;
        return st;
    }
    if (in.kind == SP_V_TEXT) {
        if (item.kind != SP_V_TEXT) {
            return sp_jinja_fail(m, "'in <string>' requires string as left operand, not %s",
                                 sp_jinja_type_name(item));
        }
        if ((st = sp_jinja_find(m, &at, in, item, 0))) return st;
        *out = at != SIZE_MAX;
        return SP_OK;
    }
    if (!sp_jinja_iterable(in))
        return sp_jinja_fail(m, "argument of type '%s' is not iterable", sp_jinja_type_name(in));
    if ((st = sp_jinja_items(m, &items, in))) return st;
    for (size_t i = 0; i < items->n && !*out && !st; i++)
        st = sp_value_equal(m->heap, out, item, items->at[i]);
    return st;
}

enum sp_status sp_jinja_compare(struct sp_jinja_machine *m, bool *out, enum sp_jinja_token op,
                                struct sp_value a, struct sp_value b)
{
    enum sp_status st;
    int order = 0;

    switch (op) {
    case SP_T_EQ:
        return sp_value_equal(m->heap, out, a, b);
    case SP_T_NE:
        st = sp_value_equal(m->heap, out, a, b);
        *out = !*out;
        return st;
    case SP_T_IN:
        return contains(m, out, a, b);
    case SP_T_NOT_IN:
        st = contains(m, out, a, b);
        *out = !*out;
        return st;
    default:
        break;
    }
    if ((a.kind == SP_V_FLOAT && isnan(a.real)) || (b.kind == SP_V_FLOAT && isnan(b.real))) {
        *out = false;
        return SP_OK;
    }
    if ((st = sp_jinja_order(m, &order, a, b))) return st;
    *out = op == SP_T_LT   ? order < 0
           : op == SP_T_LE ? order <= 0
           : op == SP_T_GT ? order > 0
                           : order >= 0;
    return SP_OK;
}
