# Writes logits as a NumPy array, equal for every number of rows per pass, and those of the draft.
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
spectool logits packed.bin --ids 582,580,258,421 --kv-type f32 -o a.npy
spectool logits packed.bin --text 'Once upon a time' --kv-type f32 --rows 1 --kernels scalar -o b.npy
cmp a.npy b.npy && echo 'the same logits'
head -c 127 a.npy | tr -d '\223' | tr '\001\000v' '...'; echo
wc -c <a.npy
spectool logits packed.bin --draft --ids 582,580,258,421 -o d.npy
head -c 100 d.npy | grep -a -o 'shape.: ([0-9, ]*)'
spectool logits packed.bin --draft --steps 3 --ids 582,580,258,421 -o d.npy
head -c 100 d.npy | grep -a -o 'shape.: ([0-9, ]*)'
spectool create -f "$TESTDATA/tiny/Modelfile.ar" -o ar.bin 2>/dev/null
spectool logits ar.bin --draft --steps 3 --ids 582,580,258,421 -o e.npy &&
  head -c 100 e.npy | grep -a -o 'shape.: ([0-9, ]*)'
rm ar.bin e.npy
spectool logits packed.bin --ids 582,99999 -o e.npy
echo "exit $?"
spectool logits packed.bin --ids 582 -o nowhere/e.npy
echo "exit $?"
ls
echo '# what is no array is not replaced'
cp packed.bin kept.bin
spectool logits packed.bin --ids 1 -o kept.bin; echo "exit $?"
cmp packed.bin kept.bin
spectool logits packed.bin --ids 1 -o d.npy && wc -c <d.npy
