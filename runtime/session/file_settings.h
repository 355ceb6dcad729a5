/* What a packed file states about its answers, ready to be applied. */
#ifndef SP_RUNTIME_SESSION_FILE_SETTINGS_H
#define SP_RUNTIME_SESSION_FILE_SETTINGS_H

#include "format/modelfile/modelfile.h"
#include "format/packfile.h"
#include "runtime/spectool.h"

/* The struct of which callers see the first member. */
struct sp_answer_settings {
    struct sp_file_settings stated; /* its arrays are those below */
    char *records;                  /* the Modelfile; owned, like all members */
    struct sp_modelfile file;
    struct sp_file_setting *settings; /* those of generation_config.json last */
    size_t n_records;                 /* of the settings, PARAMETER records */
    struct sp_chat_message *messages;
    struct sp_sampling sampling;
    const char **stops, **breakers; /* [n_stops], [sampling.n_dry_breakers] */
    size_t n_stops;
    int64_t seed, n_predict, n_context, draft_len, reasoning_budget; /* -1: not stated */
};

#endif
