# The three commands in a folder with a Modelfile, as they are.
mkdir literal && cd literal
for part in target dflash; do cp -r "$TESTDATA/tiny/$part" .; done
cp "$TESTDATA/tiny/Modelfile" .
spectool quantize --draft q4; echo "exit $?"
spectool create -f Modelfile 2>/dev/null
spectool quantize --draft q4
spectool run packed.bin --num-predict 8 --no-draft 'What is 7 plus 8?' 2>/dev/null
spectool verify --lossless packed.bin 'What is 7 plus 8?' 2>/dev/null | tail -1
cd .. && rm -r literal
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
at=$(grep -aboP '\x28\xb5\x2f\xfd' packed.bin | sed -n 5p | cut -d : -f 1) # the text of tokenizer.json
printf '\377' | dd of=packed.bin bs=1 seek=$((at + 1000)) conv=notrunc 2>/dev/null
spectool quantize --draft q8 --requantize packed.bin damaged.bin
spectool export packed.bin damaged
echo '# rules for single tensors: the last that matches decides, and the others keep their type'
spectool create -f "$TESTDATA/tiny/Modelfile" -o plain.bin 2>/dev/null
spectool quantize --rule 'layers.*_proj.weight=q4' --rule 'layers.[12].mlp.*=q6' --rule 'draft:fc.weight=Q3' plain.bin ruled.bin
spectool show --tensors ruled.bin | grep 'layers.[13].mlp.*weight\|embed\|fc'
spectool create -f "$TESTDATA/tiny/Modelfile" --rule 'layers.*_proj.weight=q4' --rule 'layers.[12].mlp.*=q6' --rule 'draft:fc.weight=q3' -o direct.bin --force 2>/dev/null
cmp ruled.bin direct.bin && echo 'as if made at once'
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --quantize-draft q4 --rule 'embed*=bf16' --rule 'draft:fc.weight=q2' --dry-run 2>/dev/null | grep 'embed_\|fc'
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --rule 'embed*=q6' --dry-run 2>&1 | grep -c 'embedding and output'
for rule in 'layers.*.mlp.down_proj=q4' 'draft:layers.7.*=q4' 'layers.0.*=q4' 'norm.weight' '=q4' 'embed*=q5_K_M'; do
    spectool quantize --rule "$rule" plain.bin none.bin
    echo "exit $?"
done
spectool quantize --rule 'layers.*_proj.weight=q3' ruled.bin none.bin
echo "exit $?"
echo "FROM $TESTDATA/tiny/target" >Modelfile
spectool create --rule 'draft:fc.weight=q8' -o none.bin
echo "exit $?"
echo '# a size: the best types that fit, the same at once and later, for any number of threads'
m=$TESTDATA/tiny/Modelfile
for size in 2400000 2800k 3200k; do
    spectool create -f "$m" --size $size --no-check -o sized.bin --force 2>/dev/null
    n=$(wc -c <sized.bin)
    number=${size%k}$([ "$size" = "${size%k}" ] || echo 000)
    [ "$n" -le "$number" ] && [ "$n" -ge $((number / 100 * 98)) ] || echo "$n bytes for $size"
    spectool quantize --size $size --no-check --threads 1 plain.bin later.bin --force 2>/dev/null
    cmp sized.bin later.bin
    spectool show sized.bin | sed -n '/^Draft/q; /types/,/size/p'
    spectool show sized.bin | sed -n '/^Receipts/,$s/^  types .*/&/p'
done
spectool quantize --bits 4.2 --no-check plain.bin --dry-run | sed -n '/^part    group/,$p'
spectool quantize --size 2600k --no-check --draft q4 --quantize-output q8 --rule 'layers.5.*_proj.weight=q6' plain.bin --dry-run | grep 'embed_\|layers.[45].mlp\|fc'
spectool quantize --size 10G plain.bin sized.bin --force
spectool quantize --size 1M plain.bin 2>&1 | sed 's,[0-9.]* MB$,N MB,'
spectool create -f "$m" --bits 2 -o none.bin; echo "exit $?"
spectool create -f "$m" --size 2M -q q4; echo "exit $?"
spectool quantize --size 2M --bits 4 plain.bin; echo "exit $?"
spectool quantize --size 2400k sized.bin; echo "exit $?"
echo '# at the size of q5 the chosen types are no better, and the file is that of q5; at 2800k they are'
echo "FROM $TESTDATA/tiny/target" >Modelfile
spectool create -q q5 -o q5.bin 2>/dev/null
spectool create --size $(wc -c <q5.bin) -o sized.bin --force; cmp q5.bin sized.bin
spectool create --size $(wc -c <q5.bin) --dry-run 2>/dev/null | grep 'target  all'
spectool quantize --size 2800k --threads 1 plain.bin later.bin --force
spectool create -f "$m" --size 2800k -o sized.bin --force 2>/dev/null; cmp sized.bin later.bin
[ "$(wc -c <sized.bin)" -le 2800000 ] && spectool show sized.bin | sed -n '/^Receipts/,/^$/p'
TMPDIR=none spectool quantize --size 2800k plain.bin none.bin 2>&1 | sed 's,none/spectool[^:]*,none/N,'
echo '# a checkpoint is quantized by create'
for model in "$TESTDATA/tiny/target" "$TESTDATA/gguf/olmo2.gguf" "$TESTDATA/tiny/Modelfile" someone/model missing.bin; do
    spectool quantize -q q4 "$model"
    echo "exit $?"
done
echo '# an older file: what eval --record stored in it is ignored, and left out of a new file'
cp "$TESTDATA/pack/recorded.bin" .
spectool verify recorded.bin
spectool show recorded.bin | sed -n '/^Receipts/,$p'
spectool run recorded.bin --ids 2,3,4 --num-predict 2 --json --no-draft | grep -o '"ids": \[[0-9, ]*\]'
echo 'FROM recorded.bin' >Modelfile
spectool create -o same.bin 2>&1 | grep receipt
spectool show same.bin --json | grep -o '"receipts".*'
spectool quantize --target f32 recorded.bin f32.bin 2>&1 | grep receipt
spectool show f32.bin | sed -n "/^Receipts/,\$p"
echo '# types that the file has already: nothing is written'
spectool create -f "$TESTDATA/tiny/Modelfile" -o twice.bin 2>/dev/null
spectool quantize --draft q4 twice.bin 2>/dev/null
ls -i twice.bin >before
spectool quantize --draft q4 twice.bin
ls -i twice.bin | cmp - before && echo 'not written'
spectool quantize --draft q4 twice.bin copy.bin 2>/dev/null && cmp twice.bin copy.bin && echo 'a copy'
spectool quantize --draft q4 -q q8 twice.bin 2>/dev/null; ls -i twice.bin | cmp -s - before || echo 'written'
