/* What a packed file was made of, as an SPDX 2.3 document in JSON. */
#include "cli/base/pack_facts.h"

#include <inttypes.h>
#include <time.h>

/* A package named `name` with a digest; the caller adds members and ends it. */
static void begin_package(struct sp_json_out *out, const char *id, const char *name,
                          uint64_t digest)
{
    sp_json_out_put(out, "{SPDXID:%s, name:%s", id, name);
    sp_json_out_print(out,
                      ", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, "
                      "\"externalRefs\": [{\"referenceCategory\": \"OTHER\", "
                      "\"referenceType\": \"xxh3-64\", \"referenceLocator\": \"%016" PRIx64 "\"}]",
                      digest);
}

static void relate(struct sp_json_out *out, const char *from, const char *relation, const char *to)
{
    sp_json_out_put(out, "{spdxElementId:%s, relationshipType:%s, relatedSpdxElement:%s}", from,
                    relation, to);
}

/* A license is named by the number of its record in the Modelfile. */
static bool is_license(const struct sp_pack_facts *facts, size_t i)
{
    return facts->records.records[i].command == SP_MODELFILE_LICENSE;
}

static void declare_licenses(struct sp_json_out *out, const struct sp_pack_facts *facts)
{
    const char *before = "";

    sp_json_out_written(out, "licenseDeclared", "\"", 1);
    for (size_t i = 0; i < facts->records.n_records; i++) {
        if (!is_license(facts, i)) continue;
        sp_json_out_print(out, "%sLicenseRef-%zu", before, i + 1);
        before = " AND ";
    }
    sp_json_out_raw(out, *before ? "\"" : "NOASSERTION\"");
}

static void license_texts(struct sp_json_out *out, const struct sp_pack_facts *facts)
{
    sp_json_out_begin(out, "hasExtractedLicensingInfos", '[');
    for (size_t i = 0; i < facts->records.n_records; i++) {
        const struct sp_modelfile_record *r = &facts->records.records[i];
        if (!is_license(facts, i)) continue;
        sp_json_out_begin(out, NULL, '{');
        sp_json_out_print(out, "\"licenseId\": \"LicenseRef-%zu\", ", i + 1);
        sp_json_out_string(out, "extractedText", r->value, r->value_size);
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
}

static const char *adapter_id(char id[40], size_t i)
{
    snprintf(id, 40, "SPDXRef-adapter-%zu", i + 1);
    return id;
}

static void packages(struct sp_json_out *out, const struct sp_pack_facts *facts, const char *name,
                     uint64_t identity, const struct sp_part_digests *digests)
{
    const struct sp_part_facts *draft = &facts->parts[SP_PART_DRAFT];
    char id[40], words[SP_MERGE_WORDS];

    sp_json_out_begin(out, "packages", '[');
    begin_package(out, "SPDXRef-file", name, identity);
    declare_licenses(out, facts);
    sp_json_out_end(out, '}');
    begin_package(out, "SPDXRef-target", facts->parts[SP_PART_TARGET].config.architecture,
                  digests->target);
    sp_json_out_end(out, '}');
    if (draft->present) {
        begin_package(out, "SPDXRef-draft", draft->config.architecture, digests->draft);
        sp_json_out_end(out, '}');
    }
    for (size_t i = 0; i < facts->n_merged; i++) {
        const struct sp_merge_record *m = &facts->merged[i];
        begin_package(out, adapter_id(id, i), sp_adapter_format_name(m->format), m->digest);
        sp_merge_words(words, m);
        sp_json_out_put(out, "comment:%s}", words);
    }
    sp_json_out_put(out, "], relationships:[");
    relate(out, "SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-file");
    relate(out, "SPDXRef-file", "CONTAINS", "SPDXRef-target");
    if (draft->present) relate(out, "SPDXRef-file", "CONTAINS", "SPDXRef-draft");
    for (size_t i = 0; i < facts->n_merged; i++)
        relate(out, "SPDXRef-target", "GENERATED_FROM", adapter_id(id, i));
    sp_json_out_end(out, ']');
}

enum sp_status sp_pack_facts_to_sbom(const struct sp_pack_facts *facts, const char *name,
                                     const struct sp_pack *pack, struct sp_err *err)
{
    const uint64_t identity = sp_pack_identity(pack);
    struct sp_json_out out = {.file = stdout};
    struct sp_part_digests digests = {0};
    time_t now = time(NULL);
    char text[64];
    enum sp_status st;
    struct tm utc;

    if (sp_pack_is_outline(pack))
        return sp_fail(err, SP_E_USAGE, "%s: only a packed file has digests for --sbom", name);
    if ((st = sp_pack_part_digests(&digests, pack, err))) return st;
    sp_json_out_put(&out, "{name:%s", name);
    sp_json_out_print(&out,
                      ", \"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", "
                      "\"SPDXID\": \"SPDXRef-DOCUMENT\", \"documentNamespace\": "
                      "\"https://spdx.org/spdxdocs/spectool-%016" PRIx64 "\"",
                      identity);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    sp_json_out_print(&out,
                      ", \"creationInfo\": {\"created\": \"%s\", "
                      "\"creators\": [\"Tool: spectool-%s\"]}",
                      text, sp_version());
    packages(&out, facts, name, identity, &digests);
    license_texts(&out, facts);
    sp_json_out_end_line(&out);
    return SP_OK;
}
