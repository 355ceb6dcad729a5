/* Writes values as text by the rules of Go's package fmt. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_PRINT_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_PRINT_H

#include "runtime/template/value/value.h"

/* Sorts the pairs of a dictionary by key, the order in which Go prints and ranges. */
SP_MUST_CHECK enum sp_status sp_go_sorted(struct sp_heap *heap, const struct sp_dict_entry **out,
                                          const struct sp_dict *dict);

/* Append fmt.Fprint of one value, Sprint or (line) Sprintln, and Sprintf. */
SP_MUST_CHECK enum sp_status sp_go_build(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_go_print(struct sp_builder *b, const struct sp_value *arg, size_t n,
                                         bool line);
SP_MUST_CHECK enum sp_status sp_go_printf(struct sp_builder *b, struct sp_value format,
                                          const struct sp_value *arg, size_t n);
SP_MUST_CHECK enum sp_status sp_go_build_json_float(struct sp_builder *b, double v);

#endif
