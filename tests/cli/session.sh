# A session on a terminal: a conversation over several turns, reused caches, commands, a full context.
# tests/support/terminal.c types each line when the session waits for it.
# libedit never frees the name of an added command, which sanitizers report.
echo 'leak:libedit' >leaks
export LSAN_OPTIONS=suppressions=$PWD/leaks:print_suppressions=0
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0:malloc_context_size=8
session() {
    TERM=dumb terminal spectool run "$@" 2>&1 | tr -d '\r' |
        sed '/^context/!s/tokens, .*/tokens, .../; s/^1 token; .*/1 token/; s/ in [0-9.]* s.*//; /^rounds\|^drafted\|^per pass\|^by pos/d
             /^first token\|^time \|^speed-up\|^machine\|^draft /d; s/^ *seed *[0-9]* */  seed /; s/:.* threads*,.*/: .../'
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
/set num_ctx 9999
/set num_ctx 12
/set num_thread 2
/set
/show
/nothing
What is the capital of France?
/set num_ctx 64
What is the capital of France?
/bye
END
session packed.bin --num-ctx 40 <<'END'
What is the capital of France?
What is 7 plus 8?
What is the capital of Italy?
/show
/clear
What is the capital of Italy?
/show template
/bye
END
echo '# the last message is removed, or answered again; names that are nearly right'
session packed.bin --num-predict 12 <<'END'
/undo
/retry
What is 7 plus 8?
What is the capital of Italy?
/undo
/show messages
/regen
/set temperature 0.1
/set seed 3
/retry
/show messages
/set temprature 1
/set nonsense 1
/set nonsense
/set verbose
/set quiet
/set think
/set nothink
/hepl
/x
/undo
/show messages
/bye
END
echo '# a full context drops the oldest messages'
session packed.bin --num-ctx 80 --context-full shift --system Brief. <<'END'
What is the capital of France?
What is 7 plus 8?
What is the capital of Italy?
What is 1 plus 2?
/show messages
/show system
/clear
What is the capital of Italy, and of France, and of Spain, and what is 7 plus 8, and what is 1 plus 2, and of what?
/bye
END
echo '# a budget for caches: the prompt is refused before it is read, and the session goes on'
session packed.bin --memory 10k <<'END'
What is 7 plus 8?
/show messages
/bye
END
session packed.bin --raw --num-predict 6 <<'END'
Once upon a time
 there was
/show messages
/set system none
/set nothink
/?
/bye
END
echo '# a seed below 0 is a fresh one; no draft has no depth'
session packed.bin --no-draft --num-predict 1 <<'END' | grep -e drawn -e draft
/set seed 7
/set seed -1
/set draft_num_predict 3
/show parameters
/bye
END
echo '# values between three quotes may have several lines'
session packed.bin --num-predict 1 <<'END'
/set system """Be brief,
say "please" ."""
/show system
/set system """"""
/show system
/set stop """one"""
/set parameter top_k """3
"""
/show parameters
END
echo '# three quotes within a line end nothing; the end of the input ends the session there too'
session packed.bin --num-predict 1 <<'END'
"""Say """please""" and
"""thanks""" ."""
/show messages
/undo
"""
Two lines,
no empty one"""
/show messages
"""One
END
echo '# what is pasted is one message; a terminal that knows of pastes is asked to mark them'
TERM=xterm terminal spectool run packed.bin --num-predict 1 <<'END' | tr -d '\r' >pasted
@keys \033[200~/What is\r\nthe capital\n\r\nof\r\rItaly?\n\033[201~\n
/show messages
/exit
END
sed -n 's,.*user: ,user: ,; /^user/,/^assistant/p' pasted
grep -c '.\[?2004h' pasted
echo '# Tab completes commands and names as far as they are unique'
TERM=dumb terminal spectool run packed.bin <<'END' | tr -d '\r\007' |
@keys /se\t see\t5\n
@keys /sh\t par\t\n
@keys /un\t\n
@keys /by\t\n
END
    grep -o 'seed is 5\.\|seed  *5 \|There is no message.*'
echo '# a second Tab lists the completions'
TERM=xterm terminal -c 60 spectool run packed.bin <<'END' | tr -d '\r\007' |
@keys /set d\t\t\025/bye\n
END
    sed -n '/^d[a-z_]*  /p'
echo '# /show messages breaks lines between words, as answers do'
TERM=xterm terminal -c 24 spectool run packed.bin --num-predict 1 <<'END' | tr -d '\r' |
What is the capital of Italy and of France?
/show messages
/bye
END
    sed "s/[^ ]*$(printf '\033')\[[0-9]*D//g; s/$(printf '\033')\[?*[0-9]*[A-Za-z]//g" | sed -n '/^user/,/^assistant/p'
echo '# an interrupt gives up a message of several lines; without any text it says how to end'
TERM=dumb terminal spectool run packed.bin <<'END' >log
"""One
@keys \003
@keys \003
@await Ctrl-D or /bye ends the session
What is 7 plus 8?
/show messages
/bye
END
grep -o '^Ctrl-D or [^.]*' log
sed -n '/^user: /,$p' log | tr -d '\r'
echo '# a line is drawn again behind another window size and when a shell gives the terminal back;'
echo '# letters are UTF-8 whatever the locale says'
for signal in WINCH CONT; do
    TERM=dumb terminal spectool run packed.bin --num-predict 1 <<END | tr -d '\r' | sed -n '/^>>> Gr/p; /^user/p'
@keys Gr\303\274\303\237e,
@await e,
@kill $signal
@await e,
@send  \346\227\245\n
/show messages
/bye
END
done
echo '# a signal that ends the program ends the session, and its history is kept'
rm "$XDG_STATE_HOME/spectool/history"
TERM=dumb terminal spectool run packed.bin --num-predict 2 <<'END' >log
Hello there.
@await tokens/s
@kill TERM
END
echo "exit $?"
grep -o terminated log
grep -c Hello "$XDG_STATE_HOME/spectool/history"
echo '# a dumb terminal gets no progress drawn, another does'
for terminal in dumb xterm; do
    TERM=$terminal terminal spectool verify packed.bin </dev/null | tr -d '\r' | grep -c checking
done
echo '# what is drawn fits the window'
TERM=xterm terminal -c 20 spectool verify packed.bin </dev/null | tr '\r' '\n' |
    sed "s/$(printf '\033')\[K//" | grep checking | awk 'length($0) > 19'
echo '# an answer that goes elsewhere is no session: it is all that is written there'
TERM=dumb terminal sh -c 'spectool run packed.bin >answer' <<'END' >log
@send What is 7 plus 8?\n\004
END
cat answer
echo '# a session is saved and loaded, and goes on as if it had not ended'
session packed.bin --num-predict 10 <<'END' | sed -n '/Italy/,$p' >whole
What is 7 plus 8?
What is the capital of Italy?
/bye
END
session packed.bin --num-predict 10 <<'END' | sed "s,$HOME,HOME,"
/load
/save
What is 7 plus 8?
/set temperature 0
/set stop "owl"
/set num_ctx 512
/save first
/save .hidden
/save ./copy.json
/bye
END
cat "$HOME/.local/share/spectool/first.json" copy.json | sed '15q'
cmp "$HOME/.local/share/spectool/first.json" copy.json
session packed.bin --num-predict 10 <<'END' | sed "s,$HOME,HOME," | tee loaded
/load first
What is the capital of Italy?
/bye
END
sed -n '/Italy/,$p' loaded | cmp - whole
echo '# a session that is no session changes nothing, and a file that is none stays'
bad() { printf "$1" >bad.json && printf 'What is 7 plus 8?\n/load ./bad.json\n/show messages\n/bye\n' | session packed.bin --num-predict 2 --system Brief | sed -n 's/.*\(bad.json: .*\)/\1/p; /^user/,$p'; }
bad '{"spectool_session": 2}'
bad '{}'
bad '{"spectool_session": 1, "messages": [{"role": "user", "content": "a"}, {"role": "user"}]}'
bad '{"spectool_session": 1, "messages": [{"role": "boss", "content": "a"}]}'
bad '{"spectool_session": 1, "messages": [], "settings": {"top_k": "x"}}'
bad '{"spectool_session": 1, "messages": [], "settings": {"stop": 7}}'
bad '{"spectool_session": 1, "messages": [], "think": "high"}'
bad '{"spectool_session": 1, "messages": [], "think": ""}'
bad '{"spectool_session": 1, "messages": [], "think": "a level that is far too long for any model to have"}'
bad '{"spectool_session": 1, "messages": [], "settings": {"num_ctx": 99999}}'
bad '{"spectool_session": 1, "messages": ['
printf 'mine' >notes
session packed.bin <<'END'
/save ./notes
/save missing/notes
/load nothing
/bye
END
cat notes; echo
echo '# a switch takes on or off, a name alone shows its value, and loaded settings are named as such'
session packed.bin <<'END' | sed "s,$HOME,HOME,; / built in\$/d"
/set wordwrap off
/set verbose off
/set nothink maybe
/set system Be brief.
/set system
/set system ""
/set system
/set temperature
/set parameter top_k
/load first
/set top_k 3
/show parameters
/save first talk
/save first walk
/bye
END
echo '# a second Tab lists names of several words'
TERM=xterm terminal -c 60 spectool run packed.bin <<'END' | tr -d '\r\007' |
@keys /load first \t\t\025/bye\n
END
    sed -n 's/ *$//; /^first talk  /p'
rm "$HOME/.local/share/spectool/first "*
echo '# Tab completes the names of saved sessions'
TERM=dumb terminal spectool run packed.bin <<'END' | tr -d '\r\007' |
@keys /load fi\t\n
/bye
END
    grep -o 'Loaded .*' | sed "s,$HOME,HOME,"
echo '# a conversation of more than 4096 tokens goes on, with the bits of one prompt'
mkdir long
sed 's/"max_position_embeddings": 2048/"max_position_embeddings": 16384/' "$TESTDATA/tiny/target/config.json" >long/config.json
for f in "$TESTDATA"/tiny/target/*; do [ -e "long/${f##*/}" ] || ln -s "$f" long/; done
printf 'FROM ./long\n' >Modelfile.long
spectool create -f Modelfile.long -q q4 -o long.bin 2>/dev/null
echo '# a session of another packed file'
session long.bin <<'END' | grep -o 'It was .*'
/load ./copy.json
/bye
END
session packed.bin <<'END' | grep -c 'It was'
/load ./copy.json
/bye
END
echo odd >odd.bin
echo '# another model goes on with the conversation and what was set; one that fails changes nothing'
session packed.bin --num-predict 12 <<'END'
What is 7 plus 8?
/set top_k 7
/load other/model
/load ./packed.bin.none
/load ./odd.bin
/load ./bad.json
/load long.bin
/show info
/set top_k
/show messages
What is the capital of Italy?
END
words=$(yes 'The quiet duck walked to the old bridge and saw a turtle.' | head -n 120 | tr '\n' ' ')
{
    printf '{"spectool_session": 1, "messages": ['
    for i in 1 2 3; do printf '{"role": "user", "content": "%s"}, {"role": "assistant", "content": "Yes."}, ' "$words$i"; done
    printf '{"role": "user", "content": "So?"}, {"role": "assistant", "content": "Yes."}]}\n'
} >begun.json
session long.bin --num-predict 12 <<'END' | grep '^context' | sed 's/;.*//'
/load ./begun.json
What is 7 plus 8?
/show
What is the capital of Italy?
/save ./long.json
/show
/bye
END
grep '"role"' long.json >messages
{ printf '{"messages": ['; sed '$d' messages | sed '$s/,$//'; printf ']}\n'; } | tr -d '\n' |
    spectool run long.bin --batch --num-predict 12 | sed 's/.*"text": \("[^"]*"\), "stop".*/\1/' >alone
sed -n '$s/.*"content": \("[^"]*"\).*/\1/p' messages | cmp - alone && echo 'as in one prompt'
echo '# text that is typed is announced and ends with one Ctrl-D'
typed() {
    # shellcheck disable=SC2086 # words
    printf '%s\n' '@await ends the input\r\n' "@send $1\\004" | TERM=dumb terminal spectool $2 >log
    echo "exit $?"
    sed -n 's/\r$//; /^reading/p; /^spectool/p' log
}
typed 'Once upon a time\n' 'tokenize packed.bin --ids'
typed '582\n' 'detokenize packed.bin'
typed '"Hi"\n' 'run packed.bin --batch -n 1'
typed '[]\n' 'render packed.bin'
typed '' 'run packed.bin --format - hi'
typed 'Hi\n' 'embed packed.bin --pooling mean'
echo '# what embeds nothing is said before'
TERM=dumb terminal spectool embed packed.bin </dev/null >log
sed -n 's/\r$//; /^reading/p; /^spectool/p' log
echo '# messages of files and of an editor; formats; stop texts; what is typed meanwhile'
echo 'What is 7 plus' >seven
printf '#!/bin/sh\nkill -INT $PPID\ncp "$1" "$1~"\nprintf "What is 7 plus 8?\\n" >"$1"\n' >editor
chmod +x editor
unset VISUAL
mkdir tmp
TMPDIR=$PWD/tmp EDITOR=$PWD/editor session packed.bin --num-predict 12 <<'END'
/read
/read nothing
/read seven 8?
/show messages
/clear
/edit
/show messages
/clear
/set format nothing
/set format {"type":"integer"}
What is 7 plus 8?
/set format none
What is 7 plus 8?
/set stop
/set stop "is"
/set stop
What is 7 plus 8?
/set stop ""
/set stop
END
ls tmp
EDITOR=false session packed.bin <<'END'
/edit
/show messages
END
session packed.bin --ignore-eos --num-predict 300 <<'END' | grep zzz
@keys What is 7 plus 8?\n
@await 15
@send /nozzz\n
/bye
END
