#include "tests/support/unit_test.h"
#include "tests/support/keep.h"
#include "tests/support/vector_file.h"
#include "format/base/file.h"

uint64_t *vector_file_read(const char *name, size_t per_line, size_t *n_lines)
{
    struct sp_text text;
    size_t n = 0, on_line = 0;
    uint64_t *numbers;

    assert_ok(
        sp_file_read_text(&text, keep_format("%s/vectors/%s", TESTDATA, name), 1 << 20, NULL));
    numbers = keep(calloc(text.size + 1, sizeof *numbers));
    assert_non_null(numbers);
    *n_lines = 0;
    for (char *s = text.at; *s;) {
        char *end;
        numbers[n++] = strtoull(s, &end, 16);
        assert_true(end > s && (*end == ' ' || *end == '\n'));
        on_line++;
        if (*end == '\n') {
            assert_int_equal(on_line, per_line);
            on_line = 0;
            ++*n_lines;
        }
        s = end + 1;
    }
    assert_true(*n_lines > 0 && on_line == 0);
    free(text.at);
    return numbers;
}
