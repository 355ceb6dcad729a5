/* Places in a Modelfile, for messages: shared by its parser and its checks. */
#ifndef SP_FORMAT_MODELFILE_MODELFILE_PLACE_H
#define SP_FORMAT_MODELFILE_MODELFILE_PLACE_H

#include "format/modelfile/modelfile.h"

/* Line and column, from 1, of a byte of the text; a column is a character. */
void sp_modelfile_place(const struct sp_modelfile *file, size_t offset, unsigned long *line,
                        unsigned long *column);

/* SP_E_INPUT with "path:line:column: " in front of the sentence. */
enum sp_status sp_modelfile_fail(const struct sp_modelfile *file, size_t offset, struct sp_err *err,
                                 const char *format, ...) SP_PRINTF(4, 5);

#endif
