/* format/json/json.h when the k-th allocation fails, k = 1, 2, ...: a document is parsed or printed
 * completely, or refused with SP_E_NOMEM, and nothing leaks. */
#include <errno.h>

#include "format/json/json_write.h"
#include "tests/support/unit_test.h"

#if defined(__GLIBC__) && !defined(SP_SANITIZED)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

/* Number of allocations that succeed; SIZE_MAX: all. */
static size_t n_left = SIZE_MAX;
static bool once; /* only one allocation fails */
static size_t n_blocks;

static bool is_out_of_memory(void)
{
    if (n_left == SIZE_MAX) return false;
    if (n_left > 0) {
        n_left--;
        return false;
    }
    if (once) n_left = SIZE_MAX;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    if (is_out_of_memory()) return NULL;
    n_blocks++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    if (is_out_of_memory()) return NULL;
    n_blocks++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    if (is_out_of_memory()) return NULL;
    n_blocks += p == NULL;
    return __libc_realloc(p, size);
}

void free(void *p)
{
    n_blocks -= p != NULL;
    __libc_free(p);
}

static const char text[] =
    "{\"a\": [1, 2.5, \"x\", null, true, {\"b\": {}, \"c\": [[], [\"y\", 3]]}], \"d\": {\"e\": "
    "false, \"f\": 12345678901234567890123}, \"g\": \"h\", \"i\": 1, \"j\": 2, \"k\": 3, \"l\": 4, "
    "\"m\": 5, \"n\": 6, \"o\": 7, \"p\": 8, \"q\": 9, \"r\": 10, \"s\": 11, \"t\": null}";
static const char repeated[] = "{\"a\": {\"b\": [1, {\"c\": 2, \"d\": {}}]}, \"e\": 3, \"a\": {}}";

/* Parses while only the first k allocations succeed. */
static enum sp_status parse(size_t k, const char *json, enum sp_json_strictness strictness)
{
    struct sp_json *root = NULL;
    size_t n_before = n_blocks;

    n_left = k;
    enum sp_status st = sp_json_parse(&root, json, strlen(json), strictness, NULL);
    n_left = SIZE_MAX;
    if (st == SP_OK) assert_int_equal(sp_json_len(root), 15);
    sp_json_free(root);
    assert_int_equal(n_blocks, n_before);
    return st;
}

/* Returns the smallest number of allocations with which parsing gives the status `what`. Fewer
 * allocations give SP_E_NOMEM. */
static size_t n_needed(const char *json, enum sp_json_strictness strictness, enum sp_status what)
{
    enum sp_status st;
    size_t k = 0;

    while ((st = parse(k, json, strictness)) == SP_E_NOMEM && k < 1000)
        k++;
    assert_int_equal(st, what);
    return k;
}

TEST(failed_allocations_are_reported)
{
    for (int i = 0; i < 2; i++) {
        once = i > 0;
        assert_in_range(n_needed(text, SP_JSON_STRICT, SP_OK), 40, 200);
        assert_in_range(n_needed(text, SP_JSON_LENIENT, SP_OK), 40, 200);
        assert_in_range(n_needed(repeated, SP_JSON_STRICT, SP_E_INPUT), 15, 100);
    }
    once = false;
}

TEST(printed_texts_are_whole)
{
    enum sp_status st = SP_E_NOMEM;
    char *whole = NULL;
    size_t k;

    for (k = 0; st && k < 100; k++) {
        struct sp_json *root = NULL;
        char *printed = NULL;
        assert_ok(sp_json_parse(&root, text, strlen(text), SP_JSON_STRICT, NULL));
        if (whole == NULL) assert_ok(sp_json_print(&whole, root, NULL));
        sp_json_free(root);
        assert_ok(sp_json_parse(&root, text, strlen(text), SP_JSON_STRICT, NULL));
        n_left = k;
        once = true;
        st = sp_json_print(&printed, root, NULL);
        once = false;
        n_left = SIZE_MAX;
        if (st == SP_OK) assert_string_equal(printed, whole);
        if (st != SP_OK) assert_int_equal(st, SP_E_NOMEM);
        free(printed);
        sp_json_free(root);
    }
    free(whole);
    assert_in_range(k, 3, 99);
}

#else

TEST(needs_the_allocator_of_glibc)
{
    skip();
}

#endif
