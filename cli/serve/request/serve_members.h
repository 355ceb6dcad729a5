/* The members that requests to each endpoint may have.
 *
 * Members that no handler reads are removed from a request, so that they take no memory while it
 * waits and is answered; those that the endpoint does not know are reported to the client. */
#ifndef SP_CLI_SERVE_REQUEST_SERVE_MEMBERS_H
#define SP_CLI_SERVE_REQUEST_SERVE_MEMBERS_H

#include "format/base/json.h"

enum { SP_SERVE_IGNORED_TEXT = 256 };

/* Names have blanks between them. Every endpoint has also `model`, `name` and `keep_alive`. */
struct sp_serve_members {
    const char *names; /* members that are read or refused */
    const char *hints; /* members that concern no answer of this server; NULL: none */
    bool sampling;     /* the settings of sampling and drafting are read, too */
    bool has_options;  /* `options` is an object of ollama's API, with settings */
};

/* One for each endpoint. */
extern const struct sp_serve_members sp_serve_chat_members, sp_serve_completion_members,
    sp_serve_responses_members, sp_serve_anthropic_members, sp_serve_ollama_chat_members,
    sp_serve_ollama_generate_members, sp_serve_ollama_show_members, sp_serve_infill_members,
    sp_serve_embeddings_members, sp_serve_ollama_embed_members, sp_serve_rerank_members,
    sp_serve_tokenize_members, sp_serve_detokenize_members;

/* Removes the members that are not read from the body of a request. Writes the names of those that
 * are neither known nor null to `ignored`, with ", " between: bytes that a header cannot have
 * become '?', and what does not fit is replaced by "...". Empty: there are none. */
void sp_serve_members_keep(struct sp_json *body, const struct sp_serve_members *members,
                           char ignored[SP_SERVE_IGNORED_TEXT]);

#endif
