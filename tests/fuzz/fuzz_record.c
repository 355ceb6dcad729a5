/* Fuzzes the lines of a record of answers (`replay`): a line is refused with a message, or has what
 * a replay needs. */
#include "cli/chat/loaded_model.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static void check(const struct sp_record_line *line)
{
    const struct sp_sampling *s = &line->sampling;

    if (line->n_prompt == 0 || line->n_ids == 0 || line->kv_type == NULL) abort();
    if (line->n_context < 1 || line->n_context > INT32_MAX || !isfinite(line->lora_scale)) abort();
    for (size_t i = 0; i < s->n_biases; i++)
        if (isnan(s->biases[i].bias)) abort();
    for (size_t i = 0; i < s->n_dry_breakers; i++)
        if (strlen(s->dry_breakers[i]) > SIZE_MAX / 2) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_record_line line = {0};
    struct sp_err err = {0};
    char *text = malloc(size + 1); /* the reader must not read beyond `size` */

    if (text == NULL) abort();
    if (size) memcpy(text, data, size);
    enum sp_status st = sp_record_line_read(&line, text, size, &err);
    free(text);
    if ((st == SP_OK) != (err.text[0] == 0)) abort();
    if (st == SP_OK) check(&line);
    sp_record_line_release(&line);
    return 0;
}
