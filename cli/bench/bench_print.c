/* Prints the figures of bench as tables, a row as soon as it is measured, or as JSON. */
#include "cli/bench/bench.h"
#include "cli/base/out.h"

static const double GIGA = 1e9;
enum { INDENT = 2 };

const size_t sp_bench_row_counts[SP_BENCH_ROW_COUNTS] = {1, 2, 4, 8, 12, SP_BENCH_MAX_ROWS};

static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}

bool sp_bench_simulated(const struct sp_bench *bench)
{
    return bench->options->acceptance >= 0;
}

static double prefill_rate(const struct sp_bench *bench)
{
    return quotient((double)bench->n_prefill, bench->prefill_seconds);
}

/* The fraction of the memory bandwidth that a pass of one row used: 0..1, or slightly more. */
static double bus_share(const struct sp_bench_depth *depth)
{
    return quotient((double)depth->read_size, depth->verify_seconds[0] * depth->bandwidth[0]);
}

/* The fraction of the multiply-adds in 8 bits that the CPU could do in the time of a pass of
 * sp_bench_row_counts[k] rows; 0: scalar kernels. */
static double product_share(const struct sp_bench_depth *depth, size_t k)
{
    return quotient(depth->row_products * (double)sp_bench_row_counts[k],
                    depth->verify_seconds[k] * depth->products[k]);
}

static double prefill_share(const struct sp_bench *bench)
{
    return quotient(bench->prefill_row_products * (double)bench->n_prefill,
                    bench->prefill_seconds * bench->prefill_products);
}

static double plain_share(const struct sp_bench_prompt *prompt)
{
    return quotient((double)prompt->read_size * prompt->plain.rate, prompt->bandwidth);
}

static double speed_up(const struct sp_bench_runs *drafted, const struct sp_bench_runs *plain)
{
    return quotient(drafted->rate, plain->rate);
}

static double acceptance(const struct sp_bench_runs *runs)
{
    return quotient((double)runs->accepted, (double)runs->drafted);
}

static double per_pass(const struct sp_bench_runs *runs)
{
    return quotient((double)runs->n_tokens, (double)runs->n_passes);
}

/* Joules per token. */
static double joules(const struct sp_bench_runs *runs)
{
    return quotient(runs->joules, (double)runs->n_tokens);
}

void sp_bench_release(struct sp_bench *bench)
{
    for (size_t i = 0; i < SP_BENCH_MAX_PROMPTS; i++)
        sp_ids_release(&bench->prompts[i].ids);
}

/* Round trips of a product's message and its answers, and bytes per second, of a tuned stack. */
static const struct network {
    const char *name;
    double round_trip, bandwidth; /* seconds; bytes per second */
} networks[] = {
    {"10 Gbit/s, TCP", 60e-6, 1.1e9},
    {"25 Gbit/s, TCP", 30e-6, 2.8e9},
    {"100 Gbit/s, RDMA", 10e-6, 11e9},
};

enum { N_NETWORKS = sizeof networks / sizeof *networks };

static double transfer_seconds(const struct sp_bench_exchange *x, double round_trip,
                               double bandwidth)
{
    return x->messages * round_trip + (x->sent + x->received) / bandwidth;
}

/* The fraction of a pass that its messages take by the latency and bandwidth alone, without waiting
 * for a slower rank. */
static double transfer_share(const struct sp_bench_exchange *x)
{
    return transfer_seconds(x, x->link.round_trip, x->link.bandwidth) / x->pass_seconds;
}

/* The predicted seconds of a pass on n_ranks machines, each as fast as all ranks of this bench
 * together: products take 1/n_ranks of their time, and messages that of the network; the rest is
 * unchanged. NULL: one machine, no network. */
static double predict(const struct sp_bench_exchange *x, unsigned n_ranks,
                      const struct network *network)
{
    double here = transfer_seconds(x, x->link.round_trip, x->link.bandwidth);
    double products = x->product_seconds > here ? x->product_seconds - here : 0;
    double rest = x->pass_seconds - x->product_seconds;
    double messages = network ? transfer_seconds(x, network->round_trip, network->bandwidth) : 0;

    return rest + products / n_ranks + messages;
}

static void add_headings(struct sp_table *table, const char *const *headings)
{
    for (size_t i = 0; table->align[i]; i++)
        sp_table_add(table, "%s", headings[i]);
}

/* ---- forward passes ---- */

static void begin_passes(struct sp_table *table, const struct sp_bench *b, struct sp_err *err)
{
    static const char *const headings[] = {"depth",    "rows", "pass ms", "to one row",
                                           "bus GB/s", "used", "draft ms"};

    sp_word_wrap_print(
        stdout, 0,
        "Prompt processing, %zu tokens: %.1f tokens/s (bus %.1f GB/s, used %.0f%%)\n\n"
        "Forward passes of 1 to 16 rows (tokens) after `depth` tokens of context, "
        "logits of all rows:",
        b->n_prefill, prefill_rate(b), b->prefill_bandwidth / GIGA, 100 * prefill_share(b));
    /* Without a draft the last column would be empty, and the table too wide for 60 columns. */
    *table = (struct sp_table){
        .align = b->info.draft ? "rrrrrrr" : "rrrrrr", .widths = {6, 4, 8}, .err = err};
    add_headings(table, headings);
}

static void add_passes(struct sp_table *table, const struct sp_bench_depth *d)
{
    double one = d->verify_seconds[0];

    for (size_t k = 0; k < SP_BENCH_ROW_COUNTS; k++) {
        sp_table_add(table, "%zu", d->n_before);
        sp_table_add(table, "%zu", sp_bench_row_counts[k]);
        sp_table_add(table, "%.2f", d->verify_seconds[k] * 1e3);
        sp_table_add(table, "%.2fx", one > 0 ? d->verify_seconds[k] / one : 0);
        sp_table_add(table, "%.1f", d->bandwidth[k] / GIGA);
        sp_table_add(table, "%.0f%%", 100 * (k == 0 ? bus_share(d) : product_share(d, k)));
        if (table->align[6] == '\0') continue;
        if (d->draft_seconds[k] > 0)
            sp_table_add(table, "%.2f", d->draft_seconds[k] * 1e3);
        else
            sp_table_add(table, "-");
    }
}

/* Prints what a pass would take if each rank had a machine as fast as all of them have together. */
static enum sp_status print_predictions(const struct sp_bench *b, struct sp_err *err)
{
    static const char *const headings[] = {"network", "round trip us", "GB/s", "pass ms",
                                           "to one machine"};
    const struct sp_bench_exchange *x = &b->exchange;
    double alone = predict(x, 1, NULL);
    struct sp_table table = {.align = "lrrrr", .err = err};
    enum sp_status st;

    add_headings(&table, headings);
    for (size_t i = 0; i < N_NETWORKS; i++) {
        const struct network *net = &networks[i];
        double seconds = predict(x, b->info.n_ranks, net);
        sp_table_add(&table, "%s", net->name);
        sp_table_add(&table, "%.0f", net->round_trip * 1e6);
        sp_table_add(&table, "%.1f", net->bandwidth / GIGA);
        sp_table_add(&table, "%.2f", seconds * 1e3);
        sp_table_add(&table, "%.2fx", alone / seconds);
    }
    sp_word_wrap_print(
        stdout, 0, "\nPredicted for %u machines, each as fast as these ranks together (%.2f ms):",
        b->info.n_ranks, alone * 1e3);
    st = sp_table_print(stdout, &table, 2);
    sp_table_release(&table);
    return st;
}

static enum sp_status print_exchange(const struct sp_bench *b, struct sp_err *err)
{
    const struct sp_bench_exchange *x = &b->exchange;

    sp_word_wrap_print(
        stdout, 0,
        "\nExchange with the other ranks in a pass of one row: %.0f messages to each, "
        "%.1f kB sent, %.1f kB received; %.1f%% of the time, waiting for answers "
        "included, %.1f%% by latency (%.1f us both ways) and bandwidth (%.2f GB/s) alone",
        x->messages, x->sent / 1e3, x->received / 1e3, 100 * x->share, 100 * transfer_share(x),
        x->link.round_trip * 1e6, x->link.bandwidth / GIGA);
    if (b->info.n_ranks_here < b->info.n_ranks) return SP_OK; /* measured, not predicted */
    return print_predictions(b, err);
}

/* ---- generation ---- */

static void begin_prompts(struct sp_table *table, const struct sp_bench *b, struct sp_err *err)
{
    const char *const headings[] = {
        "#",        "prompt",   "plain",
        "bus GB/s", "used",     sp_bench_simulated(b) ? "SIMULATED" : "drafted",
        "speed-up", "accepted", "per pass"};

    sp_word_wrap_print(stdout, 0, "\n%s, %zu tokens after each prompt, in tokens/s:",
                       b->info.draft ? "Generation without (plain) and with drafting, interleaved"
                                     : "Generation without drafting",
                       b->options->n_predict);
    if (sp_bench_simulated(b)) {
        sp_word_wrap_print(stdout, 0,
                           "SIMULATION: each draft token is accepted with probability %g; the cost "
                           "is real, the text is not.",
                           b->options->acceptance);
    }
    *table = (struct sp_table){
        .align = b->info.draft ? "rrrrrrrrr" : "rrrrr", .widths = {2, 6, 6, 8, 4, 7}, .err = err};
    add_headings(table, headings);
}

static void add_prompt(struct sp_table *table, const struct sp_bench *b, size_t index)
{
    const struct sp_bench_prompt *p = &b->prompts[index];
    const struct sp_bench_runs *d = &p->drafted;

    sp_table_add(table, "%zu", index + 1);
    sp_table_add(table, "%zu", p->ids.n);
    sp_table_add(table, "%.1f", p->plain.rate);
    sp_table_add(table, "%.1f", p->bandwidth / GIGA);
    sp_table_add(table, "%.0f%%", 100 * plain_share(p));
    if (b->info.draft == NULL) return;
    sp_table_add(table, "%.1f", d->rate);
    sp_table_add(table, "%.2fx", speed_up(d, &p->plain));
    sp_table_add(table, "%.1f%%", 100 * acceptance(d));
    sp_table_add(table, "%.2f", per_pass(d));
}

/* Prints nothing where the machine does not tell. */
static void print_energy(const struct sp_bench *b)
{
    struct sp_bench_runs plain = {0}, drafted = {0};

    for (size_t i = 0; i < b->n_prompts; i++) {
        plain.joules += b->prompts[i].plain.joules;
        plain.n_tokens += b->prompts[i].plain.n_tokens;
        drafted.joules += b->prompts[i].drafted.joules;
        drafted.n_tokens += b->prompts[i].drafted.n_tokens;
    }
    if (plain.joules > 0) printf("Energy of the processors: %.3g J/token", joules(&plain));
    if (drafted.joules > 0) printf(", %.3g with drafting", joules(&drafted));
    if (plain.joules > 0) putchar('\n');
}

/* ---- all tables ---- */

static void print_title(const struct sp_bench *b)
{
    char ranks[32] = "";

    if (b->info.n_ranks > 1) snprintf(ranks, sizeof ranks, "%u ranks of ", b->info.n_ranks);
    sp_word_wrap_print(
        stdout, 0,
        "%s, %s%u thread%s, %s kernels, medians of %zu\nbus: memory bandwidth measured "
        "at that moment; used: fraction of it that a decoding step reads, and of the 8-bit "
        "multiplications that the CPU can do, in a prompt and in passes of several rows\n",
        b->name, ranks, b->info.n_threads, b->info.n_threads == 1 ? "" : "s", b->info.kernels,
        b->options->n_repeat);
}

enum sp_status sp_bench_print_step(struct sp_bench_printer *printer, enum sp_bench_step step,
                                   size_t index, struct sp_err *err)
{
    struct sp_table *table = &printer->table;
    const struct sp_bench *b = printer->bench;
    enum sp_status st = SP_OK;

    switch (step) {
    case SP_BENCH_OPENED:
        print_title(b);
        break;
    case SP_BENCH_PREFILL:
        begin_passes(table, b, err);
        break;
    case SP_BENCH_PASSES:
        add_passes(table, &b->depths[index]);
        break;
    case SP_BENCH_EXCHANGE:
        st = print_exchange(b, err);
        break;
    case SP_BENCH_PROMPT:
        if (index == 0) {
            sp_table_release(table);
            begin_prompts(table, b, err);
        }
        add_prompt(table, b, index);
        break;
    case SP_BENCH_COMPLETE:
        st = sp_table_print(stdout, table, INDENT);
        if (!st && b->info.draft && !sp_bench_simulated(b)) puts("Both generated the same tokens.");
        if (!st) print_energy(b);
        break;
    }
    if (st == SP_OK && table->align) st = sp_table_print(stdout, table, INDENT);
    fflush(stdout);
    return st;
}

/* ---- JSON ---- */

static void print_json_depth(struct sp_json_out *out, const struct sp_bench_depth *d)
{
    sp_json_out_put(out, "{depth:%zu, read_bytes:%zu, bandwidth_used:%g, passes:[", d->n_before,
                    (size_t)d->read_size, bus_share(d));
    for (size_t k = 0; k < SP_BENCH_ROW_COUNTS; k++) {
        sp_json_out_put(out,
                        "{rows:%zu, seconds:%g, draft_seconds:%g, bandwidth:%g, products_used:%g}",
                        sp_bench_row_counts[k], d->verify_seconds[k], d->draft_seconds[k],
                        d->bandwidth[k], product_share(d, k));
    }
    sp_json_out_put(out, "]}");
}

/* Writes an element of "draft_depths", of a prompt or of all prompts. */
static void print_json_prompt(struct sp_json_out *out, const struct sp_bench *b,
                              const struct sp_bench_prompt *p)
{
    const struct sp_bench_runs *d = &p->drafted;

    sp_json_out_put(out,
                    "{prompt_tokens:%zu, tokens:%zu, plain_rate:%g, read_bytes:%zu, bandwidth:%g, "
                    "bandwidth_used:%g",
                    p->ids.n, p->n_generated, p->plain.rate, (size_t)p->read_size, p->bandwidth,
                    plain_share(p));
    if (b->info.draft) sp_json_out_bool(out, "simulated", sp_bench_simulated(b));
    if (b->info.draft) {
        sp_json_out_put(out, "drafted_rate:%g, speed_up:%g, acceptance:%g, tokens_per_pass:%g",
                        d->rate, speed_up(d, &p->plain), acceptance(d), per_pass(d));
    }
    if (p->plain.joules > 0) sp_json_out_double(out, "plain_joules_per_token", joules(&p->plain));
    if (d->joules > 0) sp_json_out_double(out, "drafted_joules_per_token", joules(d));
    sp_json_out_end(out, '}');
}

static void print_json_predictions(struct sp_json_out *out, const struct sp_bench *b)
{
    const struct sp_bench_exchange *x = &b->exchange;

    sp_json_out_put(out,
                    "transfer_share:%g, round_trip_seconds:%g, bandwidth:%g, pass_seconds:%g, "
                    "product_seconds:%g",
                    transfer_share(x), x->link.round_trip, x->link.bandwidth, x->pass_seconds,
                    x->product_seconds);
    if (b->info.n_ranks_here < b->info.n_ranks) return;
    sp_json_out_put(out, "predicted_one_machine:%g, predicted:[", predict(x, 1, NULL));
    for (size_t i = 0; i < N_NETWORKS; i++) {
        const struct network *net = &networks[i];
        sp_json_out_put(out, "{network:%s, round_trip_seconds:%g, bandwidth:%g, pass_seconds:%g}",
                        net->name, net->round_trip, net->bandwidth,
                        predict(x, b->info.n_ranks, net));
    }
    sp_json_out_end(out, ']');
}

void sp_bench_print_json(const struct sp_bench *b)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_put(&out, "{file:%s, synthetic:%s", b->name, b->synthetic);
    if (b->n_layers) sp_json_out_u64(&out, "layers", b->n_layers);
    sp_json_out_put(&out, "ranks:%u, threads:%u, kernels:%s, draft:%s, repeat:%zu, simulated:%d",
                    b->info.n_ranks, b->info.n_threads, b->info.kernels, b->info.draft,
                    b->options->n_repeat, sp_bench_simulated(b));
    if (sp_bench_simulated(b))
        sp_json_out_double(&out, "simulated_acceptance", b->options->acceptance);
    sp_json_out_u64(&out, "prefill_tokens", b->n_prefill);
    sp_json_out_put(&out, "prefill_rate:%g, prefill_bandwidth:%g, prefill_products_used:%g",
                    prefill_rate(b), b->prefill_bandwidth, prefill_share(b));
    if (b->info.n_ranks > 1) {
        sp_json_out_put(&out, "exchange:{messages:%g, sent_bytes:%g, received_bytes:%g, share:%g",
                        b->exchange.messages, b->exchange.sent, b->exchange.received,
                        b->exchange.share);
        print_json_predictions(&out, b);
        sp_json_out_end(&out, '}');
    }
    sp_json_out_begin(&out, "depths", '[');
    for (size_t i = 0; i < b->n_depths; i++)
        print_json_depth(&out, &b->depths[i]);
    sp_json_out_put(&out, "], prompts:[");
    for (size_t i = 0; i < b->n_prompts; i++)
        print_json_prompt(&out, b, &b->prompts[i]);
    sp_json_out_put(&out, "]}\n");
}
