# Quantizes one part of a packed file and copies the other byte for byte.
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q8 2>/dev/null
spectool quantize --draft q4 packed.bin out.bin
spectool show --tensors packed.bin | grep '^target' >before
spectool show --tensors out.bin | grep '^target' | cmp - before && echo 'the target is untouched'
spectool show --tensors out.bin | grep '^draft'
spectool quantize --draft q4 packed.bin out.bin
echo "exit $?"
spectool quantize --target q4 packed.bin
echo "exit $?"
spectool quantize --target q4 --requantize packed.bin
spectool quantize -q q4 --quantize-draft q4 --dry-run packed.bin | sed -n '1p; /0.mlp.down/p'
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q8 --quantize-draft q4 -o direct.bin 2>/dev/null
cmp out.bin direct.bin && echo 'as if made at once'
ls -A
echo '# what is damaged is named with its file'
at=$(grep -abo SPTOKMAP packed.bin | head -n 1 | cut -d : -f 1)
printf '\377' | dd of=packed.bin bs=1 seek=$((at + 1000)) conv=notrunc 2>/dev/null
spectool quantize --draft q8 --requantize packed.bin damaged.bin
echo "exit $?"
