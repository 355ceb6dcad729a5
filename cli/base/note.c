#include "cli/base/note.h"

#include "cli/base/word_wrap.h"

void sp_note(const char *command, const char *sentence)
{
    sp_word_wrap_print(stderr, 0, "spectool %s: note: %s", command, sentence);
}
