/* The syntax of JSON as a grammar, for json_schema.c: the parts that do not depend on a schema.
 *
 * Where JSON allows any whitespace, this grammar allows one space, or a line end and up to 20
 * spaces or tabs: after `{`, `[`, `,` and `:`, and before `}` and `]`. That fits the styles in
 * which models write, and no text has endless whitespace. Numbers have at most 16 digits before
 * the point, 15 after it, and two in the exponent. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_GRAMMAR_H
#define SP_RUNTIME_GRAMMAR_JSON_GRAMMAR_H

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/grammar_sequence.h"

enum { SP_JSON_WHOLE_DIGITS = 16, SP_JSON_FRACTION_DIGITS = 15, SP_JSON_EXPONENT_DIGITS = 2 };

/* The rules of JSON in one grammar. */
struct sp_json_grammar {
    struct sp_grammar *g; /* borrowed */
    uint32_t whitespace, digit, character, value, object;
};
void sp_json_grammar_init(struct sp_json_grammar *json, struct sp_grammar *g);

/* Optional whitespace. */
uint32_t sp_json_whitespace(const struct sp_json_grammar *json, uint32_t next);

/* A comma and optional whitespace. */
uint32_t sp_json_comma(const struct sp_json_grammar *json, uint32_t next);

/* A rule for a comma and an item, and a list of min to max items with commas, followed by `end`. */
uint32_t sp_json_more(const struct sp_json_grammar *json, uint32_t item);
uint32_t sp_json_list(const struct sp_json_grammar *json, uint32_t item, uint32_t min, uint32_t max,
                      uint32_t end);

/* The characters that a JSON string writes as they are. */
enum { SP_JSON_PLAIN = 3 };
extern const struct sp_char_range sp_json_plain[SP_JSON_PLAIN];

/* Matches characters as a JSON string writes them: the quotation mark, the backslash and
 * characters below U+0020 are escaped. It is an sp_spell_fn. */
uint32_t sp_json_spell(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                       uint32_t next);

/* A string with its quotation marks: the given text, or min to max characters of any kind. */
uint32_t sp_json_text(const struct sp_json_grammar *json, const char *text, size_t len,
                      uint32_t next);
uint32_t sp_json_any_text(const struct sp_json_grammar *json, uint32_t min, uint32_t max,
                          uint32_t next);

uint32_t sp_json_number(const struct sp_json_grammar *json, bool whole, uint32_t next);

#endif
