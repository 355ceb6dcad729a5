#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <dirent.h>
#include <limits.h>
#include <unistd.h>

bool golden_exists(const char *path)
{
    return access(path, R_OK) == 0;
}

static int is_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* What testdata/families has need not run twice. */
static int is_newer(const struct dirent *entry)
{
    return is_name(entry) && !golden_exists(keep_format(TESTDATA "/families/%s", entry->d_name));
}

enum { MOST_FOLDERS = 255 };

/* Lists a folder in names[MOST_FOLDERS + 1], once. */
static const char *const *list(const char **names, const char *dir,
                               int (*filter)(const struct dirent *))
{
    struct dirent **entries = NULL;

    if (names[0]) return names;
    int n = scandir(dir, &entries, filter, alphasort);
    assert_in_range(n + 1, 0, MOST_FOLDERS + 1);
    for (int i = 0; i < n; i++)
        names[i] = entries[i]->d_name;
    free(entries);
    return names;
}

const char *const *golden_families(void)
{
    static const char *names[MOST_FOLDERS + 1];

    return list(names, TESTDATA "/families", is_name);
}

const char *const *golden_newer(void)
{
    static const char *names[MOST_FOLDERS + 1];

    return list(names, SHARED "/oracle/newer", is_newer);
}

char *golden_file(const char *path, size_t *size)
{
    return golden_exists(path) ? scratch_read(path, size) : NULL;
}

struct sp_json *golden_json(const char *path)
{
    size_t size;
    char *text = golden_file(path, &size);

    return text ? keep_parsed(text, size, SP_JSON_LENIENT) : NULL;
}

char *next_line(char **text)
{
    char *line = *text, *end;

    if (line == NULL || *line == '\0') return NULL;
    end = strchr(line, '\n');
    *text = end ? end + 1 : NULL;
    if (end) *end = '\0';
    return line;
}

struct sp_json *const *golden_lines(const char *path)
{
    size_t size, n = 0, n_lines = 1;
    char *text = golden_file(path, &size), *line;
    struct sp_json **values;

    for (const char *at = text; at && (at = strchr(at, '\n')) != NULL; at++)
        n_lines++;
    values = keep(calloc(n_lines + 1, sizeof(struct sp_json *)));
    assert_non_null(values);
    while ((line = next_line(&text)) != NULL)
        if (*line) values[n++] = keep_parsed(line, strlen(line), SP_JSON_LENIENT);
    return values;
}

uint32_t *golden_ids(const struct sp_json *array, size_t *n)
{
    uint32_t *ids = keep(calloc(sp_json_len(array) + 1, sizeof *ids));

    assert_non_null(ids);
    *n = sp_json_len(array);
    for (size_t i = 0; i < *n; i++) {
        uint64_t v = UINT64_MAX;
        assert_true(sp_json_to_u64(sp_json_at(array, i), &v));
        ids[i] = (uint32_t)v;
    }
    return ids;
}

float *golden_npy(const char *path, size_t *rows, size_t *cols)
{
    size_t size = 0, header;
    char *text = golden_file(path, &size), *copy;
    const char *shape;

    if (text == NULL || size < 10) fail_msg("%s: cannot be read", path);
    assert_memory_equal(text, "\x93NUMPY\x01\x00", 8);
    header = 10 + (size_t)(uint8_t)text[8] + 256 * (size_t)(uint8_t)text[9];
    assert_true(header < size);
    copy = keep(strndup(text + 10, header - 10));
    assert_non_null(strstr(copy, "'<f4'"));
    assert_non_null(strstr(copy, "'fortran_order': False"));
    shape = strstr(copy, "'shape': (");
    assert_non_null(shape);
    assert_int_equal(sscanf(shape, "'shape': (%zu, %zu)", rows, cols), 2);
    assert_int_equal(size - header, *rows * *cols * sizeof(float));
    float *out = keep(malloc(size - header));
    assert_non_null(out);
    memcpy(out, text + header, size - header);
    return out;
}
