#include "cli/chat/prompt.h"

#include <string.h>

enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package, const char *text,
                             size_t size, bool first, struct sp_err *err)
{
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (first ? SP_ENCODE_ADD_SPECIAL : 0);

    return sp_tokenizer_encode(sp_package_tokenizer(package), text, size, flags, &ids->at, &ids->n,
                               err);
}

size_t sp_prompt_stop_ids(uint32_t ids[SP_MAX_STOPS], const struct sp_package *package,
                          const struct sp_settings *settings)
{
    const struct sp_tokenizer *tokenizer = sp_package_tokenizer(package);
    size_t n = 0, size;

    for (size_t i = 0; tokenizer && i < settings->stops.n; i++) {
        const char *stop = settings->stops.at[i];
        if (sp_tokenizer_leading_special(tokenizer, stop, &ids[n], &size))
            n += size == strlen(stop);
    }
    return n;
}

void sp_prompt_limit_reasoning(struct sp_chat_request *request, const struct sp_settings *settings)
{
    request->limit_reasoning = settings->reasoning_budget >= 0;
    if (request->limit_reasoning)
        request->max_reasoning_tokens = (size_t)settings->reasoning_budget;
}
