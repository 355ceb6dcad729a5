/* The record of a merged adapter: shown to the user when it is merged, and stored in a section of
 * the packed file that spectool-pack(5) defines. It contains no paths. */
#ifndef SP_CONVERT_ADAPTER_MERGE_RECORD_H
#define SP_CONVERT_ADAPTER_MERGE_RECORD_H

#include "convert/adapter/adapter.h"

struct sp_merge_record {
    enum sp_adapter_format format;
    uint64_t digest;     /* XXH3-64 of the file of its tensors */
    uint64_t n_products; /* matrices that a low-rank product was added to */
    uint64_t rank[2];    /* the smallest and the largest; 0 where there are no products */
    double scale[2];
    bool has_magnitudes; /* DoRA */
    uint64_t n_wholes;   /* tensors that took the place of the model's */
};

struct sp_merge_record sp_merge_record_of(const struct sp_adapter *adapter);

/* In words, without the digest: "9 low-rank products of rank 4, scale 2". */
enum { SP_MERGE_WORDS = 256 };
void sp_merge_words(char text[SP_MERGE_WORDS], const struct sp_merge_record *record);
const char *sp_adapter_format_name(enum sp_adapter_format format); /* "peft", "mlx"; static */

/* The section's content with one more record at its end; `text` may be none. */
SP_MUST_CHECK enum sp_status sp_merge_records_add(struct sp_text *out, const struct sp_text *text,
                                                  const struct sp_merge_record *record,
                                                  struct sp_err *err);

/* The records of a section's content, in the order in which they were merged; *out owned by the
 * caller. SP_E_INPUT: damaged. */
SP_MUST_CHECK enum sp_status sp_merge_records_read(struct sp_merge_record **out, size_t *n,
                                                   const char *text, size_t size,
                                                   struct sp_err *err);

#endif
