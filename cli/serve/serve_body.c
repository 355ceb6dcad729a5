#include "cli/serve/serve_body.h"
#include "cli/serve/jobs/serve_job.h"

/* The most memory that the JSON of one request may take. */
static const size_t max_tree_bytes = (size_t)64 << 20;

/* The members of requests that the APIs read or write back. Others are dropped, so that they take
 * no memory while the request waits and is answered. */
static const char *const members[] = {"add_special",
                                      "audio",
                                      "background",
                                      "best_of",
                                      "chat_template_kwargs",
                                      "compaction",
                                      "container",
                                      "content",
                                      "context",
                                      "context_management",
                                      "continue_final_message",
                                      "conversation",
                                      "dimensions",
                                      "documents",
                                      "draft_num_predict",
                                      "dry_allowed_length",
                                      "dry_base",
                                      "dry_multiplier",
                                      "dry_penalty_last_n",
                                      "dry_sequence_breakers",
                                      "echo",
                                      "encoding_format",
                                      "fallbacks",
                                      "format",
                                      "frequency_penalty",
                                      "function_call",
                                      "functions",
                                      "grammar",
                                      "images",
                                      "include",
                                      "input",
                                      "input_extra",
                                      "input_prefix",
                                      "input_suffix",
                                      "instruction",
                                      "instructions",
                                      "json_schema",
                                      "keep_alive",
                                      "logit_bias",
                                      "logprobs",
                                      "max_completion_tokens",
                                      "max_output_tokens",
                                      "max_tokens",
                                      "max_tool_calls",
                                      "mcp_servers",
                                      "messages",
                                      "metadata",
                                      "min_p",
                                      "modalities",
                                      "model",
                                      "moderation",
                                      "n",
                                      "n_predict",
                                      "name",
                                      "options",
                                      "output_config",
                                      "output_format",
                                      "add_generation_prompt",
                                      "parallel_tool_calls",
                                      "parse_special",
                                      "presence_penalty",
                                      "previous_response_id",
                                      "prompt",
                                      "prompt_cache_key",
                                      "prompt_name",
                                      "query",
                                      "raw",
                                      "reasoning",
                                      "reasoning_effort",
                                      "repeat_last_n",
                                      "repeat_penalty",
                                      "response_format",
                                      "return_documents",
                                      "safety_identifier",
                                      "seed",
                                      "stop",
                                      "stop_sequences",
                                      "store",
                                      "stream",
                                      "stream_options",
                                      "suffix",
                                      "system",
                                      "temperature",
                                      "template",
                                      "text",
                                      "think",
                                      "thinking",
                                      "thinking_budget_tokens",
                                      "thinking_token_budget",
                                      "thread",
                                      "tokens",
                                      "tool_choice",
                                      "tools",
                                      "top_k",
                                      "top_logprobs",
                                      "top_n",
                                      "top_n_sigma",
                                      "top_p",
                                      "truncate",
                                      "truncation",
                                      "typical_p",
                                      "user",
                                      "web_search_options",
                                      "with_pieces",
                                      "xtc_probability",
                                      "xtc_threshold",
                                      NULL};

static int refuse(struct sp_err *err)
{
    (void)!sp_fail(err, SP_E_NOMEM,
                   "the requests that are waiting take too much memory, try again later");
    return 503;
}

/* A request takes the memory of its JSON twice: the messages are converted for the chat template.
 */
static bool take(struct sp_serve_body *body, size_t size)
{
    if (!sp_serve_budget_take(body->budget, 2 * size)) return false;
    body->n_charged = 2 * size;
    return true;
}

int sp_serve_body_read(struct sp_serve_body *out, struct sp_serve_budget *budget, const char *text,
                       size_t size, struct sp_err *err)
{
    struct sp_serve_body body = {.budget = budget};
    size_t before = 0, n;
    enum sp_status st;

    if ((st = sp_json_measure(&before, text, size, SP_JSON_STRICT, max_tree_bytes, err)))
        return sp_serve_status_of(st);
    if (!take(&body, before)) return refuse(err);
    if ((st = sp_json_parse(&body.json, text, size, SP_JSON_STRICT, err))) {
        sp_serve_body_release(&body);
        return sp_serve_status_of(st);
    }
    if (sp_json_kind(body.json) != SP_JSON_OBJECT) {
        sp_serve_body_release(&body);
        (void)!sp_fail(err, SP_E_INPUT, "the request body is not a JSON object");
        return 400;
    }
    sp_json_keep(body.json, members);
    n = 2 * sp_json_tree_bytes(body.json);
    if (n < body.n_charged) {
        sp_serve_budget_give(budget, body.n_charged - n);
        body.n_charged = n;
    }
    *out = body;
    return 0;
}

void sp_serve_body_release(struct sp_serve_body *body)
{
    sp_json_free(body->json);
    if (body->n_charged) sp_serve_budget_give(body->budget, body->n_charged);
    *body = (struct sp_serve_body){0};
}
