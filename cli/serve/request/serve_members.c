#include "cli/serve/request/serve_members.h"
#include "cli/chat/request_settings.h"

#include <stdio.h>
#include <string.h>

const struct sp_serve_members sp_serve_chat_members = {
    .names = "messages stream stream_options max_tokens max_completion_tokens logit_bias n stop "
             "logprobs top_logprobs response_format grammar json_schema tools tool_choice "
             "parallel_tool_calls reasoning_effort thinking_budget_tokens thinking_token_budget "
             "chat_template_kwargs continue_final_message add_generation_prompt "
             "dry_sequence_breakers functions function_call modalities audio web_search_options "
             "lora",
    .hints = "cache_prompt metadata prediction prompt_cache_key prompt_cache_retention "
             "safety_identifier service_tier store user",
    .sampling = true,
};

const struct sp_serve_members sp_serve_completion_members = {
    .names =
        "prompt stream stream_options max_tokens max_completion_tokens logit_bias n stop "
        "logprobs echo suffix best_of response_format grammar json_schema dry_sequence_breakers "
        "lora",
    .hints = "cache_prompt user",
    .sampling = true,
};

const struct sp_serve_members sp_serve_responses_members = {
    .names = "input instructions stream max_output_tokens top_logprobs text reasoning tools "
             "tool_choice parallel_tool_calls include chat_template_kwargs dry_sequence_breakers "
             "continue_final_message add_generation_prompt previous_response_id conversation store "
             "prompt background truncation context_management moderation max_tool_calls metadata "
             "prompt_cache_key safety_identifier user",
    .hints = "prompt_cache_retention service_tier stream_options",
    .sampling = true,
};

const struct sp_serve_members sp_serve_anthropic_members = {
    .names = "messages system stream max_tokens temperature top_p top_k seed stop_sequences tools "
             "tool_choice thinking output_config output_format context_management mcp_servers "
             "container compaction fallbacks thread continue_final_message add_generation_prompt",
    .hints = "cache_control inference_geo metadata service_tier speed",
};

const struct sp_serve_members sp_serve_ollama_chat_members = {
    .names = "messages stream options format think tools continue_final_message "
             "add_generation_prompt images context logprobs top_logprobs",
    .has_options = true,
};

const struct sp_serve_members sp_serve_ollama_generate_members = {
    .names =
        "prompt suffix system template raw stream options format think images context logprobs "
        "top_logprobs",
    .has_options = true,
};

const struct sp_serve_members sp_serve_ollama_show_members = {
    .names = "",
    .hints = "verbose",
};

const struct sp_serve_members sp_serve_infill_members = {
    .names = "input_prefix input_suffix input_extra prompt n_predict stop stream "
             "dry_sequence_breakers lora",
    .hints = "cache_prompt",
    .sampling = true,
};

const struct sp_serve_members sp_serve_embeddings_members = {
    .names = "input dimensions encoding_format prompt_name",
    .hints = "user",
};

const struct sp_serve_members sp_serve_ollama_embed_members = {
    .names = "input prompt truncate dimensions prompt_name",
    .hints = "options",
};

const struct sp_serve_members sp_serve_rerank_members = {
    .names = "query documents top_n return_documents instruction truncate",
};

const struct sp_serve_members sp_serve_tokenize_members = {
    .names = "content add_special parse_special with_pieces",
};

const struct sp_serve_members sp_serve_detokenize_members = {
    .names = "tokens",
};

/* Members of `options` in ollama's API. Those that configure its server are known, since its
 * clients send them by default. */
static const char options[] =
    "num_predict reasoning_budget stop dry_sequence_breakers num_ctx num_batch num_gpu num_keep "
    "num_thread main_gpu low_vram numa use_mmap use_mlock";

/* True if the name is one of the words. */
static bool is_among(const char *words, const char *name)
{
    size_t len = strlen(name), n;

    for (; words && *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (n == len && strncmp(words, name, n) == 0) return true;
    }
    return false;
}

static bool is_sampling(const char *name)
{
    for (const struct sp_request_setting *s = sp_request_sampling_settings; s->key; s++)
        if (strcmp(s->key, name) == 0) return true;
    return false;
}

/* What is known of the members, and the text with the names of the others. */
struct check {
    const struct sp_serve_members *members;
    char *text; /* [SP_SERVE_IGNORED_TEXT] */
    size_t len; /* SP_SERVE_IGNORED_TEXT: no more fits */
};

static void report(struct check *c, const char *prefix, const char *name)
{
    static const char more[] = ", ...";
    const char *separator = c->len ? ", " : "";
    size_t left = SP_SERVE_IGNORED_TEXT - c->len;
    size_t want = strlen(separator) + strlen(prefix) + strlen(name);

    if (left == 0) return;
    if (want + sizeof more > left) {
        snprintf(c->text + c->len, left, "%s", c->len ? more : more + 2);
        c->len = SP_SERVE_IGNORED_TEXT;
        return;
    }
    c->len += (size_t)snprintf(c->text + c->len, left, "%s%s%s", separator, prefix, name);
}

static void check_options(struct check *c, const struct sp_json *object)
{
    struct sp_json_iter it = {0};

    while (sp_json_next(object, &it))
        if (it.value && !is_among(options, it.key) && !is_sampling(it.key))
            report(c, "options.", it.key);
}

static bool keeps(void *context, const char *key, const struct sp_json *value)
{
    struct check *c = context;
    const struct sp_serve_members *m = c->members;

    if (m->has_options && strcmp(key, "options") == 0) check_options(c, value);
    if (is_among("model name keep_alive", key) || is_among(m->names, key) ||
        (m->sampling && is_sampling(key)))
        return true;
    if (value != NULL && !is_among(m->hints, key)) report(c, "", key);
    return false;
}

void sp_serve_members_keep(struct sp_json *body, const struct sp_serve_members *members,
                           char ignored[SP_SERVE_IGNORED_TEXT])
{
    struct check c = {.members = members, .text = ignored};

    *ignored = '\0';
    sp_json_keep(body, keeps, &c);
    for (; *ignored; ignored++)
        if (*ignored < 0x20 || *ignored > 0x7E) *ignored = '?';
}
