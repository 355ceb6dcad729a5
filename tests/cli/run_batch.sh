# One prompt per line, one answer per line, in the same order. Each equals the answer to a single run.
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 2>/dev/null
cat >prompts <<'END'
"What is 7 plus 8?"
[582,580,258,421]
{"messages": [{"role": "user", "content": "What is 3 plus 4?"}]}

"Once upon a time"
{"messages": [{"role": "tool", "content": "no"}]}
{"messages": [{"role": "user"}]}
{"messages": [], "more": 1}
{"custom_id": "7", "prompt": null}
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
# The settings of a line precede the common ones, and its custom_id is printed before its answer.
cat >settings <<'END'
{"custom_id": "a \"b\"", "prompt": "Once upon a time", "temperature": 1.5, "top_k": 20, "seed": 9, "num_predict": 12}
{"custom_id": "stops", "prompt": "Once upon a time", "temperature": 0, "stop": [" worried"]}
{"custom_id": "form", "prompt": [582,580,258,421], "format": {"enum": ["owl"]}, "draft_num_predict": 0}
{"custom_id": "think", "prompt": "Why?", "think": 1}
{"custom_id": "other", "prompt": "Why?", "top_n": 1}
{"custom_id": "both", "prompt": "Why?", "messages": []}
{"custom_id": "range", "prompt": "Why?", "top_p": 7}
{"custom_id": "ctx", "prompt": "Why?", "num_ctx": 100}
{"custom_id": "form", "prompt": "Why?", "format": "xml"}
{"custom_id": 5, "prompt": "Why?"}
{"custom_id": "ids", "prompt": [1, -1]}
{"custom_id": "empty", "prompt": ""}
END
spectool run packed.bin --batch $options <settings | sed 's/"ids": .*"text"/"text"/; s/, "rounds".*/}/' >answers
cat answers
{
    spectool run packed.bin --json 'Once upon a time' --temperature 1.5 --top-k 20 --seed 9 --num-predict 12
    spectool run packed.bin --json 'Once upon a time' --num-predict 24 --stop ' worried'
    echo '"text": "\"owl\"", "stop"'
} 2>/dev/null | grep '"stop"' | text_of >wanted
sed 3q answers | text_of | cmp - wanted && echo 'as alone'
echo '{"prompt": "Why?", "format": "json"}' | spectool run packed.bin --batch --ignore-eos
# Generation ends when the output is closed, although this input never ends.
yes '"Why?"' | timeout 60 spectool run packed.bin --batch --num-predict 2 >/dev/full; echo $?
# A signal while the command waits for a prompt.
mkfifo lines
spectool run packed.bin --batch --num-predict 2 <lines >first &
exec 3>lines
echo '"Why?"' >&3
while [ ! -s first ]; do sleep 0.05; done
kill $!
wait $! 2>/dev/null; echo $?
# The output is closed or full while the input is idle.
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
