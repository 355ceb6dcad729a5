/* The Modelfile's grammar: text to records and back. What names and values mean is in
 * modelfile_check.c. One pass with a cursor; every error carries the place where it is seen, and a
 * quote that is never closed the place where it was opened. */
#include "format/modelfile/modelfile.h"

#include "format/base/number_text.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const command_names[SP_N_MODELFILE_COMMANDS] = {
    [SP_MODELFILE_FROM] = "FROM",         [SP_MODELFILE_DRAFT] = "DRAFT",
    [SP_MODELFILE_ADAPTER] = "ADAPTER",   [SP_MODELFILE_PARAMETER] = "PARAMETER",
    [SP_MODELFILE_TEMPLATE] = "TEMPLATE", [SP_MODELFILE_SYSTEM] = "SYSTEM",
    [SP_MODELFILE_MESSAGE] = "MESSAGE",   [SP_MODELFILE_LICENSE] = "LICENSE",
    [SP_MODELFILE_RENDERER] = "RENDERER", [SP_MODELFILE_PARSER] = "PARSER",
    [SP_MODELFILE_REQUIRES] = "REQUIRES",
};

const char *sp_modelfile_command_name(enum sp_modelfile_command command)
{
    return command_names[command];
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_whitespace(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Line ends between two offsets; \r\n is one. */
static unsigned long count_lines(const struct sp_modelfile *file, size_t from, size_t to)
{
    const char *s = file->text;
    unsigned long n = 0;

    for (size_t i = from; i < to; i++)
        n += s[i] == '\n' || (s[i] == '\r' && s[i + 1] != '\n');
    return n;
}

void sp_modelfile_place(const struct sp_modelfile *file, size_t offset, unsigned long *line,
                        unsigned long *column)
{
    const char *s = file->text;

    *line = 1 + count_lines(file, 0, offset);
    *column = 1;
    for (size_t i = offset; i > 0 && !is_line_end(s[i - 1]); i--)
        *column += ((unsigned char)s[i - 1] & 0xC0) != 0x80; /* first byte of a character */
}

enum sp_status sp_modelfile_fail(const struct sp_modelfile *file, size_t offset, struct sp_err *err,
                                 const char *format, ...)
{
    char text[SP_ERR_TEXT];
    unsigned long line, column;
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    sp_modelfile_place(file, offset, &line, &column);
    return sp_fail(err, SP_E_INPUT, "%s:%lu:%lu: %s", file->path, line, column, text);
}

/* ---- encodings ---- */

static uint32_t utf16_unit(const uint8_t *s, bool big)
{
    return big ? (uint32_t)s[0] << 8 | s[1] : (uint32_t)s[1] << 8 | s[0];
}

/* file->text = the UTF-16 text after the byte order bom_size. */
static enum sp_status read_utf16(struct sp_modelfile *file, const uint8_t *s, size_t size, bool big,
                                 struct sp_err *err)
{
    enum sp_status st;
    char *p;

    if (size % 2)
        return sp_fail(err, SP_E_INPUT, "%s: it ends within a UTF-16 code unit", file->path);
    if ((st = sp_new(&file->text, size / 2 + 1, 3, err))) return st;
    p = file->text;
    for (size_t i = 0; i < size; i += 2) {
        uint32_t c = utf16_unit(s + i, big);
        if (c >= 0xD800 && c < 0xDC00 && i + 2 < size) {
            uint32_t low = utf16_unit(s + i + 2, big);
            if (low >= 0xDC00 && low < 0xE000) {
                c = 0x10000 + ((c - 0xD800) << 10 | (low - 0xDC00));
                i += 2;
            }
        }
        file->size = (size_t)(p - file->text);
        if (c >= 0xD800 && c < 0xE000)
            return sp_modelfile_fail(file, file->size, err, "half of a UTF-16 surrogate pair");
        p += sp_utf8_put(p, c);
    }
    file->size = (size_t)(p - file->text);
    return SP_OK;
}

static enum sp_status read_text(struct sp_modelfile *file, const uint8_t *bytes, size_t size,
                                struct sp_err *err)
{
    enum sp_status st;
    const char *nul;
    size_t valid;

    if (size >= 2 && bytes[0] == 0xFF && bytes[1] == 0xFE) {
        st = read_utf16(file, bytes + 2, size - 2, false, err);
    } else if (size >= 2 && bytes[0] == 0xFE && bytes[1] == 0xFF) {
        st = read_utf16(file, bytes + 2, size - 2, true, err);
    } else {
        size_t bom_size = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        st = sp_copy_text(&file->text, (const char *)bytes + bom_size, size - bom_size, err);
        if (!st) file->size = size - bom_size;
    }
    if (st) return st;
    valid = sp_utf8_valid(file->text, file->size);
    nul = memchr(file->text, 0, valid);
    if (nul) valid = (size_t)(nul - file->text);
    if (valid < file->size) return sp_modelfile_fail(file, valid, err, "not UTF-8 text");
    return SP_OK;
}

/* ---- grammar; file->text ends with a NUL, which no character equals ---- */

/* A part of the text. */
struct slice {
    size_t first, size;
};

/* A text being parsed, from its byte `at` on. */
struct parser {
    const struct sp_modelfile *file;
    size_t at;
    struct sp_err *err;
};

static size_t end_of_line(const char *s, size_t i)
{
    while (s[i] && !is_line_end(s[i]))
        i++;
    return i;
}

static size_t skip_whitespace(const char *s, size_t i)
{
    while (is_whitespace(s[i]))
        i++;
    return i;
}

/* Moves to the next command or the end. */
static size_t skip_to_command(const char *s, size_t i)
{
    for (;;) {
        while (is_whitespace(s[i]) || is_line_end(s[i]))
            i++;
        if (s[i] != '#') return i;
        i = end_of_line(s, i);
    }
}

/* Vertical tab and form feed count as whitespace around values, as they do for ollama. */
static size_t trim_end(const char *s, size_t first, size_t end)
{
    while (end > first && (is_whitespace(s[end - 1]) || s[end - 1] == '\v' || s[end - 1] == '\f'))
        end--;
    return end;
}

/* A value between `n` quotes. It ends in front of the first line end that `n` quotes precede, as in
 * ollama's parser, so quotes within a line belong to the text. */
static enum sp_status read_quoted(struct slice *out, struct parser *p, size_t n)
{
    const char *s = p->file->text;
    size_t i = p->at;

    for (size_t end = i;; end++) {
        size_t last;
        end = end_of_line(s, end);
        last = trim_end(s, i, end);
        if (last >= i + 2 * n && memcmp(s + last - n, "\"\"\"", n) == 0) {
            *out = (struct slice){i + n, last - i - 2 * n};
            p->at = end;
            return SP_OK;
        }
        if (s[end]) continue;
        return sp_modelfile_fail(p->file, i, p->err, "%s closed at the end of a line",
                                 n == 3 ? "these \"\"\" are never" : "this quote is not");
    }
}

/* The value that follows a command or name, which must be there: "" says that it is empty. */
static enum sp_status read_value(struct slice *out, struct parser *p, const char *what)
{
    const char *s = p->file->text;

    if (s[p->at] == '"') return read_quoted(out, p, strncmp(s + p->at, "\"\"\"", 3) == 0 ? 3 : 1);
    out->first = p->at;
    p->at = end_of_line(s, p->at);
    out->size = trim_end(s, out->first, p->at) - out->first;
    if (out->size) return SP_OK;
    return sp_modelfile_fail(p->file, out->first, p->err,
                             "%s: a value is missing (\"\" is an empty one)", what);
}

/* A parameter's name or a message's role. */
static enum sp_status read_word(struct slice *out, struct parser *p, bool is_role)
{
    const char *s = p->file->text, *what = is_role ? "MESSAGE" : "PARAMETER";
    size_t i = p->at, end = i;

    while (is_letter(s[end]) || (!is_role && ((s[end] >= '0' && s[end] <= '9') || s[end] == '_')))
        end++;
    *out = (struct slice){i, end - i};
    if (s[end] && !is_whitespace(s[end]) && !is_line_end(s[end])) {
        return sp_modelfile_fail(p->file, end, p->err, "%s: a %s", what,
                                 is_role ? "role consists of letters"
                                         : "name consists of letters, digits and _");
    }
    if (end == i) {
        return sp_modelfile_fail(p->file, i, p->err, "%s: a %s and a value are missing", what,
                                 is_role ? "role" : "name");
    }
    p->at = skip_whitespace(s, end);
    return SP_OK;
}

static bool equals(const char *word, const char *s, size_t size)
{
    if (strlen(word) != size) return false;
    for (size_t i = 0; i < size; i++)
        if (lower(word[i]) != lower(s[i])) return false;
    return true;
}

static enum sp_status read_command(enum sp_modelfile_command *out, struct parser *p)
{
    const char *s = p->file->text;
    size_t i = p->at, end = i;

    while (is_letter(s[end]))
        end++;
    for (int c = 0; c < SP_N_MODELFILE_COMMANDS; c++) {
        if (!equals(command_names[c], s + i, end - i)) continue;
        if (s[end] && !is_whitespace(s[end]) && !is_line_end(s[end])) break;
        *out = (enum sp_modelfile_command)c;
        p->at = skip_whitespace(s, end);
        return SP_OK;
    }
    if (strncmp(s + end, "\xC2\xA0", 2) == 0) {
        return sp_modelfile_fail(p->file, end, p->err,
                                 "a no-break space (U+00A0) behind %.*s, expected a space",
                                 (int)(end - i), s + i);
    }
    while (s[end] && !is_whitespace(s[end]) && !is_line_end(s[end]))
        end++;
    return sp_modelfile_fail(p->file, i, p->err,
                             "%.*s is not a command (FROM, DRAFT, PARAMETER, TEMPLATE, SYSTEM, "
                             "MESSAGE, LICENSE, RENDERER, PARSER, REQUIRES, ADAPTER)",
                             end - i > 40 ? 40 : (int)(end - i), s + i);
}

static enum sp_status copy_lower(char **out, const char *s, size_t size, struct sp_err *err)
{
    enum sp_status st = sp_copy_text(out, s, size, err);

    for (size_t i = 0; !st && i < size; i++)
        (*out)[i] = lower(s[i]);
    return st;
}

static enum sp_status check_role(const struct sp_modelfile *file, size_t at, const char *role,
                                 struct sp_err *err)
{
    if (!strcmp(role, "system") || !strcmp(role, "user") || !strcmp(role, "assistant"))
        return SP_OK;
    return sp_modelfile_fail(file, at, err, "MESSAGE: role %s, expected system, user or assistant",
                             role);
}

/* Appends the record that begins at `i`; *next is where it ends. */
static enum sp_status read_record(struct sp_modelfile *file, size_t i, size_t *next,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile_record *r;
    struct slice name = {0, 0}, value = {0, 0};
    struct parser p = {file, i, err};

    if (file->n_records == SP_MODELFILE_MAX_RECORDS)
        return sp_modelfile_fail(file, i, err, "more than %d records", SP_MODELFILE_MAX_RECORDS);
    st = sp_grow(&file->records, &file->cap_records, file->n_records + 1, sizeof *r, err);
    if (st) return st;
    r = &file->records[file->n_records++];
    *r = (struct sp_modelfile_record){.first = i};
    if ((st = read_command(&r->command, &p))) return st;
    if (r->command == SP_MODELFILE_PARAMETER || r->command == SP_MODELFILE_MESSAGE) {
        bool is_role = r->command == SP_MODELFILE_MESSAGE;
        if ((st = read_word(&name, &p, is_role))) return st;
        if ((st = copy_lower(&r->name, file->text + name.first, name.size, err))) return st;
        if (is_role && (st = check_role(file, name.first, r->name, err))) return st;
    }
    r->value_first = p.at;
    if ((st = read_value(&value, &p, r->name ? r->name : command_names[r->command]))) return st;
    *next = p.at;
    r->size = p.at - i;
    r->value_size = value.size;
    return sp_copy_text(&r->value, file->text + value.first, value.size, err);
}

enum sp_status sp_modelfile_parse(struct sp_modelfile *out, const char *path, const void *bytes,
                                  size_t size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile file = {0};
    unsigned long line = 1;

    *out = file;
    if ((st = sp_copy_text(&file.path, path, strlen(path), err))) goto done;
    if ((st = read_text(&file, bytes, size, err))) goto done;
    for (size_t i = skip_to_command(file.text, 0), from = 0; i < file.size;
         i = skip_to_command(file.text, i)) {
        line += count_lines(&file, from, i);
        from = i;
        if ((st = read_record(&file, i, &i, err))) goto done;
        file.records[file.n_records - 1].line = line;
    }
    *out = file;
    file = (struct sp_modelfile){0};
done:
    sp_modelfile_release(&file);
    return st;
}

void sp_modelfile_release(struct sp_modelfile *file)
{
    for (size_t i = 0; i < file->n_records; i++) {
        free(file->records[i].name);
        free(file->records[i].value);
    }
    free(file->records);
    free(file->text);
    free(file->path);
    *file = (struct sp_modelfile){0};
}

const struct sp_modelfile_record *sp_modelfile_find(const struct sp_modelfile *file,
                                                    enum sp_modelfile_command command,
                                                    const char *name)
{
    for (size_t i = file->n_records; i-- > 0;) {
        const struct sp_modelfile_record *r = &file->records[i];
        if (r->command == command && (name == NULL || (r->name && strcmp(r->name, name) == 0)))
            return r;
    }
    return NULL;
}

bool sp_modelfile_names_source(enum sp_modelfile_command command)
{
    return command == SP_MODELFILE_FROM || command == SP_MODELFILE_DRAFT ||
           command == SP_MODELFILE_ADAPTER;
}

enum sp_status sp_modelfile_print(struct sp_text *text, const struct sp_modelfile *file,
                                  struct sp_err *err)
{
    enum sp_status st;
    char *out = NULL, *p;

    /* A record lies in the text with a line end after it, but for the last one. */
    if ((st = sp_new(&out, file->size + 2, 1, err))) return st;
    p = out;
    for (size_t i = 0; i < file->n_records; i++) {
        const struct sp_modelfile_record *r = &file->records[i];
        if (sp_modelfile_names_source(r->command)) continue;
        memcpy(p, file->text + r->first, r->size);
        p += r->size;
        *p++ = '\n';
    }
    *text = (struct sp_text){out, (size_t)(p - out)};
    return SP_OK;
}

/* A path as a value: as it is where that reads back the same, else in quotes. */
static int print_source(char *out, size_t cap, const char *command, const char *name)
{
    size_t size = strlen(name);
    bool bare =
        size && name[0] != '"' && !is_whitespace(name[0]) && trim_end(name, 0, size) == size;

    return snprintf(out, cap, bare ? "%s %s\n" : "%s \"\"\"%s\"\"\"\n", command, name);
}

enum sp_status sp_modelfile_recreate(struct sp_text *text, const char *from, const char *draft,
                                     const struct sp_text *records, struct sp_err *err)
{
    enum sp_status st;
    size_t cap = strlen(from) + (draft ? strlen(draft) : 0) + 32 + records->size + 1, n;
    char *out = NULL;

    if (strpbrk(from, "\r\n") || (draft && strpbrk(draft, "\r\n"))) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s: a Modelfile cannot name a path with a line end",
                       strpbrk(from, "\r\n") ? from : draft);
    }
    if ((st = sp_new(&out, cap, 1, err))) return st;
    n = (size_t)print_source(out, cap, "FROM", from);
    if (draft) n += (size_t)print_source(out + n, cap - n, "DRAFT", draft);
    if (records->size) memcpy(out + n, records->at, records->size);
    *text = (struct sp_text){out, n + records->size};
    return SP_OK;
}
