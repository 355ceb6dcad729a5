/* The signals that end long work cleanly, and those of files that fail. */
#ifndef SP_CLI_BASE_SIGNALS_H
#define SP_CLI_BASE_SIGNALS_H

#include <stdbool.h>

/* Makes SIGINT, SIGTERM and SIGHUP set a flag; a second one ends the program at once. A signal
 * that the caller ignores (nohup) stays ignored. */
void sp_signals_catch(void);
/* Makes these signals end the program at once again, for work that leaves nothing to clean up. One
 * that was caught before ends it here. */
void sp_signals_release(void);
bool sp_signals_caught(void);
/* Clears a caught interrupt so that the next one is caught again; a signal that ends the program
 * (SIGTERM, SIGHUP) stays caught. */
void sp_signals_clear(void);
/* Switches the echo of the terminal on standard input off and on again. A second signal that ends
 * the program meanwhile switches it on, too. */
void sp_signals_hide_typing(void);
void sp_signals_show_typing(void);
/* Makes a write beyond the file size limit fail instead of ending the program, and makes a failed
 * read of a mapped file, which was truncated or whose disk fails, end the program with an error
 * message and the exit code of SP_E_IO. */
void sp_signals_guard_files(void);
/* Ends the program by the caught signal, so that a shell sees it; returns if none was caught. */
void sp_signals_resume(void);

#endif
