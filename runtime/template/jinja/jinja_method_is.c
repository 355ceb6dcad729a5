/* Methods of texts that test the kind of their characters: isalpha, isdigit and the like. */
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_method.h"
#include "runtime/template/jinja/jinja_predicate.h"

/* True if a text is not empty and all its characters have a property. */
static enum sp_status all_are(struct sp_jinja_machine *m, struct sp_value *out,
                              struct sp_value self, bool (*is)(uint32_t c))
{
    bool all = self.len > 0;

    for (size_t pos = 0; pos < self.len && all;)
        all = is(sp_utf8_next(self.text, self.len, &pos));
    *out = sp_value_bool(all);
    return sp_heap_charge(m->heap, self.len / 4);
}

static bool is_alnum(uint32_t c)
{
    return sp_unicode_is_alpha(c) || sp_unicode_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

/* Decimal digits, and digits outside positional systems (superscripts). */
static bool is_digit(uint32_t c)
{
    return sp_unicode_is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}

#define CLASS_METHOD(name, property)                                                               \
    SP_METHOD(name)                                                                                \
    {                                                                                              \
        (void)arg;                                                                                 \
        return all_are(m, out, self, property);                                                    \
    }
CLASS_METHOD(str_isalpha, sp_unicode_is_alpha)
CLASS_METHOD(str_isdigit, is_digit)
CLASS_METHOD(str_isdecimal, sp_unicode_is_decimal)
CLASS_METHOD(str_isnumeric, sp_unicode_is_numeric)
CLASS_METHOD(str_isalnum, is_alnum)
CLASS_METHOD(str_isspace, sp_unicode_is_space)

SP_METHOD(str_isascii)
{
    enum sp_status st;

    (void)arg;
    st = all_are(m, out, self, is_ascii);
    if (self.len == 0) *out = sp_value_bool(true);
    return st;
}

static enum sp_status case_test(struct sp_jinja_machine *m, struct sp_value *out,
                                struct sp_value self, const char *name)
{
    enum sp_status st;
    bool truth = false;

    st = sp_jinja_find_test(sp_value_name(name))->run(m, &truth, self, NULL);
    *out = sp_value_bool(truth);
    return st;
}

SP_METHOD(str_isupper)
{
    (void)arg;
    return case_test(m, out, self, "upper");
}

SP_METHOD(str_islower)
{
    (void)arg;
    return case_test(m, out, self, "lower");
}

SP_METHOD(str_istitle)
{
    bool any = false, in_word = false, title = true;

    (void)arg;
    for (size_t pos = 0; pos < self.len && title;) {
        uint32_t c = sp_utf8_next(self.text, self.len, &pos);

        if (sp_unicode_is_lower(c)) title = in_word;
        if (sp_unicode_is_cased(c) && !sp_unicode_is_lower(c)) title = !in_word;
        in_word = sp_unicode_is_cased(c);
        any = any || in_word;
    }
    *out = sp_value_bool(any && title);
    return sp_heap_charge(m->heap, self.len / 4);
}

const struct sp_jinja_method sp_jinja_is_methods[] = {
    {"isalnum", "", str_isalnum},     {"isalpha", "", str_isalpha}, {"isascii", "", str_isascii},
    {"isdecimal", "", str_isdecimal}, {"isdigit", "", str_isdigit}, {"islower", "", str_islower},
    {"isnumeric", "", str_isnumeric}, {"isspace", "", str_isspace}, {"istitle", "", str_istitle},
    {"isupper", "", str_isupper},     {NULL, NULL, NULL},
};
