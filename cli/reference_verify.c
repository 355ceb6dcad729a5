#include "cli/verify_prompts.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/base/word_wrap.h"

#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <string.h>

enum sp_status sp_reference_verify_open(struct sp_reference_verify *v, const char *path,
                                        struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (unsigned mode = 0; mode <= SP_REFERENCE_CHECKED && !st; mode++)
        st = sp_backend_open_reference(&v->modes[mode], path, (enum sp_reference_mode)mode, err);
    return st;
}

void sp_reference_verify_close(struct sp_reference_verify *v)
{
    for (unsigned mode = 0; mode <= SP_REFERENCE_CHECKED; mode++)
        sp_package_close(v->modes[mode]);
}

static void print_json(const struct sp_reference_check *r, size_t prompt)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_begin(&out, NULL, '{');
    sp_json_out_u64(&out, "prompt", prompt);
    sp_json_out_u64(&out, "tokens", r->n_rows);
    sp_json_out_double(&out, "error", r->error);
    sp_json_out_double(&out, "rounding_error", r->rounding_error);
    sp_json_out_double(&out, "product_error", r->product_error);
    sp_json_out_double(&out, "kl", r->divergence);
    if (r->differs) {
        sp_json_out_u64(&out, "first_different", r->first_different);
        sp_json_out_u64(&out, "token", r->token);
        sp_json_out_u64(&out, "reference_token", r->reference_token);
    }
    sp_json_out_end_line(&out);
}

static void print(const struct sp_reference_check *r, const char *kv_type, size_t prompt)
{
    char different[96] = "every token is the reference's";

    if (r->differs) {
        snprintf(different, sizeof different, "token %zu is %u, the reference's is %u",
                 r->first_different, r->token, r->reference_token);
    }
    sp_word_wrap_print(
        stdout, 0,
        "prompt %zu: %zu token%s: relative error of the logits %.1e, of which "
        "activations in 8 bits and the %s cache %.1e; KL divergence %.1e; %s; error of "
        "the products %.1e",
        prompt, r->n_rows, r->n_rows == 1 ? "" : "s", r->error, kv_type, r->rounding_error,
        r->divergence, different, r->product_error);
}

static enum sp_status judge(const struct sp_reference_check *r, size_t prompt, struct sp_err *err)
{
    if (!r->products_agree) {
        return sp_fail(
            err, SP_E_CHECK,
            "prompt %zu: a product of the scalar kernels differs from that of OpenBLAS by "
            "%.1e, more than rounding explains",
            prompt, r->product_error);
    }
    if (r->n_equal == r->n_rows) return SP_OK;
    return sp_fail(err, SP_E_CHECK,
                   "prompt %zu: the logits of token %zu have other bits than with scalar kernels",
                   prompt, r->n_equal);
}

static int show_progress(void *context, size_t done, size_t total)
{
    sp_progress_show(context, done, total);
    return sp_signals_caught();
}

enum sp_status sp_reference_verify_prompt(const struct sp_reference_verify *v,
                                          struct sp_package *package,
                                          const struct sp_verify_options *o,
                                          const struct sp_ids *ids, const struct sp_result *answer,
                                          size_t prompt, struct sp_err *err)
{
    struct sp_reference_check check = SP_REFERENCE_CHECK_INIT;
    struct sp_progress progress;
    struct sp_ids all = {0};
    char label[48];
    enum sp_status st;

    /* the prompt and what was generated, without the last token */
    if ((st = sp_ids_append(&all, ids->at, ids->n, err)) ||
        (st = sp_ids_append(&all, answer->ids, answer->n_ids, err))) {
        sp_ids_release(&all);
        return st;
    }
    all.n--;
    const struct sp_reference_check_request request = {.size = sizeof request,
                                                       .references = v->modes,
                                                       .ids = all.at,
                                                       .n = all.n,
                                                       .n_rows = answer->n_ids,
                                                       .cache = sp_backend_cache_type(&o->backend),
                                                       .context = &progress,
                                                       .progress = show_progress};
    snprintf(label, sizeof label, "prompt %zu, reference", prompt);
    sp_progress_begin(&progress, label);
    progress.unit = "tokens";
    st = sp_package_check_reference(package, &request, &check, err);
    sp_progress_end(&progress);
    sp_ids_release(&all);
    if (st) return st;
    if (o->json)
        print_json(&check, prompt);
    else
        print(&check, o->backend.kv_type ? o->backend.kv_type : sp_backend_kv_types[0], prompt);
    fflush(stdout);
    return judge(&check, prompt, err);
}
