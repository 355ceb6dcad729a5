/* Tests how sentence-transformers' files become the pooling section: what they may say, and what is
 * refused, each with its message. */
#include "convert/source/pooling_files.h"
#include "format/base/mem.h"
#include "format/config/pooling.h"
#include "tests/support/create_files.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <sys/stat.h>

static void write_file(const char *folder, const char *name, const char *text)
{
    FILE *f = fopen(keep_format("%s/%s", folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* A member of a line as the text of a file: "[" stands for itself. */
static const char *text_of(const struct sp_json *line, const char *name)
{
    const struct sp_json *value = sp_json_get(line, name);
    const char *text = sp_json_get_text(line, name);

    return text ? text : value ? keep_printed(value) : "{}";
}

/* Reads the files, and returns the record; kept. */
static const char *read_files(const char *folder, const struct sp_json *line)
{
    struct sp_pooling_config config = {0}, again = {0};
    const char *message = sp_json_get_text(line, "message");
    struct sp_text record;
    int64_t status;

    write_file(folder, "modules.json", text_of(line, "modules"));
    write_file(folder, "p/config.json", text_of(line, "pooling"));
    write_file(folder, "d/config.json", text_of(line, "dense"));
    write_file(folder, "config_sentence_transformers.json", text_of(line, "prompts"));
    if (sp_json_has(line, "transformer"))
        write_file(folder, "sentence_bert_config.json", text_of(line, "transformer"));
    if (sp_json_has(line, "tokenizer"))
        write_file(folder, "tokenizer.json", text_of(line, "tokenizer"));
    assert_true(sp_json_to_i64(sp_json_get(line, "status"), &status));
    assert_fails(sp_pooling_files_read(&record, &config, folder, 8, 512, why), status,
                 message ? message : "");
    if (status) {
        assert_null(record.at);
        return NULL;
    }
    assert_ok(sp_pooling_read(&again, NULL, &record, 8, why));
    assert_memory_equal(&again, &config, sizeof config);
    return keep(record.at);
}

/* The files of pooling.jsonl with their record, or a part of the message; then records that no
 * `create` writes. */
TEST(files_and_records)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/embeddings/pooling.jsonl");
    const char *folder = create_path("st");
    struct sp_pooling_config config;
    size_t n = 0;

    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(mkdir(keep_format("%s/p", folder), 0777), 0);
    assert_int_equal(mkdir(keep_format("%s/d", folder), 0777), 0);
    for (; line[n]; n++) {
        const struct sp_text record = whole_text(text_of(line[n], "record"));
        if (sp_json_has(line[n], "modules")) {
            const char *made = read_files(folder, line[n]);
            if (made) assert_string_equal(made, record.at);
        } else {
            assert_fails(sp_pooling_read(&config, NULL, &record, 8, why), SP_E_INPUT,
                         sp_json_get_text(line[n], "message"));
        }
    }
    assert_int_equal(n, 55);
}

/* A packed file keeps the section when it is quantized or packed again, and a draft has none. */
TEST(kept)
{
    const char *first = create_path("first.bin"), *second = create_path("second.bin");
    struct sp_pack *packs[2];
    struct sp_text texts[2];

    create_pack(create_modelfile("FROM " TESTDATA "/embeddings/gemma3\n"), first, SP_DTYPE_NONE,
                SP_DTYPE_NONE, 1);
    create_requantize(first, second, SP_Q8, SP_DTYPE_NONE);
    for (size_t i = 0; i < 2; i++) {
        packs[i] = create_open(i ? second : first);
        assert_ok(
            sp_pack_read_section(packs[i], SP_PART_TARGET, SP_SECTION_POOLING, &texts[i], NULL));
        assert_non_null(sp_pack_find(packs[i], SP_PART_TARGET, "dense.1.weight"));
    }
    assert_string_equal(texts[0].at, texts[1].at);
    for (size_t i = 0; i < 2; i++)
        free(texts[i].at);
    create_pack(create_modelfile("FROM " TESTDATA "/embeddings/qwen3\nDRAFT " TESTDATA
                                 "/embeddings/qwen3\n"),
                second, SP_DTYPE_NONE, SP_DTYPE_NONE, 1);
    packs[0] = create_open(second);
    assert_null(sp_pack_find_section(packs[0], SP_PART_DRAFT, SP_SECTION_POOLING));
}

TEST_FIXTURE(create_setup, create_teardown);
