# A session on a terminal: the conversation goes on, the caches keep it, commands, a full context.
# What the terminal echoes before the session reads it is dropped.
session() {
    TERM=dumb script -qec "spectool run $*" /dev/null 2>&1 | tr -d '\r' | sed -n '/helps/,$p' |
        sed 's/tokens, .*/tokens, .../; s/ in [0-9.]* s.*//; /^rounds\|^drafted\|^per pass\|^by pos/d
             /^time \|^speed-up\|^machine\|^draft /d; s/^ *seed .*/  seed/; s/:.*threads.*/: .../'
}
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 2>/dev/null
session packed.bin <<'END'
What is 7 plus 8?
/set verbose
"""What is
the capital of Italy?"""
/show messages
/set system Be brief.
/show system
/clear
/show messages
/set quiet
/set temperature hot
/set parameter top_k 3
/set stop "capital of"
/set num_ctx 12
/set
/show
/nothing
What is the capital of France?
/bye
END
session packed.bin --num-ctx 40 <<'END'
What is the capital of France?
What is 7 plus 8?
What is the capital of Italy?
/clear
What is the capital of Italy?
/show template
END
session packed.bin --raw --num-predict 6 <<'END'
Once upon a time
 there was
/show messages
/set system none
/?
/bye
END
echo '# what is pasted is one message; a terminal that knows of pastes is asked to mark them'
printf '\033[200~/What is\nthe capital of\nItaly?\n\033[201~\n/show messages\n/exit\n' |
    TERM=xterm script -qec 'spectool run packed.bin --num-predict 1' /dev/null 2>&1 | tr -d '\r' >pasted
sed -n 's,.*user: ,user: ,; /^user/,/^assistant/p' pasted
grep -c '.\[?2004h' pasted
echo '# an interrupt gives up a message of several lines'
(
    echo '"""One'
    until grep -q '^\.\.\. ' log 2>/dev/null; do sleep 0.1; done
    printf '\003'
    until [ "$(grep -c '^>>> ' log)" -gt 1 ]; do sleep 0.1; done
    printf 'What is 7 plus 8?\n/show messages\n/bye\n'
) | TERM=dumb script -qefc 'spectool run packed.bin' log >/dev/null
sed -n '/^user: /,$p' log | tr -d '\r' | grep -v '^Script'
rm log
echo '# a signal that ends the program ends the session, and its history is kept'
rm "$XDG_STATE_HOME/spectool/history"
(
    echo 'Hello there.'
    until grep -q 'tokens/s' log 2>/dev/null; do sleep 0.1; done
    kill -TERM "$(cat pid)"
    sleep 1
) | TERM=dumb script -qefc 'echo $$ >pid; exec spectool run packed.bin --num-predict 2' log >/dev/null
echo "exit $?"
grep -o terminated log
grep -c Hello "$XDG_STATE_HOME/spectool/history"
