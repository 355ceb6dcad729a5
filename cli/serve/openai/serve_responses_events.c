/* Writes a response as a stream of numbered, named events.
 *
 * An item starts with its first part and ends when another item starts or the answer ends, since
 * until then more text of it may arrive. A call that arrives whole ends at once. */
#include "cli/serve/openai/serve_responses_events.h"
#include "cli/serve/jobs/serve_job.h"
#include "cli/serve/openai/serve_openai_out.h"
#include "cli/serve/openai/serve_responses_out.h"

#include <string.h>

/* Begins an event, whose members the caller writes; end_event ends it. */
static struct sp_json_out *begin_event(struct sp_serve_response *r, const char *type)
{
    sp_json_out_raw(&r->out, "event: ");
    sp_json_out_raw(&r->out, type);
    sp_json_out_raw(&r->out, "\ndata: ");
    r->out.comma = false;
    sp_json_out_begin(&r->out, NULL, '{');
    sp_json_out_text(&r->out, "type", type);
    sp_json_out_u64(&r->out, "sequence_number", r->n_events++);
    return &r->out;
}

static void end_event(struct sp_serve_response *r)
{
    sp_json_out_end(&r->out, '}');
    sp_json_out_raw(&r->out, "\n\n");
}

/* Writes an event that contains the whole response. */
static void write_response_event(struct sp_serve_response *r, const char *type,
                                 const struct sp_result *result, const char *sentence)
{
    begin_event(r, type);
    sp_serve_responses_write(r, "response", result, sentence);
    end_event(r);
}

/* Writes an event that contains an item. */
static void write_item_event(struct sp_serve_response *r, const char *type, size_t part,
                             const char *status, bool partial)
{
    sp_json_out_u64(begin_event(r, type), "output_index", part);
    sp_serve_responses_write_item(r, "item", part, status, partial);
    end_event(r);
}

/* The names of the events of a part, and of the index of its only content; NULL for calls, which
 * have no contents. */
struct names {
    const char *delta, *done, *text; /* text: the member that holds the text in the `done` event */
    const char *added, *part_done, *index; /* events and index of the content */
};

static const struct names *names_of(const struct sp_serve_response *r, size_t part)
{
    static const struct names call = {.delta = "response.function_call_arguments.delta",
                                      .done = "response.function_call_arguments.done",
                                      .text = "arguments"},
                              content = {.delta = "response.output_text.delta",
                                         .done = "response.output_text.done",
                                         .text = "text",
                                         .added = "response.content_part.added",
                                         .part_done = "response.content_part.done",
                                         .index = "content_index"},
                              reasoning = {.delta = "response.reasoning_text.delta",
                                           .done = "response.reasoning_text.done",
                                           .text = "text",
                                           .added = "response.content_part.added",
                                           .part_done = "response.content_part.done",
                                           .index = "content_index"},
                              summary = {.delta = "response.reasoning_summary_text.delta",
                                         .done = "response.reasoning_summary_text.done",
                                         .text = "text",
                                         .added = "response.reasoning_summary_part.added",
                                         .part_done = "response.reasoning_summary_part.done",
                                         .index = "summary_index"};

    switch (r->message->segments[part].kind) {
    case SP_CHAT_TOOL_CALL:
        return &call;
    case SP_CHAT_REASONING:
        return sp_serve_responses_wants_summary(r) ? &summary : &reasoning;
    default:
        return &content;
    }
}

/* Begins an event of the contents of an item. */
static struct sp_json_out *begin_part_event(struct sp_serve_response *r, const char *type,
                                            size_t part)
{
    struct sp_json_out *out = begin_event(r, type);
    const char *index = names_of(r, part)->index;
    char id[SP_RESPONSES_ID_SIZE];

    sp_json_out_text(out, "item_id", sp_serve_responses_id(id, r, part));
    sp_json_out_u64(out, "output_index", part);
    if (index != NULL) sp_json_out_u64(out, index, 0);
    return out;
}

static void write_content_event(struct sp_serve_response *r, const char *type, size_t part,
                                bool partial)
{
    begin_part_event(r, type, part);
    sp_serve_responses_write_content(r, "part", part, partial);
    end_event(r);
}

static void begin_part(struct sp_serve_response *r, size_t part)
{
    const char *added = names_of(r, part)->added;

    write_item_event(r, "response.output_item.added", part, "in_progress", true);
    if (added != NULL) write_content_event(r, added, part, true);
    r->n_started = part + 1;
    r->is_open = true;
}

static void write_delta_event(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    size_t part = r->message->n_segments - 1;

    sp_json_out_string(begin_part_event(r, names_of(r, part)->delta, part), "delta", p->text,
                       p->size);
    if (p->kind == SP_CHAT_CONTENT) {
        sp_json_out_begin(&r->out, "logprobs", '[');
        sp_serve_logprobs_write(r, r->tokens, r->n_tokens);
        sp_json_out_end(&r->out, ']');
    }
    end_event(r);
}

/* Ends the last part that was started. */
static void end_part(struct sp_serve_response *r, const char *status)
{
    size_t part = r->n_started - 1, size;
    const struct names *names;
    const char *text;

    if (!r->is_open) return;
    names = names_of(r, part);
    text = sp_serve_responses_text(&size, r, part);
    sp_json_out_string(begin_part_event(r, names->done, part), names->text, text, size);
    if (r->message->segments[part].kind == SP_CHAT_CONTENT)
        sp_serve_responses_write_logprobs(r, part);
    if (r->message->segments[part].kind == SP_CHAT_TOOL_CALL)
        sp_json_out_text(&r->out, "name", r->message->calls[r->message->segments[part].at].name);
    end_event(r);
    if (names->part_done != NULL) write_content_event(r, names->part_done, part, false);
    write_item_event(r, "response.output_item.done", part, status, false);
    r->is_open = false;
}

void sp_serve_responses_begin(struct sp_serve_response *r)
{
    write_response_event(r, "response.created", NULL, NULL);
    write_response_event(r, "response.in_progress", NULL, NULL);
}

/* Sends an event to keep the connection alive, since clients close a stream that is silent for
 * long. */
void sp_serve_responses_keep_alive(struct sp_serve_response *r)
{
    write_response_event(r, "response.in_progress", NULL, NULL);
}

void sp_serve_responses_part(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    if (r->message->n_segments > r->n_started) {
        end_part(r, "completed");
        begin_part(r, r->message->n_segments - 1);
    }
    if (p->kind != SP_CHAT_TOOL_CALL_START) write_delta_event(r, p);
    if (p->kind == SP_CHAT_TOOL_CALL) end_part(r, "completed");
}

void sp_serve_responses_end(struct sp_serve_response *r, const struct sp_result *result)
{
    bool cut = sp_serve_is_truncated(result);

    end_part(r, cut ? "incomplete" : "completed");
    write_response_event(r, cut ? "response.incomplete" : "response.completed", result, NULL);
}

void sp_serve_responses_fail_stream(struct sp_serve_response *r,
                                    const struct sp_serve_failure *failure)
{
    write_response_event(r, "response.failed", NULL, failure->sentence);
}
