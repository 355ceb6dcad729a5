#include "cli/bench/bench.h"

const size_t sp_bench_row_counts[SP_BENCH_ROW_COUNTS] = {1, 2, 4, 8, 12, SP_BENCH_MAX_ROWS};

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
