# Damage is detected and located, and drafting is lossless.
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 2>/dev/null
spectool verify packed.bin
spectool verify --json packed.bin
spectool verify --lossless --num-predict 40 packed.bin 'Once upon a time' 'What is 7 plus 8?' | sed 's/(.*//'
spectool verify --lossless --ids 582,580,258,421 --draft-depth 3 --threads 1 --kv-type q8 packed.bin | sed 's/(.*//'
spectool verify --lossless --sessions 5 --num-predict 40 packed.bin 'What is 7 plus 8?' | sed 's/(.*//'
counts() { sed 's/ "logits_xxh3": "[0-9a-f]*",//'; }
spectool verify --lossless --num-predict 40 --json packed.bin 'Once upon a time' 'What is 7 plus 8?' | counts
spectool verify --lossless --ids 582,580,258,421 --draft-depth 3 --threads 1 --kv-type q8 --json packed.bin | counts
spectool verify --lossless --sessions 5 --num-predict 40 --json packed.bin 'What is 7 plus 8?' | counts
spectool verify --lossless --sessions 2 --num-predict 4 --json --ids 582,580 packed.bin | grep -o '"sessions": 2, "lossless": true'
cp packed.bin damaged.bin
printf '\377' | dd of=damaged.bin bs=1 seek=1000000 conv=notrunc 2>/dev/null
spectool verify damaged.bin
echo "exit $?"
spectool verify --lossless damaged.bin
echo "exit $?"
head -c 1000000 packed.bin >short.bin
spectool verify short.bin
echo "exit $?"
sed '/^DRAFT/d; s,\./,'"$TESTDATA/tiny/"',' "$TESTDATA/tiny/Modelfile" >Modelfile
spectool create -o plain.bin 2>/dev/null
spectool verify --lossless --draft-by lookup plain.bin 'Tell me a story' | sed 's/(.*//'
spectool verify --lossless --draft-by lookup --json plain.bin 'Tell me a story' | counts
spectool verify --lossless --num-predict 3 --ids 582 plain.bin | sed 's/(.*//'
spectool verify --lossless --draft-by model plain.bin
