/* A session in a file: the messages, the system message, the reasoning and the settings, as JSON
 * that a person can read and change. */
#ifndef SP_CLI_CHAT_SAVED_SESSION_H
#define SP_CLI_CHAT_SAVED_SESSION_H

#include "cli/chat/loaded_model.h"

/* *path = the file of a session, owned by the caller: a name with a slash is a path, any other is
 * NAME.json in $XDG_DATA_HOME/spectool, by default below ~/.local/share. SP_E_USAGE: the name is
 * empty or begins with a dot. */
SP_MUST_CHECK enum sp_status sp_saved_session_path(char **path, const char *name,
                                                   struct sp_err *err);

/* Writes the session, and replaces a session of the same name; SP_E_USAGE if the file is not a
 * saved session. SP_E_UNSUPPORTED: without a template the conversation has no messages. */
SP_MUST_CHECK enum sp_status
sp_saved_session_write(const char *path, const struct sp_loaded_model *loaded, struct sp_err *err);

/* Replaces conversation and settings by those of the file. On failure they stay as they were; a
 * context that memory cannot hold is a failure, too. *model = the packed file that the session was
 * saved with, owned by the caller; NULL: the present one, or the session does not name it. */
SP_MUST_CHECK enum sp_status sp_saved_session_read(const char *path, struct sp_loaded_model *loaded,
                                                   char **model, struct sp_err *err);

/* Calls `name` for each saved session. */
void sp_saved_session_each(void (*name)(void *context, const char *name), void *context);

#endif
