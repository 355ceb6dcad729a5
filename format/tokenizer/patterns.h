/* Published patterns that cut texts into words, and the parts that they share. */
#ifndef SP_FORMAT_TOKENIZER_PATTERNS_H
#define SP_FORMAT_TOKENIZER_PATTERNS_H

#define SP_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SP_PATTERN_END "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SP_UPPER_LETTERS "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define SP_LOWER_LETTERS "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"

#define SP_GPT2_WORDS                                                                              \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define SP_GPT2_PATTERN SP_GPT2_WORDS "|\\s+"
/* Qwen2 and Qwen3 have no `digits`, Llama 3 has "{1,3}". */
#define SP_LLAMA3_PATTERN(digits)                                                                  \
    SP_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                 \
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SP_PATTERN_END
#define SP_QWEN35_PATTERN                                                                          \
    SP_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                                \
                    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SP_PATTERN_END
#define SP_CASED_PATTERN(contractions, digits)                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[" SP_UPPER_LETTERS "]*[" SP_LOWER_LETTERS "]+" contractions            \
    "|[^\\r\\n\\p{L}\\p{N}]?[" SP_UPPER_LETTERS "]+[" SP_LOWER_LETTERS "]*" contractions           \
    "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SP_PATTERN_END
#define SP_O200K_PATTERN SP_CASED_PATTERN(SP_CONTRACTIONS "?", "{1,3}") /* GPT-4o, gpt-oss */
#define SP_TEKKEN_PATTERN SP_CASED_PATTERN("", "")
#define SP_DEEPSEEK3_PATTERN                                                                       \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"             \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

#endif
