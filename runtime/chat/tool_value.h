/* Values of arguments, as models write them, to JSON. */
#ifndef SP_RUNTIME_CHAT_TOOL_VALUE_H
#define SP_RUNTIME_CHAT_TOOL_VALUE_H

#include "format/base/json.h"
#include "format/base/strbuf.h"

enum sp_value_read { SP_VALUE_MORE, SP_VALUE_READ, SP_VALUE_NONE }; /* MORE: the text ends within */

/* Where the JSON object, list or string that the text begins with ends, by its brackets and quotes
 * alone. */
enum sp_value_read sp_tool_value_json_end(size_t *end, const char *text, size_t size);

/* Notations that are nearly JSON: `quote` stands for the quotes of texts (empty: none does), keys
 * and words may stand without; `python`: as Python's repr() writes it, where a tuple is a list, and
 * parentheses at the beginning hold name=value pairs, an object's members. */
struct sp_value_notation {
    const char *quote;
    bool python;
};

/* Appends the JSON of the bracketed value that the text begins with; *end: of its bytes. What is
 * READ is valid JSON. */
SP_MUST_CHECK enum sp_status sp_tool_value_read(enum sp_value_read *read, struct sp_strbuf *out,
                                                size_t *end, const char *text, size_t size,
                                                const struct sp_value_notation *notation,
                                                struct sp_err *err);

/* Appends a JSON string. */
SP_MUST_CHECK enum sp_status sp_tool_value_string(struct sp_strbuf *out, const char *text,
                                                  size_t size, struct sp_err *err);

/* Appends the JSON of a value that was written without a notation, by what the tools' schemas say
 * of it: a text, or, where they have another type, JSON or Python's notation of it if it is that.
 */
SP_MUST_CHECK enum sp_status sp_tool_value_typed(struct sp_strbuf *out, const struct sp_json *tools,
                                                 const char *function, const char *key,
                                                 const char *text, size_t size, struct sp_err *err);

/* Is an argument of a function a text, by its schema? One that it does not declare is. */
bool sp_tool_value_is_text(const struct sp_json *function, const char *key);

/* Of a list of tools, as OpenAI and ollama have them, the function of that name, or NULL. */
const struct sp_json *sp_tool_value_tool(const struct sp_json *tools, const char *name);

#endif
