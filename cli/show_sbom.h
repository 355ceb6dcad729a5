/* `show --sbom`: what a packed file was made of, as an SPDX 2.3 document in JSON. */
#ifndef SP_CLI_SHOW_SBOM_H
#define SP_CLI_SHOW_SBOM_H

#include "cli/base/pack_facts.h"

/* Writes the document for the file that the user calls `name` to standard output: the file, its
 * target and draft, and the adapters that were merged, with their digests; the licenses of the
 * Modelfile; the receipts. SPDX knows no XXH3, so digests are external references. */
SP_MUST_CHECK enum sp_status sp_show_sbom(const struct sp_pack_facts *facts, const char *name,
                                          const struct sp_pack *pack, struct sp_err *err);

#endif
