# Every wrong command line prints one line on standard error and exits with status 2.
try() {
    spectool "$@"
    status=$?
    [ $status -eq 2 ] || echo "exit $status: $*"
}
try creat
for other in pull rm list ps stop chat server convert; do try $other; done
: >model.bin
try model.bin
try --verison
try create --quantise q4
try create --nonsense
try create -x
try create --quantize q7
try create --threads 0
try create --threads 257
try create --threads 1.5
try create --threads
try create --force=yes
try create extra more
try create extra --file Modelfile
try create -q Q4_K_M
try create -q q5_k_m
try create -q q6_k
try create -q Q3_K_S
try create -q q2_k
try create -q iq4_xs
try create -q Q8_0
try create -q iq2_xxs
try create -q bfloat16
try create -q fp16
try create -q half
try create --draft-quantize q7
try quantize a b --quantize-draft auto
try bench --synthetic smollm2-135m --quantize-draft AUTO
try run a --kv-type q8_0
try run a --accept coupeled
try run a hello world
try tokenize a hello world
try quantize
try quantize packed.bin
try quantize packed.bin q4
try quantize packed.bin out.bin Q4_K_M
try quantize packed.bin -o out.bin -q q4
try show
try show a b --template
try show --modelfile --tensors a
try verify a prompt
try verify a --num-predict 4
try run a --temperature hot
try run a --top-p 1.5
try run a -n x
try run a --temp hot
try run a --quiet --verbose
try run a hi --context-full shift
try run a --context-full shift --raw
try run a --memory 5T
try run a --num-pre 5
try run a --num 5
try run -m a
try run -hf a
try run a -ngl 99
try serve --n-gpu-layers 99 a
try run -p hello a
try show a -n 5
try -v
try run a -f prompt.txt
try run a -i
try run a -fa hello
try run a --keepalive 5m hello
try run a --no-mmap hello
try run a -ctk q8_0 hello
try serve --api-key secret a
try serve --keepalive 5m a
try serve -np 4 a
try show a --license
try bench a -i
try run a --logprobs prompt
try run a --json --show-draft prompt
try run a --ids 1 prompt
try render a hello world
try render a hello --batch
try render a hello --messages m.json
try logits a
try logits a --ids 1 --text x --output x.npy
try logits a --ids 1
try logits a --ids 1 --steps 2 --output x.npy
try tokenize a --batch text
try completions tcsh
try show ''
try run '' prompt
try run a prompt --format ''
try create --output=
echo '# on a terminal a long line is broken between words'
TERM=xterm terminal -c 50 spectool verify --lossles model.bin </dev/null 2>&1 | tr -d '\r' | tail -n 1
