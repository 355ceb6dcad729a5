# Every figure is printed. Their values depend on the machine and are masked.
mask() { sed '/^Energy/d; s/[0-9][0-9.]*/N/g; s/  */ /g; s/avx[a-zN]*/K/; s/scalar/K/'; }
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 2>/dev/null
spectool bench packed.bin --num-predict 8 --repeat 1 --depths 64,7 | mask
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 582,580 --json | grep -o '"[a-z_]*": ' | sort -u | grep -v joules | tr -d '\n'
echo
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --depths 7 --draft-depth 0 | tail -3 | mask
printf 'What is 7 plus 8?' >question
for prompt in --prompt='What is 7 plus 8?' --text=question; do
    spectool bench packed.bin --num-predict 8 --repeat 1 --depths 7 "$prompt" --json | grep -o '"prompt_tokens": [0-9]*'
done
spectool run packed.bin --num-predict 1 --json 'What is 7 plus 8?' | grep -o '"prompt_tokens": [0-9]*'
spectool bench packed.bin --text nowhere; echo "exit $?"
rm question
echo '# simulation: labeled everywhere, and as often right as asked'
spectool bench packed.bin --num-predict 8 --repeat 1 --depths 7 --ids 1,2 --simulate-acceptance 1 | tail -3 | mask
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --simulate-acceptance 0 --draft-depth 3 --json --svg out.svg |
    grep -o '"simulated": true\|"simulated_acceptance": [0-9.]*\|"acceptance": [0-9.]*'
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --simulate-acceptance 1 --draft-depth 3 --json |
    grep -o '"acceptance": [0-9.]*\|"tokens_per_pass": [0-9.]*'
grep -c '^<polyline' out.svg
grep -o 'SIMULATED, acceptance 0' out.svg
tail -1 out.svg
echo '# several draft tokens: one behind the first in rounds of one more than the depth; the rounds of run'
for depth in 1 2 7 99; do
    spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --depths 7 --simulate-acceptance 1 --json \
        --draft-depth $depth | grep -o '"acceptance": [^,]*\|"tokens_per_pass": [^,}]*' | tr '\n' ' '
    echo "depth $depth"
done
of_run() {
    spectool run packed.bin --ids 582,580,258,421 --num-predict 64 --ignore-eos --draft-depth "$1" --json | tail -1 |
        sed 's/.*"rounds": \[//; s/\].*//' | grep -o '"drafted": [0-9]*\|"accepted": [0-9]*' |
        awk '/drafted/{d += $2; n++} /accepted/{a += $2} END{printf "%.6f %.6f\n", d ? a / d : 0, 63 / n}'
}
for depth in 1 3 15; do
    spectool bench packed.bin --num-predict 64 --repeat 2 --ids 582,580,258,421 --depths 7 --draft-depth $depth --json |
        sed 's/.*"acceptance": \([^,]*\), "tokens_per_pass": \([^,}]*\).*/\1 \2/' | awk '{printf "%.6f %.6f\n", $1, $2}' >of_bench
    of_run $depth | cmp - of_bench && echo "depth $depth: the rounds of run"
done
rm of_bench
echo '# rows are printed as soon as they are measured: the passes, while prompts are still running'
ids=$(yes -- --ids=1,2 | head -32)
: >rows
spectool bench packed.bin --num-predict 1000 --repeat 10 --depths 7 $ids >>rows &
bench=$!
while [ "$(grep -c 'x ' rows)" -lt 6 ] && kill -0 $bench; do sleep 0.05; done
kill -TERM $bench && echo "$(grep -c '^ *7 .*x ' rows) rows of a running benchmark"
wait $bench 2>/dev/null
echo "exit $?"
rm rows
echo '# random weights in a known shape'
spectool bench --synthetic smollm2-135m -q q4 --repeat 1 --num-predict 2 --num-ctx 32 --depths 8 --json made.bin |
    grep -o '"file": "[a-z.]*"\|"synthetic": "[a-z0-9-]*"'
spectool verify made.bin
spectool bench --synthetic smollm2-135m -q q4 made.bin
echo "exit $?"
rm made.bin
TMPDIR=$PWD spectool bench --synthetic smollm2-135m -q q4 --repeat 1 --num-predict 2 --num-ctx 32 --depths 8 | head -1 | mask
ls -A
echo '# refusals'
spectool bench; echo "exit $?"
spectool bench packed.bin --quantize q4; echo "exit $?"
spectool bench --synthetic smollm2-135m --synthetic-draft qwen3-0.6b; echo "exit $?"
spectool bench --synthetic smollm2-135m --synthetic-draft dflash; echo "exit $?"
spectool bench --synthetic gpt-oss-20b --layers 25; echo "exit $?"
spectool bench --synthetic gemma4-e4b --layers 5; echo "exit $?"
spectool bench --synthetic qwen3-0.6b --layers 14 --synthetic-draft dflash; echo "exit $?"
spectool bench packed.bin --layers 3; echo "exit $?"
spectool bench packed.bin --depths 2040; echo "exit $?"
spectool bench packed.bin --depths 0; echo "exit $?"
spectool bench packed.bin --draft-depth=1,2; echo "exit $?"
echo "FROM $TESTDATA/tiny/target" >Plain
spectool create -f Plain -o plain.bin 2>/dev/null
spectool bench plain.bin --num-predict 2 --repeat 1 --ids 1,2 --depths 7 --draft-depth 3 --draft-by model 2>&1 >/dev/null
echo '# without a draft the table of passes has no column for it'
spectool bench packed.bin --draft-depth 0 --num-predict 2 --repeat 1 --ids 1,2 --depths 7 | sed -n '/depth  *rows/,/^$/p' | mask | head -n 2
echo '# what is no chart is not replaced, and said before anything is measured'
cp packed.bin kept.bin
spectool bench packed.bin --svg kept.bin; echo "exit $?"
cmp packed.bin kept.bin
spectool bench packed.bin --svg nowhere/out.svg; echo "exit $?"
