/* Methods of texts that return a text: stripped, in another case, replaced, joined, padded. */
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_eval.h"
#include "runtime/template/jinja/jinja_method.h"
#include "runtime/template/jinja/jinja_object.h"
#include "runtime/template/jinja/jinja_ops.h"
#include "runtime/template/jinja/jinja_string.h"

#include <string.h>

SP_METHOD(str_strip)
{
    return sp_jinja_strip(m, out, self, arg[0], SP_JINJA_BOTH);
}

SP_METHOD(str_lstrip)
{
    return sp_jinja_strip(m, out, self, arg[0], SP_JINJA_LEFT);
}

SP_METHOD(str_rstrip)
{
    return sp_jinja_strip(m, out, self, arg[0], SP_JINJA_RIGHT);
}

SP_METHOD(str_upper)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, SP_JINJA_UPPER);
}

SP_METHOD(str_lower)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, SP_JINJA_LOWER);
}

SP_METHOD(str_title)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, SP_JINJA_TITLE);
}

SP_METHOD(str_capitalize)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, SP_JINJA_CAPITALIZE);
}

SP_METHOD(str_swapcase)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, SP_JINJA_SWAP);
}

SP_METHOD(str_replace)
{
    enum sp_status st;
    int64_t count;

    if ((st = sp_jinja_want_text(m, arg[0])) || (st = sp_jinja_want_text(m, arg[1])) ||
        (st = sp_jinja_want_integer(m, arg[2], -1, &count)))
        return st;
    return sp_jinja_replace(m, out, self, arg[0], arg[1], count);
}

SP_METHOD(str_join)
{
    enum sp_status st;
    const struct sp_list *items;
    struct sp_builder b = {.heap = m->heap};

    if ((st = sp_jinja_items(m, &items, arg[0]))) return st;
    for (size_t i = 0; i < items->n; i++) {
        if (items->at[i].kind != SP_V_TEXT) {
            return sp_jinja_fail(m, "sequence item %zu: expected str instance, %s found", i,
                                 sp_jinja_type_name(items->at[i]));
        }
        if (i && (st = sp_build(&b, self.text, self.len))) return st;
        if ((st = sp_build(&b, items->at[i].text, items->at[i].len))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

SP_METHOD(str_removeprefix)
{
    enum sp_status st;

    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    *out = self;
    if (arg[0].len && arg[0].len <= self.len && memcmp(self.text, arg[0].text, arg[0].len) == 0)
        *out = sp_value_text(self.text + arg[0].len, self.len - arg[0].len);
    return SP_OK;
}

SP_METHOD(str_removesuffix)
{
    enum sp_status st;

    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    *out = self;
    if (arg[0].len && arg[0].len <= self.len &&
        memcmp(self.text + (self.len - arg[0].len), arg[0].text, arg[0].len) == 0)
        *out = sp_value_text(self.text, self.len - arg[0].len);
    return SP_OK;
}

/* Pads to a width; the fill is divided between the sides as left : right. */
static enum sp_status pad(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value self,
                          const struct sp_value *arg, int side)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    struct sp_value fill = sp_jinja_given(arg[1]) ? arg[1] : sp_value_name(" ");
    size_t len = sp_text_characters(self), missing, left;
    int64_t width;

    if ((st = sp_jinja_want_text(m, fill)) || (st = sp_jinja_want_integer(m, arg[0], 0, &width)))
        return st;
    if (sp_text_characters(fill) != 1)
        return sp_jinja_fail(m, "The fill character must be exactly one character long");
    missing = width > (int64_t)len ? (size_t)width - len : 0;
    left = side < 0 ? 0 : side > 0 ? missing : missing / 2 + (missing & (size_t)width & 1);
    for (size_t i = 0; i < left; i++)
        if ((st = sp_build(&b, fill.text, fill.len))) return st;
    if ((st = sp_build(&b, self.text, self.len))) return st;
    for (size_t i = left; i < missing; i++)
        if ((st = sp_build(&b, fill.text, fill.len))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

SP_METHOD(str_ljust)
{
    return pad(m, out, self, arg, -1);
}

SP_METHOD(str_rjust)
{
    return pad(m, out, self, arg, 1);
}

SP_METHOD(str_center)
{
    return pad(m, out, self, arg, 0);
}

SP_METHOD(str_zfill)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    size_t len = sp_text_characters(self), sign;
    int64_t width;

    if ((st = sp_jinja_want_integer(m, arg[0], 0, &width))) return st;
    sign = self.len && (self.text[0] == '-' || self.text[0] == '+');
    if ((st = sp_build(&b, self.text, sign))) return st;
    if (width > (int64_t)len && (st = sp_build_repeat(&b, '0', (size_t)width - len))) return st;
    if ((st = sp_build(&b, self.text + sign, self.len - sign))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

SP_METHOD(str_expandtabs)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    int64_t size, column = 0;

    if ((st = sp_jinja_want_integer(m, arg[0], 8, &size))) return st;
    for (size_t pos = 0; pos < self.len && !st;) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(self.text, self.len, &pos);

        if (c == '\t') {
            int64_t fill = size > 0 ? size - column % size : 0;

            st = sp_build_repeat(&b, ' ', (size_t)fill);
            column += fill;
        } else {
            st = sp_build(&b, self.text + begin, pos - begin);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        }
    }
    *out = sp_builder_value(&b);
    return st;
}

const struct sp_jinja_method sp_jinja_text_methods[] = {
    {"capitalize", "", str_capitalize},
    {"casefold", "", str_lower},
    {"center", "width fillchar=", str_center},
    {"expandtabs", "tabsize=", str_expandtabs},
    {"join", "iterable", str_join},
    {"ljust", "width fillchar=", str_ljust},
    {"lower", "", str_lower},
    {"lstrip", "chars=", str_lstrip},
    {"removeprefix", "prefix", str_removeprefix},
    {"removesuffix", "suffix", str_removesuffix},
    {"replace", "old new count=", str_replace},
    {"rjust", "width fillchar=", str_rjust},
    {"rstrip", "chars=", str_rstrip},
    {"strip", "chars=", str_strip},
    {"swapcase", "", str_swapcase},
    {"title", "", str_title},
    {"upper", "", str_upper},
    {"zfill", "width", str_zfill},
    {"format", "", NULL},
    {NULL, NULL, NULL},
};
