/* runtime/tokenizer/tokenizer.h: ids and texts equal those of the `tokenizers` library for every
 * feature (testdata/tokenizer, written by tests/oracle/tokenizer_cases.py) and for published
 * vocabularies (../shared, if available). Damaged blocks are refused or harmless, and long words
 * take little time. */
#include <pthread.h>
#include <time.h>

#include "format/json/json_write.h"
#include "runtime/spectool.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/tokenizer_cases.h"
#include "tests/support/unit_test.h"

enum { PLAIN = 0, PARSE = SP_ENCODE_PARSE_SPECIAL, ALL = PARSE | SP_ENCODE_ADD_SPECIAL };

/* ---- small tokenizers ---- */

static const char *text_at(const struct sp_json *row, size_t i, size_t *size)
{
    const char *text = sp_json_to_string(sp_json_at(row, i), size);

    assert_non_null(text);
    return text;
}

/* A case: [text, ids, ids with added special tokens, ids without parsed special tokens]. */
static void encode_row(const struct tokenizer_case *t, const char *name, const struct sp_json *row)
{
    static const unsigned flags[] = {PARSE, ALL, PLAIN};
    size_t size, n;
    const char *text = text_at(row, 0, &size);

    for (size_t i = 0; i < 3; i++) {
        uint32_t *ids = golden_ids(sp_json_at(row, 1 + i), &n);
        const char *where = keep_format("%s: \"%.200s\", flags %u", name, text, flags[i]);
        expect_ids(t, where, text, size, flags[i], ids, n);
    }
}

/* A stream may differ only with byte tokens; see runtime/tokenizer/tokenizer.h. */
static bool has_byte_tokens(const struct tokenizer_case *t)
{
    return sp_tokenizer_find(t->tok, "<0xE2>", 6) != SP_TOKEN_NONE;
}

/* A case: [ids, text, text without special tokens]. */
static void decode_row(const struct tokenizer_case *t, const char *name, const struct sp_json *row)
{
    size_t size, n;
    uint32_t *ids = golden_ids(sp_json_at(row, 0), &n);

    for (size_t i = 0; i < 2; i++) {
        const char *text = text_at(row, 1 + i, &size);
        const char *where = keep_format("%s: decoding to \"%.200s\"", name, text);
        expect_text(t, where, ids, n, i == 1, text, size, !has_byte_tokens(t));
    }
}

TEST(small)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/tokenizer/cases.jsonl");
    size_t n = 0;

    for (; *line; line++) {
        struct tokenizer_case t;
        const char *name = sp_json_get_text(*line, "name");
        const struct sp_json *cases = sp_json_get(*line, "cases");
        const struct sp_json *decodes = sp_json_get(*line, "decodes");
        const char *json = keep_printed(sp_json_get(*line, "tokenizer"));
        tokenizer_case_open(&t, json, strlen(json), NULL);
        for (size_t i = 0; i < sp_json_len(cases); i++)
            encode_row(&t, name, sp_json_at(cases, i));
        for (size_t i = 0; i < sp_json_len(decodes); i++)
            decode_row(&t, name, sp_json_at(decodes, i));
        n += sp_json_len(cases) + sp_json_len(decodes);
    }
    assert_true(n > 1500);
}

/* BertNormalizer puts spaces around Chinese characters in front of any pre-tokenizer; ids by the
 * tokenizers library 0.23. */
TEST(spaces_around_chinese)
{
    static const char with[] =
        "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"lowercase\":true"
        ",\"handle_chinese_chars\":%s},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false},\"model\":{\"type\":\"BPE\",\"merges\":[],"
        "\"vocab\":{\"a\":0,\"\\u0120\":1,\"\\u00e4\":2,\"\\u00b8\":3,\"\\u0143\":4,\"b\":5}}}";
    static const char text[] = "A\xe4\xb8\xad\xe4\xb8\xad"
                               "b"; /* U+4E2D twice */
    static const uint32_t spaced[] = {0, 1, 2, 3, 4, 1, 1, 2, 3, 4, 1, 5},
                          plain[] = {0, 2, 3, 4, 2, 3, 4, 5};

    for (int han = 0; han < 2; han++) {
        struct tokenizer_case t;
        const char *json = keep_format(with, han ? "true" : "false");
        tokenizer_case_open(&t, json, strlen(json), NULL);
        expect_ids(&t, "chinese", text, strlen(text), 0, han ? spaced : plain, han ? 12 : 8);
    }
}

/* ---- published tokenizers ---- */

static void golden_decoding(const struct tokenizer_case *t, const char *where,
                            const struct sp_json *row, const char *ids_key, const char *key,
                            bool skip_special)
{
    const struct sp_json *wanted = sp_json_get(row, key);
    size_t n, size;
    uint32_t *ids = golden_ids(sp_json_get(row, ids_key), &n);
    const char *text;

    if (wanted == NULL) wanted = sp_json_get(row, "decoded");
    text = sp_json_to_string(wanted, &size);
    assert_non_null(text);
    expect_text(t, where, ids, n, skip_special, text, size, !has_byte_tokens(t));
}

static void golden_row(const struct tokenizer_case *t, const char *where, const struct sp_json *row)
{
    size_t size, n;
    const char *text = sp_json_to_string(sp_json_get(row, "text"), &size);

    for (int special = 0; text != NULL && special < 2; special++) {
        uint32_t *ids = golden_ids(sp_json_get(row, special ? "ids_special" : "ids"), &n);
        expect_ids(t, where, text, size, special ? ALL : PARSE, ids, n);
    }
    golden_decoding(t, where, row, "ids", "decoded", false);
    golden_decoding(t, where, row, "ids", "decoded_skip", true);
    if (text != NULL) golden_decoding(t, where, row, "ids_special", "decoded_special", false);
}

static size_t check_file(const struct tokenizer_case *t, const char *path)
{
    size_t n = 0;

    for (struct sp_json *const *line = golden_lines(path); *line; line++)
        golden_row(t, keep_format("%s:%zu", path, ++n), *line);
    return n;
}

static void golden(const char *folder, size_t unpacked, size_t n_rows)
{
    const char *path =
        keep_format(SHARED "/tokenizers/%s/tokenizer.json%s", folder, unpacked ? ".zst" : "");
    size_t size = unpacked;
    char *json = unpacked ? read_zstd(path, unpacked) : golden_file(path, &size);
    struct tokenizer_case t;

    if (json == NULL) skip();
    tokenizer_case_open(&t, json, size, NULL);
    size_t n = check_file(&t, keep_format(SHARED "/tokenizers/%s/golden.jsonl", folder));
    n += check_file(&t, keep_format(SHARED "/tokenizers/%s/decode_golden.jsonl", folder));
    assert_int_equal(n, n_rows);
}

TEST(qwen3)
{
    golden("qwen3", 11422654, 586);
}

TEST(gptoss)
{
    golden("gptoss", 27868174, 586);
}

TEST(deepseek)
{
    golden("deepseek_v3", 7847652, 592);
}

TEST(mistral_v1)
{
    golden("mistral_7b_v0_1", 1795303, 588);
}

TEST(mistral_v3)
{
    golden("mistral_7b_v0_3", 1470906, 591);
}

static void mini(void **state)
{
    char path[300];
    size_t size;
    struct tokenizer_case t;
    char *json;

    snprintf(path, sizeof path, SHARED "/tokenizers/mini/%s/tokenizer.json", (const char *)*state);
    json = golden_file(path, &size);
    if (json == NULL) skip();
    tokenizer_case_open(&t, json, size, NULL);
    snprintf(path, sizeof path, SHARED "/tokenizers/mini/%s/golden.jsonl", (const char *)*state);
    assert_true(check_file(&t, path) > 100);
}

CASES(mini, "bl_addedtokens", "bl_deepseek", "bl_digits_contiguous", "bl_gpt2", "bl_gpt2_prefix",
      "bl_llama3", "bl_llama3_noignore", "bl_o200k", "bl_qwen2_nfc", "bl_qwen35_nfc", "bl_smollm2",
      "bl_tekken", "gemma", "gemma_bos_eos", "split_Contiguous", "split_MergedWithNext",
      "split_MergedWithPrevious", "split_Removed", "split_invert_removed", "split_string_isolated",
      "spm_llama2", "spm_metaspace_always_split", "spm_metaspace_first",
      "spm_metaspace_legacy_fields", "spm_metaspace_never", "spm_partial_bytes", "spm_unk_fused",
      "spm_unk_notfused");

/* ---- the tiny model's tokenizer, which is always available ---- */

static void open_tiny(struct tokenizer_case *t)
{
    size_t size, config_size;
    char *json = golden_file(TESTDATA "/tiny/target/tokenizer.json", &size);
    char *config = golden_file(TESTDATA "/tiny/target/tokenizer_config.json", &config_size);

    assert_non_null(json);
    assert_non_null(config);
    tokenizer_case_open(t, json, size, config);
}

TEST(lookups)
{
    struct sp_token_info info;
    struct tokenizer_case t;

    open_tiny(&t);
    assert_int_equal(sp_tokenizer_n_ids(t.tok), 1600);
    assert_int_equal(sp_tokenizer_eos(t.tok), 1598);
    assert_int_equal(sp_tokenizer_find(t.tok, "<|im_end|>", 10), 1598);
    assert_int_equal(sp_tokenizer_find(t.tok, "<|nothing|>", 11), SP_TOKEN_NONE);
    assert_int_equal(sp_tokenizer_find(t.tok, "", 0), SP_TOKEN_NONE);
    /* A space is written U+0120 in the file and is a byte in the token. */
    uint32_t space = sp_tokenizer_find(t.tok, "\xC4\xA0", 2);
    assert_true(sp_tokenizer_token(t.tok, space, &info));
    assert_int_equal(info.len, 1);
    assert_int_equal(info.bytes[0], ' ');
    assert_false(info.special || info.added);
    assert_true(sp_tokenizer_token(t.tok, 1598, &info));
    assert_true(info.special && info.added);
    assert_false(sp_tokenizer_token(t.tok, 1600, &info));
    assert_false(sp_tokenizer_token(t.tok, SP_TOKEN_NONE, &info));
}

TEST(texts)
{
    struct tokenizer_case t;
    uint32_t *ids = NULL;
    size_t n;

    open_tiny(&t);
    assert_ok(sp_tokenizer_encode(t.tok, "", 0, ALL, &ids, &n, why));
    assert_int_equal(n, 0);
    assert_non_null(ids);
    free(ids);
    ids = NULL;
    assert_fails_as(sp_tokenizer_encode(t.tok, "ab\xFF", 3, ALL, &ids, &n, why), SP_E_INPUT,
                    "text: byte 2 is not valid UTF-8");
    assert_null(ids);
    expect_text(&t, "no ids", NULL, 0, false, "", 0, true);
    expect_text(&t, "ids beyond the vocabulary", (uint32_t[]){1600, 5000, SP_TOKEN_NONE}, 3, false,
                "", 0, true);
}

/* decode(encode(x)) == x for a byte-level model and any text in normal form. */
TEST(round_trips)
{
    static const char *const parts[] = {
        "the ", "\xC3\xA9",   "\xE4\xB8\xAD", "  ", "\n", "1", "\xF0\x9F\x98\x80",
        "'s",   "<|im_end|>", "\t\t",         "Z",  "."};
    struct tokenizer_case t;
    uint64_t seed = 1;

    open_tiny(&t);
    for (int round = 0; round < 300; round++) {
        char text[400] = "";
        uint32_t *ids = NULL;
        size_t n;
        for (int i = 0; i < 20; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            strcat(text, parts[(seed >> 33) % (sizeof parts / sizeof parts[0])]);
        }
        assert_int_equal(sp_tokenizer_encode(t.tok, text, strlen(text), PARSE, &ids, &n, NULL), 0);
        expect_text(&t, text, ids, n, false, text, strlen(text), true);
        free(ids);
    }
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One word of n bytes, one run of n spaces, one of n marks: at most n log n. A quadratic algorithm
 * would take hours, so the time limit is generous. */
TEST(long_words)
{
    static const char *const units[] = {"ab", " ", "\xCC\x81\xCC\xA3", "\n", "A", "<|im_", "the"};
    enum { SIZE = 1 << 20 };
    struct tokenizer_case t;
    char *text = keep(malloc(SIZE));
    double begin = seconds();

    assert_non_null(text);
    open_tiny(&t);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t len = strlen(units[i]), size = SIZE / len * len, n;
        uint32_t *ids = NULL;
        for (size_t at = 0; at < size; at += len)
            memcpy(text + at, units[i], len);
        assert_ok(sp_tokenizer_encode(t.tok, text, size, PARSE, &ids, &n, why));
        assert_true(n > 0);
        free(ids);
    }
    assert_true(seconds() - begin < 60);
}

/* ---- one tokenizer, several threads ---- */

struct task {
    const struct tokenizer_case *t;
    size_t n;
    bool failed;
};

static const char prose[] = "Once upon a time the owl don't sleep. <|im_end|>\n  int x = 42;\n";

static void *encode_often(void *context)
{
    struct task *task = context;

    for (int i = 0; i < 500; i++) {
        uint32_t *ids = NULL;
        size_t n = 0;
        if (sp_tokenizer_encode(task->t->tok, prose, strlen(prose), PARSE, &ids, &n, NULL))
            task->failed = true;
        if (task->n && task->n != n) task->failed = true;
        task->n = n;
        free(ids);
    }
    return NULL;
}

TEST(threads)
{
    pthread_t ids[4];
    struct task tasks[4] = {{0}};
    struct tokenizer_case t;

    open_tiny(&t);
    for (int i = 0; i < 4; i++) {
        tasks[i].t = &t;
        assert_int_equal(pthread_create(&ids[i], NULL, encode_often, &tasks[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        assert_false(tasks[i].failed);
        assert_int_equal(tasks[i].n, tasks[0].n);
    }
}

/* ---- damaged blocks ---- */

/* Uses a block of any bytes: encoding fails or returns ids in range, without a crash. */
static void use(const uint8_t *blob, size_t size)
{
    struct sp_err err = {0};
    struct sp_tokenizer *tok = NULL;
    uint32_t *ids = NULL;
    char *text = NULL;
    size_t n, len;

    if (sp_tokenizer_open(&tok, blob, size, &err)) {
        assert_true(err.text[0] != '\0');
        return;
    }
    if (sp_tokenizer_encode(tok, prose, strlen(prose), ALL, &ids, &n, NULL) == SP_OK) {
        for (size_t i = 0; i < n; i++)
            assert_true(ids[i] < sp_tokenizer_n_ids(tok));
        if (sp_tokenizer_decode(tok, ids, n, false, &text, &len, NULL) == SP_OK) free(text);
        free(ids);
    }
    sp_tokenizer_close(tok);
}

TEST(damaged)
{
    struct tokenizer_case t;

    open_tiny(&t);
    for (size_t i = 0; i < 600; i++) { /* header, counts, first offsets */
        for (int bit = 0; bit < 8; bit++) {
            t.blob[i] ^= (uint8_t)(1 << bit);
            use(t.blob, t.blob_size);
            t.blob[i] ^= (uint8_t)(1 << bit);
        }
    }
    for (size_t i = 600; i < t.blob_size; i += 97) {
        uint8_t old = t.blob[i];
        t.blob[i] = (uint8_t)(i * 31);
        use(t.blob, t.blob_size);
        t.blob[i] = old;
    }
    for (size_t size = 0; size < t.blob_size; size += 1009)
        use(t.blob, size);
}
