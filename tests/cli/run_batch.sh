# One prompt per line, one answer per line, in the same order. Each equals the answer to a single run.
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 2>/dev/null
cat >prompts <<'END'
"What is 7 plus 8?"
[582,580,258,421]
{"messages": [{"role": "user", "content": "What is 3 plus 4?"}]}

"Once upon a time"
{"messages": [{"role": "tool", "content": "no"}]}
{"messages": [{"role": "user"}]}
{"messages": [], "Seed": 1, "stream": 1}
{"prompt": "hi", "id": "row7"}
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
    sed -n 5,11p answers
    alone 'Why?'
} >wanted
cmp answers wanted && echo 'as alone'
sed -n 5,11p answers
for n in 1 2 8; do
    spectool run packed.bin --batch --sessions $n $options --no-draft <prompts | text_of >$n
    cmp $n wanted && echo "$n at a time"
done
echo '# rounds with --verbose; a closing line on a terminal'
for verbose in --verbose --quiet; do
    head -n 1 prompts | spectool run packed.bin --batch $options $verbose | grep -c '"rounds"'
done
terminal sh -c 'spectool run packed.bin --batch --num-predict 3 -o closing <prompts' </dev/null 2>&1 | tr -d '\r' | grep -o '[0-9]* answers.*tokens/s' |
    sed 's/[0-9.]* tokens.s/RATE/'
rm closing
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
{"custom_id": "model", "prompt": "Why?", "model": 1}
END
spectool run packed.bin --batch $options <settings | sed 's/"ids": .*"text"/"text"/; s/, "prompt_tokens".*/}/' >answers
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
spectool run packed.bin --batch prompts </dev/null
spectool run packed.bin --sessions 2 'What?' </dev/null
# Requests of OpenAI's and Anthropic's batches. Errors name the line, and the status counts them.
cat >requests <<'END'
{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": [582,580,258,421], "max_tokens": 6}}

{"custom_id": "b", "params": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}}
[582,580,258,421]
{"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "What is 7 plus 8?"}]}}
{"custom_id": "d", "method": "GET", "url": "/v1/completions", "body": {}}
{"custom_id": "e", "method": "POST", "url": "/v1/audio/speech", "body": {}}
{"custom_id": "f", "method": "POST", "url": "/v1/responses"}
{"method": "POST", "url": "/v1/responses", "body": {}}
{"custom_id": "h", "params": [1]}
{"custom_id": "i", "params": {"stream": true}}
{"custom_id": 9, "params": {}}
END
mask() { sed 's/req_[0-9a-f]*/req_N/g; s/"id": "\(cmpl-\|chatcmpl-\|msg_\)[^"]*"/"id": "\1N"/; s/"created": [0-9]*/"created": T/; s/"system_fing[^,]*, //; s/, "usage.*}\(}, "error\)/\1/; s/, "usage.*/, .../; s/"ids".*/.../'; }
batch() { spectool run packed.bin --batch --num-predict 4 "$@"; }
batch <requests >answers; echo $?
mask <answers
sed -n 1p requests | batch --format json | mask
echo '{"custom_id": "k", "params": {"keep_alive": "soon", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}}' | batch
# A batch goes on after the answers that a file has; a line without an end is dropped.
batch --quiet -o all <requests; echo $?
for kept in 0 1 4 10; do
    head -n $kept all >before
    { cat before; tail -n 1 all | head -c 20; } >part
    batch --quiet -o part <requests 2>/dev/null
    echo "$?: $(head -n $kept part | cmp - before && wc -l <part) lines, $kept of them kept"
    sed 's/.*"custom_id": \("*.\).*/\1/; s/^{.*/-/' part | tr -d '\n'
    echo
done
sed 2q all >part
batch -o part <requests; echo $?
batch -o part <requests 2>&1 >/dev/null | sed 's/ failed.*//'
sed 's/"a"/"other"/' requests | batch -o all --quiet
sed 4q requests | batch -o all --quiet; echo $?
# A refused batch changes nothing, a last line without an end included.
{ sed 2q all; tail -n 1 all | head -c 20; } >part
cp part before
sed 's/"a"/"other"/' requests | batch -o part --quiet
cmp part before
printf 'precious\n' >notes
batch -o notes <requests
cat notes
printf 'precious, without a newline' >notes
batch -o notes <requests
cat notes
echo
batch -o missing/x <requests
batch -o /dev/full <requests; echo $?
spectool run packed.bin -o x 'What?'
# A signal: the completed answers are in the file.
mkfifo slow
spectool run packed.bin --batch --ignore-eos -o third <slow 2>message &
exec 6>slow
echo '{"prompt": "Why?", "num_predict": 2}' >&6
echo '{"prompt": "Why?", "num_predict": 100000}' >&6
while [ ! -s third ]; do sleep 0.05; done
echo '"Why?"' | spectool run packed.bin --batch -o third; echo $?
kill $!
wait $! 2>/dev/null; echo $?
exec 6>&-
cat message; wc -l <third
echo '# parts: their answers in order are those of the whole'
for i in 1 2 3 4 5 6 7 8 9 10 11; do
    echo "{\"prompt\": \"What is $i plus 2?\", \"custom_id\": \"$i\"}"
    [ $((i % 4)) -ne 0 ] || echo
done >prompts
spectool run packed.bin --batch --num-predict 6 <prompts | grep -o '"custom_id": "[0-9]*"\|"text": "[^"]*"' >whole
for n in 1 2 3 11 20; do
    for i in $(seq $n); do spectool run packed.bin --batch --num-predict 6 --part $i/$n <prompts; done |
        grep -o '"custom_id": "[0-9]*"\|"text": "[^"]*"' | cmp - whole && echo "$n parts"
done
spectool run packed.bin --batch --part 2/3 <prompts | wc -l
for wrong in 0/3 4/3 1 1/ /2 -1/2 1/2x 1/99999999999999999999; do spectool run packed.bin --batch --part=$wrong <prompts; done
cat prompts | spectool run packed.bin --batch --part 1/2; echo $?
echo '# a line without an end takes bounded memory'
head -c 66M /dev/zero | tr '\0' a | spectool run packed.bin --batch; echo $?
spectool run packed.bin --part 1/2 x
