/* Fuzzes the files beside a classification head: the first byte chooses whether the input is
 * config.json, tokenizer.json or the configuration of sentence-transformers. A head that is read
 * has a record that is read as the same. */
#include "convert/source/pooling_files.h"
#include "format/config/pooling.h"
#include "tests/support/scratch.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const files[] = {NULL, "tokenizer.json", "tokenizer_config.json",
                                        "config_sentence_transformers.json"};
    static const char *const families[] = {"bert", "modernbert", "xlm-roberta", "qwen3"};
    static const char own[] = "{\"id2label\": {\"0\": \"A\"}}", empty[] = "{}";
    static bool opened;
    struct sp_config config = {.n_hidden = 16, .max_positions = 64, .n_token_types = 2};
    struct sp_pooling_config head, again;
    struct sp_err err = {0};
    struct sp_text json = {(char *)(uintptr_t)own, sizeof own - 1}, record = {0};

    if (size == 0) return 0;
    if (!opened && atexit(scratch_remove)) abort();
    opened = true;
    const char *family = families[data[0] >> 2 & 3];
    const char *file = files[data[0] & 3];
    memcpy(config.family, family, strlen(family) + 1);
    memcpy(config.architecture, "XForSequenceClassification", 27);
    scratch_write("tokenizer.json", empty, sizeof empty - 1);
    if (file)
        scratch_write(file, data + 1, size - 1);
    else
        json = (struct sp_text){(char *)(uintptr_t)data + 1, size - 1};
    if (sp_classifier_head_read(&record, &head, scratch_folder(), NULL, &config, &json, &err)) {
        if (err.text[0] == '\0' || record.at) abort();
    } else if (sp_pooling_read(&again, NULL, &record, config.n_hidden, &err) ||
               memcmp(&head, &again, sizeof head) != 0) {
        abort();
    }
    free(record.at);
    if (file) unlink(scratch_path(file));
    return 0;
}
