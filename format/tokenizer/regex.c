#include "format/tokenizer/regex.h"

#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "format/tokenizer/patterns.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HEAP_KIB = 256 * 1024,
    /* A match may take FEW_STEPS for nothing, and more of them from the matcher's account, which
     * all text that has been matched adds to. So a pattern that goes back and forth over the text
     * gives up, and one that takes steps in proportion to its match never does. */
    FEW_STEPS = 2000,
    MORE_STEPS = 16, /* as many times the steps of the attempt before */
    ACCOUNT = 100 * 1000 * 1000,
    STEPS_PER_BYTE = 64,
};

struct sp_regex {
    char *literal; /* owned; NULL for a regular expression */
    size_t literal_len;
    pcre2_code *code;
    bool jit;
    bool linear; /* no limit is needed */
};

struct sp_regex_matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t account; /* steps */
};

/* Published patterns. Each of their matches takes steps in proportion to its length, so that a run
 * of ten million spaces is no reason to give up. */
static bool is_linear(const char *pattern, size_t len)
{
    static const char *const patterns[] = {
        SP_GPT2_PATTERN,  SP_LLAMA3_PATTERN("{1,3}"), SP_LLAMA3_PATTERN(""), SP_QWEN35_PATTERN,
        SP_O200K_PATTERN, SP_TEKKEN_PATTERN,          SP_DEEPSEEK3_PATTERN,
    };

    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (strlen(patterns[i]) == len && memcmp(patterns[i], pattern, len) == 0) return true;
    return false;
}

static enum sp_status compile(struct sp_regex *regex, const char *pattern, size_t len,
                              struct sp_err *err)
{
    pcre2_compile_context *context = NULL;
    char *translated = NULL;
    size_t translated_len, offset;
    int code;
    enum sp_status st;

    if ((st = sp_regex_translate(&translated, &translated_len, pattern, len, err))) return st;
    context = pcre2_compile_context_create(NULL);
    if (context == NULL) {
        st = sp_fail(err, SP_E_NOMEM, "out of memory for a pattern of %zu bytes", len);
        goto done;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 200);
    regex->code = pcre2_compile((PCRE2_SPTR)translated, translated_len,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                &code, &offset, context);
    if (regex->code == NULL) {
        char message[200];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        st = sp_fail(err, code == PCRE2_ERROR_HEAP_FAILED ? SP_E_NOMEM : SP_E_UNSUPPORTED,
                     "pattern \"%.200s\": %s", pattern, message);
        goto done;
    }
    regex->jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    regex->linear = is_linear(pattern, len);
done:
    pcre2_compile_context_free(context);
    free(translated);
    return st;
}

enum sp_status sp_regex_open(struct sp_regex **out, const char *pattern, size_t len, bool is_regex,
                             struct sp_err *err)
{
    struct sp_regex *regex = NULL;
    char *copy = NULL;
    enum sp_status st;

    if (len == 0 || len > SP_REGEX_MAX_LEN) {
        return sp_fail(err, SP_E_UNSUPPORTED, "a pattern of %zu bytes, expected 1 to %d", len,
                       SP_REGEX_MAX_LEN);
    }
    if (sp_utf8_valid(pattern, len) != len)
        return sp_fail(err, SP_E_INPUT, "a pattern is not valid UTF-8");
    if ((st = sp_new(&regex, 1, sizeof *regex, err))) return st;
    if ((st = sp_copy_text(&copy, pattern, len, err))) goto done;
    if (is_regex) {
        if ((st = compile(regex, copy, len, err))) goto done;
    } else {
        regex->literal = copy;
        regex->literal_len = len;
        copy = NULL;
    }
    *out = regex;
    regex = NULL;
done:
    free(copy);
    sp_regex_close(regex);
    return st;
}

void sp_regex_close(struct sp_regex *regex)
{
    if (regex == NULL) return;
    pcre2_code_free(regex->code);
    free(regex->literal);
    free(regex);
}

enum sp_status sp_regex_matcher_open(struct sp_regex_matcher **out, struct sp_err *err)
{
    struct sp_regex_matcher *matcher = NULL;
    enum sp_status st;

    if ((st = sp_new(&matcher, 1, sizeof *matcher, err))) return st;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->limits = pcre2_match_context_create(NULL);
    if (matcher->data == NULL || matcher->limits == NULL) {
        sp_regex_matcher_close(matcher);
        return sp_fail(err, SP_E_NOMEM, "out of memory for matching a pattern");
    }
    pcre2_set_heap_limit(matcher->limits, MAX_HEAP_KIB);
    matcher->account = ACCOUNT;
    *out = matcher;
    return SP_OK;
}

void sp_regex_matcher_close(struct sp_regex_matcher *matcher)
{
    if (matcher == NULL) return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->limits);
    free(matcher);
}

/* The first occurrence of the literal at or after pos; SIZE_MAX if there is none. */
static size_t find_literal(const struct sp_regex *regex, const char *text, size_t len, size_t pos)
{
    size_t n = regex->literal_len;

    while (pos < len && len - pos >= n) {
        const char *hit = memchr(text + pos, regex->literal[0], len - pos - n + 1);
        if (hit == NULL) break;
        if (memcmp(hit, regex->literal, n) == 0) return (size_t)(hit - text);
        pos = (size_t)(hit - text) + 1;
    }
    return SIZE_MAX;
}

static int match(const struct sp_regex *regex, struct sp_regex_matcher *matcher, const char *text,
                 size_t len, size_t pos, uint32_t max_steps)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;

    pcre2_set_match_limit(matcher->limits, max_steps);
    if (regex->jit)
        rc = pcre2_jit_match(regex->code, subject, len, pos, 0, matcher->data, matcher->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rc = pcre2_match(regex->code, subject, len, pos, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         matcher->data, matcher->limits);
    }
    return rc;
}

/* Tries with few steps first, then with more while the account has them. */
static int match_within(const struct sp_regex *regex, struct sp_regex_matcher *matcher,
                        const char *text, size_t len, size_t pos)
{
    uint32_t steps = FEW_STEPS;
    int rc;

    if (regex->linear) return match(regex, matcher, text, len, pos, UINT32_MAX);
    for (;;) {
        rc = match(regex, matcher, text, len, pos, steps);
        if (rc != PCRE2_ERROR_MATCHLIMIT || steps > matcher->account) return rc;
        matcher->account -= steps;
        steps = steps > UINT32_MAX / MORE_STEPS ? UINT32_MAX : steps * MORE_STEPS;
    }
}

/* One match at or after `pos`. */
static enum sp_status find_from(struct sp_find *find, size_t pos, bool *found, size_t *start,
                                size_t *end, struct sp_err *err)
{
    if (find->regex->literal != NULL) {
        *start = find_literal(find->regex, find->text, find->len, pos);
        *found = *start != SIZE_MAX;
        *end = *start + find->regex->literal_len;
        return SP_OK;
    }
    int rc = match_within(find->regex, find->matcher, find->text, find->len, pos);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return SP_OK;
    if (rc < 0) {
        return sp_fail(err, SP_E_INPUT,
                       "a pattern of the tokenizer exceeds its limits on this text (%s)",
                       rc == PCRE2_ERROR_MATCHLIMIT ? "too many steps" : "too much memory");
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(find->matcher->data);
    *start = ends[0];
    *end = ends[1];
    if (*end > pos) find->matcher->account += (uint64_t)(*end - pos) * STEPS_PER_BYTE;
    return SP_OK;
}

enum sp_status sp_find_next(struct sp_find *find, bool *found, size_t *start, size_t *end,
                            struct sp_err *err)
{
    enum sp_status st;

    *found = false;
    while (find->pos <= find->len) {
        if ((st = find_from(find, find->pos, found, start, end, err)) || !*found) return st;
        if (*start < find->pos) *start = find->pos; /* \K in a lookbehind or lookahead */
        if (*end < *start) *end = *start;
        if (*start == *end && find->any && *end == find->last_end) {
            *found = false;
            if (find->pos == find->len) return SP_OK;
            (void)sp_utf8_next(find->text, find->len, &find->pos);
            continue;
        }
        find->pos = find->last_end = *end;
        find->any = true;
        return SP_OK;
    }
    return SP_OK;
}

void sp_regex_library(char *text, size_t size)
{
    char version[64] = "";

    (void)pcre2_config(PCRE2_CONFIG_VERSION, version);
    snprintf(text, size, "PCRE2 %s", version);
}
