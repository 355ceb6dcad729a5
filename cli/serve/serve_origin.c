/* Decides which requests are accepted: a page in a browser may send requests to this machine on
 * behalf of its user. */
#include "cli/serve/serve_origin.h"
#include "cli/serve/jobs/serve.h"

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

bool sp_serve_is_cross_origin(const struct sp_serve *s, const struct sp_http_request *q)
{
    const char *host;

    if (q->loopback && q->host != NULL && !is_local(s, q->host)) return true;
    if (q->origin == NULL) return false;
    if (s->cors != NULL && (strcmp(s->cors, "*") == 0 || strcmp(s->cors, q->origin) == 0))
        return false;
    host = strstr(q->origin, "://");
    return host == NULL || q->host == NULL || strcmp(host + 3, q->host) != 0;
}
