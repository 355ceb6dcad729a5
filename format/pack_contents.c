#include "format/pack_contents.h"

static const char *const part_names[] = {
    [SP_PART_FILE] = "file",
    [SP_PART_TARGET] = "target",
    [SP_PART_DRAFT] = "draft",
};

static const char *const section_names[SP_N_SECTIONS] = {
    [SP_SECTION_MODELFILE] = "Modelfile",
    [SP_SECTION_PAIRING] = "pairing",
    [SP_SECTION_CONFIG] = "config.json",
    [SP_SECTION_GENERATION] = "generation_config.json",
    [SP_SECTION_TOKENIZER] = "tokenizer.json",
    [SP_SECTION_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [SP_SECTION_TEMPLATE] = "chat_template.jinja",
    [SP_SECTION_TOKENIZER_MAP] = "compiled tokenizer",
    [SP_SECTION_CALIBRATION] = "calibration",
    [SP_SECTION_ADAPTERS] = "merged adapters",
    [SP_SECTION_POOLING] = "pooling",
    [SP_SECTION_RECEIPTS] = "receipts",
    [SP_SECTION_SMOOTHING] = "smoothing",
    [SP_SECTION_CACHES] = "caches",
};

const char *sp_section_name(enum sp_section section)
{
    return section > 0 && section < SP_N_SECTIONS ? section_names[section] : "unknown section";
}

const char *sp_part_name(enum sp_part part)
{
    return (size_t)part < sizeof part_names / sizeof part_names[0] ? part_names[part]
                                                                   : "unknown part";
}
