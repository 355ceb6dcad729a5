#include "convert/create/requantize.h"

#include "convert/create/create_job.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/packfile.h"
#include "format/packfile_write.h"

/* The requested types must change a part that the file has. */
static enum sp_status check_request(const struct sp_requantize_options *options, bool has_draft,
                                    struct sp_err *err)
{
    if (options->draft_type != SP_DTYPE_NONE && !has_draft)
        return sp_fail(err, SP_E_USAGE, "%s has no draft to quantize", options->input);
    if (options->draft_type == SP_DTYPE_NONE && options->target_type == SP_DTYPE_NONE &&
        options->output_type == SP_DTYPE_NONE && options->rules.n == 0 &&
        options->budget.size == 0 && !(options->budget.bits > 0) && !options->draft_choice) {
        return sp_fail(err, SP_E_USAGE, "%s: expected a type for its target or draft",
                       options->input);
    }
    return SP_OK;
}

static enum sp_status read_records(struct sp_create_job *job, struct sp_err *err)
{
    enum sp_status st;

    st = sp_pack_read_section(job->target.pack, SP_PART_FILE, SP_SECTION_MODELFILE, &job->records,
                              &job->records_size, err);
    if (st || job->records) return st;
    return sp_copy_text(&job->records, "", 0, err);
}

static enum sp_status open_parts(struct sp_create_job *job,
                                 const struct sp_requantize_options *options, struct sp_err *err)
{
    enum sp_status st;
    bool is_pack;

    if (!sp_file_exists(options->input))
        return sp_fail(err, SP_E_IO, "%s does not exist, expected a packed file", options->input);
    if ((st = sp_pack_recognize(&is_pack, options->input, err))) return st;
    if (!is_pack) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: not a packed file; spectool create makes one from a checkpoint or a "
                       "GGUF file",
                       options->input);
    }
    if ((st = sp_create_open_source(&job->target, options->input, SP_PART_TARGET, &job->warnings,
                                    err)))
        return st;
    job->has_draft =
        sp_pack_find_section(job->target.pack, SP_PART_DRAFT, SP_SECTION_CONFIG) != NULL;
    if ((st = check_request(options, job->has_draft, err))) return st;
    if (job->has_draft)
        st = sp_create_open_source(&job->draft, options->input, SP_PART_DRAFT, &job->warnings, err);
    return st ? st : read_records(job, err);
}

enum sp_status sp_requantize(struct sp_create_report *report,
                             const struct sp_requantize_options *options, struct sp_err *err)
{
    enum sp_status st;
    struct sp_create_job job = {
        .output = options->output ? options->output : options->input,
        .force = options->force || options->output == NULL,
        .dry_run = options->dry_run,
        .n_threads = options->n_threads,
        .callbacks = &options->callbacks,
        .inputs = {.target_request = {.type = options->target_type,
                                      .output_type = options->output_type},
                   .draft_request = {.type = options->draft_type, .draft = true},
                   .rules = options->rules,
                   .budget = options->budget,
                   .calibration_path = options->calibration},
    };

    job.inputs.allow_lossy = options->allow_lossy;
    job.draft_choice = options->draft_choice;
    if (options->output && !options->dry_run &&
        (st = sp_pack_writer_check(options->output, options->force, err)))
        return st;
    st = open_parts(&job, options, err);
    if (!st) st = sp_create_job_run(&job, report, err);
    sp_create_job_release(&job);
    return st;
}
