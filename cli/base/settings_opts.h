/* Option rows for the settings, shared by the commands that generate: `type` is the command's
 * struct of options, `member` its sp_settings. The rows of threads and context are in
 * backend_opts.h. sp_settings_complete requires all of these rows in the command's table. */
#ifndef SP_CLI_BASE_SETTINGS_OPTS_H
#define SP_CLI_BASE_SETTINGS_OPTS_H

#include "cli/base/settings.h"

#include <stddef.h>

#define SP_OPT_SET(type, member, setting) .offset = offsetof(type, member.setting)

/* clang-format off */

#define SP_OPT_SET_ENDING(type, member)                                                            \
    {SP_OPT_INT, 'n', "num-predict", NULL, "N", SP_OPT_SET(type, member, n_predict),                 \
     .min = 1, .max = 1 << 30, .word = "-1", .shown = "-1, until a stop or the end of the context",\
     .help = "Maximum number of tokens to generate"},                                              \
    {SP_OPT_INT, 0, "reasoning-budget", NULL, "N", SP_OPT_SET(type, member, reasoning_budget),     \
     .max = 1 << 30, .word = "-1", .word_value = SP_REASONING_UNLIMITED, .shown = "-1, no limit",  \
     .help = "End the model's reasoning after N tokens, by its own closing tag"},                  \
    {SP_OPT_LIST, 0, "stop", NULL, "TEXT", SP_OPT_SET(type, member, stop_options),                 \
     .help = "End the answer before this text; repeatable"}

#define SP_OPT_SET_DEPTH(type, member)                                                             \
    {SP_OPT_INT, 0, "draft-depth", NULL, "N", SP_OPT_SET(type, member, draft_len),                 \
     .max = 1 << 16, .word = "auto", .word_value = SP_DRAFT_LENGTH_AUTO, .shown = "auto",          \
     .help = "Maximum number of draft tokens per round, 0: no drafting; does not affect the text"}

#define SP_OPT_SET_ACCEPT(type, member)                                                            \
    {SP_OPT_CHOICE, 0, "accept", NULL, "METHOD", SP_OPT_SET(type, member, accept),                    \
     .choices = sp_settings_accepts, .shown = "coupled",                                           \
     .help = "How draft tokens are accepted when sampling"}

#define SP_OPT_SET_SAMPLING(type, member) \
    {SP_OPT_FLOAT, 0, "temperature", "temp", "T", SP_OPT_SET(type, member, sampling.temperature), \
     .max = 100, .shown = "0, greedy", .help = "Sampling temperature"}, \
    {SP_OPT_INT32, 0, "top-k", NULL, "K", SP_OPT_SET(type, member, sampling.top_k), \
     .min = -1, .max = 1 << 30, .shown = "0, off", \
     .help = "Sample from the K most likely tokens; -1 is off, too"}, \
    {SP_OPT_FLOAT, 0, "top-p", NULL, "P", SP_OPT_SET(type, member, sampling.top_p), \
     .max = 1, .shown = "1, off", \
     .help = "Sample from the most likely tokens with this total probability"}, \
    {SP_OPT_FLOAT, 0, "min-p", NULL, "P", SP_OPT_SET(type, member, sampling.min_p), \
     .max = 1, .shown = "0, off", \
     .help = "Drop tokens less likely than this fraction of the most likely one"}, \
    {SP_OPT_FLOAT, 0, "typical-p", NULL, "P", SP_OPT_SET(type, member, sampling.typical_p), \
     .max = 1, .shown = "1, off", \
     .help = "Locally typical sampling: total probability of the tokens kept"}, \
    {SP_OPT_INT32, 0, "repeat-last-n", NULL, "N", SP_OPT_SET(type, member, sampling.repeat_last_n), \
     .min = -1, .max = 1 << 30, .shown = "64", \
     .help = "Number of recent tokens that penalties apply to; 0: off, -1: the whole context"}, \
    {SP_OPT_FLOAT, 0, "repeat-penalty", NULL, "R", SP_OPT_SET(type, member, sampling.repeat_penalty), \
     .min = 0.01, .max = 100, .shown = "1, off", \
     .help = "Penalty factor for the logits of recent tokens"}, \
    {SP_OPT_FLOAT, 0, "presence-penalty", NULL, "P", SP_OPT_SET(type, member, sampling.presence_penalty), \
     .min = -100, .max = 100, .shown = "0, off", \
     .help = "Subtracted from the logit of every recent token"}, \
    {SP_OPT_FLOAT, 0, "frequency-penalty", NULL, "F", SP_OPT_SET(type, member, sampling.frequency_penalty), \
     .min = -100, .max = 100, .shown = "0, off", \
     .help = "Subtracted from the logit of a recent token per occurrence"}, \
    {SP_OPT_FLOAT, 0, "top-n-sigma", NULL, "N", SP_OPT_SET(type, member, sampling.top_n_sigma), \
     .min = -1, .max = 100, .shown = "0, off", \
     .help = "Keep logits within N standard deviations of the largest one"}, \
    {SP_OPT_FLOAT, 0, "xtc-probability", NULL, "P", SP_OPT_SET(type, member, sampling.xtc_probability), \
     .max = 1, .shown = "0, off", \
     .help = "How often XTC excludes the most likely tokens"}, \
    {SP_OPT_FLOAT, 0, "xtc-threshold", NULL, "P", SP_OPT_SET(type, member, sampling.xtc_threshold), \
     .max = 1, .shown = "0.1", \
     .help = "XTC excludes tokens of at least this probability, except the least likely one"}, \
    {SP_OPT_FLOAT, 0, "dry-multiplier", NULL, "M", SP_OPT_SET(type, member, sampling.dry_multiplier), \
     .max = 100, .shown = "0, off", \
     .help = "DRY: penalty for a token that would extend a repetition"}, \
    {SP_OPT_FLOAT, 0, "dry-base", NULL, "B", SP_OPT_SET(type, member, sampling.dry_base), \
     .min = 1, .max = 100, .shown = "1.75", \
     .help = "DRY: growth of the penalty with each token of the repetition"}, \
    {SP_OPT_INT32, 0, "dry-allowed-length", NULL, "N", SP_OPT_SET(type, member, sampling.dry_allowed_length), \
     .max = 1 << 30, .shown = "2", .help = "DRY: shortest repetition whose next token is penalized"}, \
    {SP_OPT_INT32, 0, "dry-penalty-last-n", NULL, "N", SP_OPT_SET(type, member, sampling.dry_penalty_last_n), \
     .min = -1, .max = 1 << 30, .shown = "-1, the whole context", \
     .help = "DRY: number of recent tokens to find repetitions in; 0: off"}, \
    {SP_OPT_LIST, 0, "dry-sequence-breaker", NULL, "TEXT", \
     SP_OPT_SET(type, member, breaker_options), \
     .help = "DRY: text that ends a repetition, instead of the default ones; none: no text; " \
             "repeatable"}, \
    {SP_OPT_LIST, 0, "logit-bias", NULL, "ID=B", SP_OPT_SET(type, member, bias_options), \
     .help = "Added to the logit of a token; repeatable"}, \
    {SP_OPT_INT, 's', "seed", NULL, "N", SP_OPT_SET(type, member, seed), \
     .max = 9223372036854774784.0, .word = "-1", .word_value = SP_SEED_FRESH, \
     .shown = "-1, random", .help = "Random seed"}
/* clang-format on */

#endif
