#include "cli/bench/bench.h"
#include "cli/base/word_wrap.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const size_t sp_bench_row_counts[SP_BENCH_ROW_COUNTS] = {1, 2, 4, 8, 12, SP_BENCH_MAX_ROWS};

static enum sp_status read_draft_len(int *draft_len, const char *word, size_t len,
                                     struct sp_err *err)
{
    char text[SP_BENCH_DRAFT_LEN_TEXT] = "", *end;
    long n;

    if (len < sizeof text) memcpy(text, word, len);
    if (strcasecmp(text, "auto") == 0) {
        *draft_len = SP_DRAFT_LENGTH_AUTO;
        return SP_OK;
    }
    n = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || n > SP_BENCH_MOST_DRAFT) {
        return sp_fail(err, SP_E_USAGE, "--draft-depth: '%.*s', expected 0..%d or auto", (int)len,
                       word, SP_BENCH_MOST_DRAFT);
    }
    *draft_len = (int)n;
    return SP_OK;
}

/* Orders draft lengths ascending, with auto as the last. */
static int compare_draft_lens(const void *left, const void *right)
{
    unsigned a = (unsigned)*(const int *)left, b = (unsigned)*(const int *)right;

    return (a > b) - (a < b);
}

/* Limits the draft lengths to the draft's maximum and removes duplicates. */
static void limit_draft_lens(struct sp_bench *b)
{
    int max = (int)b->info.max_draft_len;
    size_t n = 0;
    bool limited = false;

    for (size_t i = 0; i < b->n_draft_lens; i++) {
        int draft_len = b->draft_lens[i];
        if (draft_len > max) {
            limited = true;
            draft_len = max;
        }
        if (n == 0 || b->draft_lens[n - 1] != draft_len) b->draft_lens[n++] = draft_len;
    }
    b->n_draft_lens = n;
    if (limited) {
        char text[80];
        snprintf(text, sizeof text,
                 "the draft proposes at most %d tokens; larger values have the same effect", max);
        sp_note("bench", text);
    }
}

enum sp_status sp_bench_read_draft_lens(struct sp_bench *b, struct sp_err *err)
{
    const char *at = b->options->draft_lens ? b->options->draft_lens : "auto";
    size_t n = 0;
    enum sp_status st;

    for (;; at++) {
        size_t len = strcspn(at, ",");
        if (n == SP_BENCH_MAX_DRAFT_LENS) {
            return sp_fail(err, SP_E_USAGE, "--draft-depth: expected at most %d values",
                           SP_BENCH_MAX_DRAFT_LENS);
        }
        if ((st = read_draft_len(&b->draft_lens[n++], at, len, err))) return st;
        at += len;
        if (*at == '\0') break;
    }
    if (b->info.draft == NULL) return SP_OK;
    qsort(b->draft_lens, n, sizeof *b->draft_lens, compare_draft_lens);
    b->n_draft_lens = n;
    if (n > 1) limit_draft_lens(b);
    if (b->n_draft_lens == 1 && b->draft_lens[0] == 0) b->n_draft_lens = 0;
    return SP_OK;
}

const struct sp_bench_runs *sp_bench_runs_of(const struct sp_bench_prompt *p, size_t which)
{
    return which == SP_BENCH_PLAIN ? &p->plain : &p->drafted[which];
}

const char *sp_bench_draft_len_name(char text[SP_BENCH_DRAFT_LEN_TEXT], const struct sp_bench *b,
                                    size_t which)
{
    if (which == SP_BENCH_PLAIN) return strcpy(text, "plain");
    if (b->draft_lens[which] == SP_DRAFT_LENGTH_AUTO) return strcpy(text, "auto");
    snprintf(text, SP_BENCH_DRAFT_LEN_TEXT, "%d", b->draft_lens[which]);
    return text;
}

static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}

bool sp_bench_simulated(const struct sp_bench *bench)
{
    return bench->options->acceptance >= 0;
}

double sp_bench_prefill_rate(const struct sp_bench *bench)
{
    return quotient((double)bench->n_prefill, bench->prefill_seconds);
}

double sp_bench_bus_share(const struct sp_bench_depth *depth)
{
    return quotient((double)depth->read_size, depth->verify_seconds[0] * depth->bandwidth[0]);
}

double sp_bench_product_share(const struct sp_bench_depth *depth, size_t k)
{
    return quotient(depth->row_products * (double)sp_bench_row_counts[k],
                    depth->verify_seconds[k] * depth->products[k]);
}

double sp_bench_prefill_share(const struct sp_bench *bench)
{
    return quotient(bench->prefill_row_products * (double)bench->n_prefill,
                    bench->prefill_seconds * bench->prefill_products);
}

double sp_bench_plain_share(const struct sp_bench_prompt *prompt)
{
    return quotient((double)prompt->read_size * prompt->plain.rate, prompt->bandwidth);
}

double sp_bench_speed_up(const struct sp_bench_runs *drafted, const struct sp_bench_runs *plain)
{
    return quotient(drafted->rate, plain->rate);
}

double sp_bench_acceptance(const struct sp_bench_runs *runs)
{
    return quotient((double)runs->accepted, (double)runs->drafted);
}

double sp_bench_per_pass(const struct sp_bench_runs *runs)
{
    return quotient((double)runs->n_tokens, (double)runs->n_passes);
}

double sp_bench_draft_share(const struct sp_bench_runs *runs)
{
    return quotient(runs->draft_seconds, runs->seconds);
}

void sp_bench_release(struct sp_bench *bench)
{
    for (size_t i = 0; i < SP_BENCH_MAX_PROMPTS; i++)
        sp_ids_release(&bench->prompts[i].ids);
}

/* Round trips of a product's message and its answers, and bytes per second, of a tuned stack. */
const struct sp_bench_network sp_bench_networks[SP_BENCH_NETWORKS] = {
    {"10 Gbit/s, TCP", 60e-6, 1.1e9},
    {"25 Gbit/s, TCP", 30e-6, 2.8e9},
    {"100 Gbit/s, RDMA", 10e-6, 11e9},
};

static double transfer_seconds(const struct sp_bench_exchange *x, double round_trip,
                               double bandwidth)
{
    return x->messages * round_trip + (x->sent + x->received) / bandwidth;
}

double sp_bench_transfer_share(const struct sp_bench_exchange *x)
{
    return transfer_seconds(x, x->link.round_trip, x->link.bandwidth) / x->pass_seconds;
}

double sp_bench_predict(const struct sp_bench_exchange *x, unsigned n_ranks,
                        const struct sp_bench_network *network)
{
    double here = transfer_seconds(x, x->link.round_trip, x->link.bandwidth);
    double products = x->product_seconds > here ? x->product_seconds - here : 0;
    double rest = x->pass_seconds - x->product_seconds;
    double messages = network ? transfer_seconds(x, network->round_trip, network->bandwidth) : 0;

    return rest + products / n_ranks + messages;
}
