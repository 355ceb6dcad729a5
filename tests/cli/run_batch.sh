# A prompt a line, an answer a line, in their order; each is what it is alone.
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 2>/dev/null
cat >prompts <<'END'
"What is 7 plus 8?"
[582,580,258,421]
{"messages": [{"role": "user", "content": "What is 3 plus 4?"}]}

"Once upon a time"
{"messages": [{"role": "tool", "content": "no"}]}
{"messages": [{"role": "user"}]}
{"messages": [], "more": 1}
{"prompt": "What?"}
12
"
END
printf ' \t\r\n\n  "Why?" \r\n' >>prompts
options='--num-predict 24 --temperature 0.7 --seed 3'
text_of() { sed 's/.*"text": \(".*"\), "stop".*/\1/'; }
alone() { spectool run packed.bin --json $options "$@" 2>/dev/null | tail -1 | text_of; }
spectool run packed.bin --batch $options <prompts | text_of >answers
{
    alone 'What is 7 plus 8?'
    alone --ids 582,580,258,421
    alone 'What is 3 plus 4?'
    alone 'Once upon a time'
    sed -n 5,10p answers
    alone 'Why?'
} >wanted
cmp answers wanted && echo 'as alone'
sed -n 5,10p answers
for n in 1 2 8; do
    spectool run packed.bin --batch --sessions $n $options --no-draft <prompts | text_of >$n
    cmp $n wanted && echo "$n at a time"
done
printf '' | spectool run packed.bin --batch; echo $?
# Nothing is generated for nobody: this input never ends.
yes '"Why?"' | timeout 60 spectool run packed.bin --batch --num-predict 2 >/dev/full; echo $?
# A signal while it waits for a prompt.
mkfifo lines
spectool run packed.bin --batch --num-predict 2 <lines >first &
exec 3>lines
echo '"Why?"' >&3
while [ ! -s first ]; do sleep 0.05; done
kill $!
wait $! 2>/dev/null; echo $?
# Nobody reads on, or nothing more can be written, while the input is silent.
mkfifo silent
{ spectool run packed.bin --batch --num-predict 2 <silent; echo $? >status; } | sed q >second &
exec 4>silent
echo '"Why?"' >&4
wait; cat status
spectool run packed.bin --batch --num-predict 2 <silent >/dev/full &
exec 5>silent
echo '"Why?"' >&5
wait $!; echo $?
exec 4>&- 5>&-
spectool run packed.bin --batch 'What?' </dev/null
spectool run packed.bin --sessions 2 'What?' </dev/null
