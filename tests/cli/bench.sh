# Every figure is there; what they are depends on the machine.
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 2>/dev/null
spectool bench packed.bin --num-predict 8 --repeat 1 | sed 's/[0-9][0-9.]*/N/g; s/  */ /g; s/avx[a-zN]*/K/; s/scalar/K/'
spectool bench packed.bin --num-predict 8 --repeat 1 --ids 582,580 --json | grep -o '"[a-z_]*": ' | sort -u | tr -d '\n'
echo
