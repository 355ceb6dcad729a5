/* The facts of a packed file, read from its sections and tensors. */
#ifndef SP_CLI_BASE_PACK_FACTS_H
#define SP_CLI_BASE_PACK_FACTS_H

#include "convert/adapter/merge.h"
#include "format/config/config.h"
#include "format/json/json_write.h"
#include "format/modelfile/modelfile.h"
#include "format/packfile.h"
#include "format/receipts.h"
#include "format/weights/cache_divergence.h"
#include "runtime/spectool.h"

/* Facts of the target or of the draft. */
struct sp_part_facts {
    bool present;
    struct sp_config config; /* configuration of the model; owned */
    uint64_t n_tensors, n_weights, size;
    uint64_t n_of_type[SP_N_PACKED_DTYPES], size_of_type[SP_N_PACKED_DTYPES];
};

struct sp_pack_facts {
    struct sp_part_facts parts[3];  /* indexed by enum sp_part */
    struct sp_modelfile records;    /* the stored Modelfile records; owned */
    struct sp_merge_record *merged; /* adapters that were merged into the target; owned */
    size_t n_merged;
    size_t n_smoothed;                  /* norms of the target */
    struct sp_cache_divergences caches; /* of the target; owned */
    struct sp_json *receipts;           /* an array; owned; NULL: none */
    /* Language of the template in use, the Modelfile's or else the checkpoint's. UNKNOWN: there is
     * none, or it cannot be used for the reason in template_error. */
    enum sp_template_language template_language;
    uint64_t template_size;
    struct sp_err template_error;
    bool has_reasoning, has_tool_calls; /* whether answers are separated into these and content */
    char *reasoning, *tool_calls;       /* how the model writes them; owned; NULL: no template */
};

/* True if the file is the outline of one (format/packfile_write.h), which has no identity. */
bool sp_pack_is_outline(const struct sp_pack *pack);

/* Reads the facts of a packed file. On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_pack_facts_read(struct sp_pack_facts *out,
                                                const struct sp_pack *pack, struct sp_err *err);
void sp_pack_facts_release(struct sp_pack_facts *facts);

/* ---- prints the facts of a packed file for `show`, as text or as JSON ---- */

/* `name` is what the user calls the file. */
SP_MUST_CHECK enum sp_status sp_pack_facts_print(const struct sp_pack_facts *facts,
                                                 const char *name, const struct sp_pack *pack,
                                                 struct sp_err *err);
/* Writes the facts as members of an object that the caller has begun. */
void sp_pack_facts_to_json(struct sp_json_out *out, const struct sp_pack_facts *facts);
/* Writes an SPDX document to standard output: the file, target, draft and merged adapters with
 * their digests (external references, since SPDX knows no XXH3), and the licenses. */
SP_MUST_CHECK enum sp_status sp_pack_facts_to_sbom(const struct sp_pack_facts *facts,
                                                   const char *name, const struct sp_pack *pack,
                                                   struct sp_err *err);

#endif
