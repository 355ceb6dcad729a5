# Every figure is there; what they are depends on the machine.
mask() { sed 's/[0-9][0-9.]*/N/g; s/  */ /g; s/avx[a-zN]*/K/; s/scalar/K/'; }
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 2>/dev/null
spectool bench packed.bin --num-predict 8 --repeat 1 --depths 64,7 | mask
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 582,580 --json | grep -o '"[a-z_]*": ' | sort -u | tr -d '\n'
echo
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --depths 7 --draft-depth 0 | tail -3 | mask
echo '# simulation: labelled everywhere, and as often right as asked'
spectool bench packed.bin --num-predict 8 --repeat 1 --depths 7 --ids 1,2 --simulate-acceptance 1 | tail -3 | mask
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --simulate-acceptance 0 --draft-depth 3 --json --svg out.svg |
    grep -o '"simulated": true\|"simulated_acceptance": [0-9.]*\|"acceptance": [0-9.]*'
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 1,2 --simulate-acceptance 1 --draft-depth 3 --json |
    grep -o '"acceptance": [0-9.]*\|"tokens_per_pass": [0-9.]*'
grep -c '^<polyline' out.svg
grep -o 'SIMULATED, acceptance 0' out.svg
tail -1 out.svg
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
spectool bench packed.bin --depths 2040; echo "exit $?"
spectool bench packed.bin --depths 0; echo "exit $?"
