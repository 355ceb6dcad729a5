/* Notes for the user. */
#ifndef SP_CLI_BASE_NOTE_H
#define SP_CLI_BASE_NOTE_H

/* Prints "spectool COMMAND: note: sentence" to stderr. */
void sp_note(const char *command, const char *sentence);

#endif
