/* The parts of JSON texts as a grammar, for json_schema.c: what every value has, whatever a schema
 * says.
 *
 * Where JSON allows any white space, one blank may be written, or a line end and up to 20 blanks or
 * tabs: behind `{`, `[`, `,` and `:`, and before `}` and `]`. So there is room for how models like
 * to write, and no way to write blanks without end. Numbers have at most 16 digits before the
 * point, 15 behind it, and two in the exponent. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_GRAMMAR_H
#define SP_RUNTIME_GRAMMAR_JSON_GRAMMAR_H

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/grammar_chars.h"

enum { SP_JSON_WHOLE_DIGITS = 16, SP_JSON_FRACTION_DIGITS = 15, SP_JSON_EXPONENT_DIGITS = 2 };

/* Rules of one grammar. */
struct sp_json_grammar {
    struct sp_grammar *g; /* borrowed */
    uint32_t blank, digit, character, value, object;
};
void sp_json_grammar_init(struct sp_json_grammar *json, struct sp_grammar *g);

/* White space that may be there. */
uint32_t sp_json_whitespace(const struct sp_json_grammar *json, uint32_t next);

/* A comma, and white space that may be there. */
uint32_t sp_json_comma(const struct sp_json_grammar *json, uint32_t next);

/* Characters as a JSON string spells them, the quotation mark, the backslash and what is below
 * U+0020 escaped; a sp_spell_fn. */
uint32_t sp_json_spell(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                       uint32_t next);

/* A whole string: this one, or any of min to max characters. */
uint32_t sp_json_text(const struct sp_json_grammar *json, const char *text, size_t len,
                      uint32_t next);
uint32_t sp_json_any_text(const struct sp_json_grammar *json, uint32_t min, uint32_t max,
                          uint32_t next);

uint32_t sp_json_number(const struct sp_json_grammar *json, bool whole, uint32_t next);

#endif
