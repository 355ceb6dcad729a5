/* Decides which requests are accepted: a page in a browser may send requests to this machine on
 * behalf of its user. */
#include "cli/serve/handlers.h"

#include <string.h>
#include <strings.h>

/* True if the text is empty or a colon and a port. */
static bool is_port(const char *text)
{
    return *text == '\0' || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

/* True if `host` names this machine, with any port. */
static bool is_local(const struct sp_serve *s, const char *host)
{
    const char *const names[] = {"localhost", "127.0.0.1", "[::1]", s->host};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i]);
        bool bracket = strchr(names[i], ':') && *names[i] != '[' && *host == '[';
        const char *at = host + bracket;
        if (strncasecmp(at, names[i], len) != 0 || (bracket && at[len] != ']')) continue;
        if (is_port(at + len + bracket)) return true;
    }
    return false;
}

/* An origin has no path, and no character that a header or a pattern would have. */
static bool is_origin(const char *text, size_t size)
{
    const char *host = strstr(text, "://");
    size_t plain = 0;

    while (plain < size && text[plain] > ' ' && text[plain] < 127 && text[plain] != '*')
        plain++;
    if (size == 4 && strncmp(text, "null", size) == 0) return true; /* of pages without a host */
    return plain == size && host != NULL && host > text && host + 3 < text + size &&
           memchr(host + 3, '/', (size_t)(text + size - host - 3)) == NULL;
}

enum sp_status sp_serve_cors_check(const char *origins, struct sp_err *err)
{
    if (strcmp(origins, "*") == 0) return SP_OK;
    for (const char *at = origins;; at++) {
        size_t size = strcspn(at, ",");
        if (!is_origin(at, size)) {
            return sp_fail(err, SP_E_USAGE,
                           "--cors: \"%.*s\", expected * or origins such as http://localhost:3000, "
                           "with commas between them",
                           (int)(size < 200 ? size : 200), at);
        }
        at += size;
        if (*at == '\0') return SP_OK;
    }
}

const char *sp_serve_allowed_origin(const struct sp_serve *s, const struct sp_http_request *q)
{
    size_t size = q->origin ? strlen(q->origin) : 0;

    if (s->cors == NULL || strcmp(s->cors, "*") == 0) return s->cors;
    for (const char *at = s->cors; size > 0 && at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, q->origin, size) == 0 && strchr(",", at[size])) return q->origin;
    }
    return NULL;
}

/* True if --cors allows all origins, or one whose host is `host`, with any port. */
static bool is_allowed_host(const struct sp_serve *s, const char *host)
{
    if (s->cors == NULL || strcmp(s->cors, "*") == 0) return s->cors != NULL;
    for (const char *at = s->cors; (at = strstr(at, "://")) != NULL;) {
        size_t len;
        at += 3;
        len = strcspn(at, *at == '[' ? "]," : ":,");
        len += at[len] == ']';
        if (strncasecmp(at, host, len) == 0 && is_port(host + len)) return true;
    }
    return false;
}

const char *sp_serve_check_origin(const struct sp_serve *s, const struct sp_http_request *q)
{
    const char *host;

    if (q->loopback && q->host != NULL && !is_local(s, q->host) && !is_allowed_host(s, q->host))
        return "this Host is not allowed on a loopback address: start the server with --cors "
               "http://HOST, or let the proxy send Host: localhost";
    if (q->origin == NULL || sp_serve_allowed_origin(s, q) != NULL) return NULL;
    host = strstr(q->origin, "://");
    if (host != NULL && q->host != NULL && strcmp(host + 3, q->host) == 0) return NULL;
    return "this origin is not allowed, see --cors of spectool serve";
}
