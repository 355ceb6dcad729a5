/* The values of the template languages, and their memory.
 *
 * Both languages compute with JSON-like values: none, truth values, numbers, texts, lists,
 * dictionaries that keep their order, and objects of the interpreter (macros, loops). A value is
 * small and passed by copy; the memory it points to belongs to a heap and never changes once
 * another value refers to it. Nothing is freed one by one: a heap lasts for one compilation or one
 * rendering and is released as a whole.
 *
 * The heap is also the budget of an untrusted template: it counts memory and work, and every loop
 * over data must charge for its steps.
 *
 * The heap keeps the first failure. From then on functions do nothing and return empty values that
 * are safe to use, and what is executed ends at its next step; so a caller need not check each
 * call, only loops that neither charge nor walk over existing values. */
#ifndef SP_RUNTIME_TEMPLATE_VALUE_VALUE_H
#define SP_RUNTIME_TEMPLATE_VALUE_VALUE_H

#include "format/base/mem.h"
#include "format/json/json.h"
#include "runtime/spectool.h"

#include <stddef.h>
#include <stdint.h>

enum sp_value_kind {
    SP_V_ABSENT, /* no value: an argument that is absent */
    SP_V_UNDEFINED,
    SP_V_NONE,
    SP_V_BOOL,
    SP_V_INT,
    SP_V_BIG, /* an integer from 2^63 to 2^64 - 1: `natural` */
    SP_V_FLOAT,
    SP_V_TEXT,
    SP_V_LIST,
    SP_V_DICT,
    SP_V_OBJECT, /* object of an interpreter; only its address is compared */
};

/* The shape of a text, list or dictionary, besides its content. Each language uses its own. */
enum sp_value_shape {
    SP_SHAPE_PLAIN,
    SP_SHAPE_MARKUP,   /* text marked safe for HTML */
    SP_SHAPE_TUPLE,    /* list */
    SP_SHAPE_ITERATOR, /* list that can be walked once */
    SP_SHAPE_RANGE,
    SP_SHAPE_KEYS,
    SP_SHAPE_VALUES,
    SP_SHAPE_ITEMS,
    SP_SHAPE_STRUCT,      /* dictionary with a fixed set of fields (Go) */
    SP_SHAPE_JSON,        /* list or dictionary that prints as JSON (Go) */
    SP_SHAPE_JSON_STRUCT, /* struct that prints as JSON (Go) */
    SP_SHAPE_TYPE,        /* list of type names that prints as its only element (Go) */
};

enum {
    SP_VALUE_DEPTH = 128, /* nested lists; deeper ones cannot be printed or compared */
};

struct sp_list {
    struct sp_value *at;
    size_t n, cap;
    size_t used; /* SP_SHAPE_ITERATOR: n after it was walked */
};

struct sp_value {
    uint8_t kind;  /* enum sp_value_kind */
    uint8_t shape; /* enum sp_value_shape */
    uint32_t len;  /* bytes of `text` */
    union {
        bool truth;
        int64_t integer;
        double real;
        uint64_t natural;
        const char *text; /* UNDEFINED: the error message, as a sentence */
        struct sp_list *list;
        struct sp_dict *dict;
        void *object;
    };
};

struct sp_dict_entry {
    struct sp_value key, value;
};

struct sp_dict {
    struct sp_dict_entry *at; /* in insertion order */
    size_t n, cap;
    uint32_t *slots; /* [n_slots], open addressing, entry + 1; NULL while small */
    size_t n_slots;
    const void *fields; /* SP_SHAPE_STRUCT: what the language knows of its fields; static */
};

struct sp_heap {
    struct sp_heap_chunk *chunks;
    size_t used, limit; /* bytes */
    uint64_t work, work_limit;
    bool exhausted;        /* a limit was exceeded */
    enum sp_status status; /* of the first failure */
    struct sp_err *err;    /* borrowed; receives the first failure */
    /* The list and dictionary of values that could not be made. */
    struct sp_list no_list;
    struct sp_dict no_dict;
};

void sp_heap_init(struct sp_heap *heap, size_t limit, uint64_t work_limit, struct sp_err *err);
void sp_heap_release(struct sp_heap *heap);

/* Records the first failure; a later one does not replace it. Returns an absent value. */
struct sp_value sp_heap_fail(struct sp_heap *heap, enum sp_status status, const char *format, ...)
    SP_PRINTF(3, 4);

/* Allocates `size` zeroed bytes, aligned for any value. NULL: a failure, SP_E_INPUT beyond the
 * limit. */
void *sp_heap_take(struct sp_heap *heap, size_t size);

/* Counts `size` bytes that are allocated elsewhere. False: SP_E_INPUT, beyond the limit. */
bool sp_heap_count(struct sp_heap *heap, size_t size);

/* Makes room for one more item in a vector of `n` items of `size` bytes, which `at` points to.
 * False: there was a failure. */
bool sp_heap_grow(struct sp_heap *heap, void *at, size_t n, size_t *cap, size_t size);

/* False: beyond SP_VALUE_DEPTH, which is a failure SP_E_INPUT, or an earlier failure. */
bool sp_heap_may_nest(struct sp_heap *heap, int depth);

/* Counts `n` steps of work. False: SP_E_INPUT beyond the limit, or an earlier failure. */
bool sp_heap_charge(struct sp_heap *heap, uint64_t n);

/* A text inside a heap that is being built. */
struct sp_builder {
    struct sp_heap *heap;
    char *at;
    size_t len, cap;
};

void sp_build(struct sp_builder *b, const char *text, size_t len);
void sp_build_text(struct sp_builder *b, const char *text);
void sp_build_value(struct sp_builder *b, struct sp_value text);
void sp_build_repeat(struct sp_builder *b, char c, size_t n);
struct sp_value sp_builder_value(const struct sp_builder *b);

/* Make plain values. The text is borrowed: static, or in the same heap. */
#define SP_VALUE_ABSENT ((struct sp_value){.kind = SP_V_ABSENT})
struct sp_value sp_value_none(void);
struct sp_value sp_value_bool(bool truth);
struct sp_value sp_value_int(int64_t integer);
struct sp_value sp_value_natural(uint64_t natural); /* INT or BIG */
struct sp_value sp_value_float(double real);
struct sp_value sp_value_text(const char *text, size_t len);
struct sp_value sp_value_name(const char *text); /* of a NUL-terminated text */
struct sp_value sp_value_object(void *object);

struct sp_value sp_value_copy_text(struct sp_heap *heap, const char *text, size_t len);
struct sp_value sp_value_list(struct sp_heap *heap, enum sp_value_shape shape, size_t cap);
void sp_list_push(struct sp_heap *heap, struct sp_list *list, struct sp_value value);
struct sp_value sp_value_dict(struct sp_heap *heap);
/* Sets the value of a key, or appends the pair; an equal key keeps its place. */
void sp_dict_set(struct sp_heap *heap, struct sp_dict *dict, struct sp_value key,
                 struct sp_value value);
void sp_dict_set_name(struct sp_heap *heap, struct sp_dict *dict, const char *key,
                      struct sp_value value);
/* Returns the value of a key, borrowed; NULL: there is none, or the value cannot be a key. Charges
 * for the bytes of the key and for the keys that it is compared with. */
const struct sp_value *sp_dict_find(struct sp_heap *heap, const struct sp_dict *dict,
                                    struct sp_value key);
/* The same of one of our own names, without charging. */
const struct sp_value *sp_dict_find_name(const struct sp_dict *dict, const char *key);
/* The pairs in the order of their keys, which are texts; NULL: a failure. */
const struct sp_dict_entry *sp_dict_sorted(struct sp_heap *heap, const struct sp_dict *dict);

/* Charges for reading n values once: the bytes of their texts. */
bool sp_heap_charge_reading(struct sp_heap *heap, const struct sp_value *values, size_t n);

/* True if a value can be the key of a dictionary; lists and dictionaries cannot. */
bool sp_value_hashable(struct sp_value v);

/* The truth of a value: empty values, zero, false and undefined are false. */
bool sp_value_truth(struct sp_value v);
bool sp_value_is_number(struct sp_value v); /* truth values count as numbers */
double sp_value_to_double(struct sp_value number);
int64_t sp_value_to_integer(struct sp_value v); /* of an INT or BOOL */
bool sp_text_is(struct sp_value v, const char *text);
size_t sp_text_characters(struct sp_value text);         /* its length in code points */
int sp_text_order(struct sp_value a, struct sp_value b); /* by code points, as by bytes */

/* Compares values as Python does: 1 == 1.0 == True, lists and dictionaries by content. */
bool sp_value_equal(struct sp_heap *heap, struct sp_value a, struct sp_value b);
/* A number below, at or above 0 for a < b, a == b, a > b. Both must be numbers (not NaN). */
int sp_number_order(struct sp_value a, struct sp_value b);

/* Copies a JSON value into a heap, with its texts. */
struct sp_value sp_value_from_json(struct sp_heap *heap, const struct sp_json *json);

/* ---- limits of a template ---- */

/* Templates are untrusted. The limits are generous for the largest published templates and long
 * conversations, and still mean seconds and megabytes, not hours and gigabytes. */
#define SP_TEMPLATE_MAX_TEXT ((size_t)1 << 20)  /* bytes of a template */
#define SP_TEMPLATE_MAX_TREE ((size_t)64 << 20) /* bytes of its parse tree */
#define SP_TEMPLATE_MAX_MEMORY ((size_t)128 << 20)
/* Memory of the JSON of messages, tools or variables. A request for a server takes half of it; what
 * was a text in it, the arguments of a call, may become an object here. */
#define SP_TEMPLATE_MAX_JSON ((size_t)128 << 20)
#define SP_TEMPLATE_MAX_WORK ((uint64_t)50 * 1000 * 1000) /* steps: a second or two */
/* Limits of the probes from which a chat format is learned: conversations of a few words, some
 * twenty of which are rendered. */
#define SP_TEMPLATE_PROBE_MEMORY (SP_TEMPLATE_MAX_MEMORY / 8)
#define SP_TEMPLATE_PROBE_WORK (SP_TEMPLATE_MAX_WORK / 20)
enum {
    SP_TEMPLATE_MAX_NESTING = 100, /* nested blocks or parentheses */
    SP_TEMPLATE_MAX_CALLS = 600,   /* nested evaluations, macros included */
};

/* ---- numbers as text and back, texts with escapes (value_text.c) ---- */

/* Parses a decimal integer of at most 64 bits or a float, without a sign and NUL-terminated; false:
 * the text is none. */
bool sp_number_parse(struct sp_value *out, const char *text);

/* Reads the escape after a backslash at text[*pos]: \n and the like, \xHH, \uHHHH, \UHHHHHHHH.
 * False, and nothing is read, if it is another one. */
bool sp_build_escape(struct sp_builder *b, const char *text, size_t size, size_t *pos);

/* Appends the fewest decimal digits that parse as `v`, which is finite, with an exponent if that is
 * below `low` or not below `high`. */
void sp_build_shortest(struct sp_builder *b, double v, int low, int high);
/* Appends Python's repr of a float: 1.0, 1e+16, nan. */
void sp_build_python_float(struct sp_builder *b, double v);
void sp_build_integer(struct sp_builder *b, struct sp_value v);

/* Appends a text between quotes: a backslash and the letter of `to` for a character of `from`, \x
 * and two digits for one below `two_digits` that is not printable and for a byte that is no UTF-8,
 * \u or \U for others that are not printable. */
void sp_build_quoted(struct sp_builder *b, struct sp_value v, char quote, const char *from,
                     const char *to, uint32_t two_digits);

/* Python's json.dumps, the same with ensure_ascii, Go's encoding/json. */
enum sp_json_text { SP_JSON_TEXT_PYTHON, SP_JSON_TEXT_ASCII, SP_JSON_TEXT_GO };

/* Appends a text as a JSON string. */
void sp_build_json_text(struct sp_builder *b, struct sp_value v, enum sp_json_text how);

#endif
