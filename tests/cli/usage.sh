# Every way to call a command wrongly is one line on stderr and exit 2.
try() {
    spectool "$@"
    status=$?
    [ $status -eq 2 ] || echo "exit $status: $*"
}
try creat
try create --quantise q4
try create --nonsense
try create -x
try create --quantize q5
try create --threads 0
try create --threads 257
try create --threads 1.5
try create --threads
try create --force=yes
try create extra
try quantize
try quantize packed.bin
try show
try show a b
try show --modelfile --tensors a
try verify a prompt
try verify a --num-predict 4
try run a --temperature hot
try run a --top-p 1.5
try run a --temp 1
try run a -n 5
try run a --num-pre 5
try run a --num 5
try run -m a
try run -p hello a
try show a -n 5
try -v
try run a --logprobs prompt
try run a --json --show-draft prompt
try run a --ids 1 prompt
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
