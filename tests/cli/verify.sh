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
numbers() { sed 's/[0-9.]*e-[0-9]*/N/g'; }
spectool verify --reference --num-predict 12 --ids 582,580 --ids 258,421 packed.bin | numbers
spectool verify --reference --lossless --num-predict 12 --kv-type f32 --json packed.bin 'What is 7 plus 8?' | counts |
    sed 's/: 0\.[0-9e-]*/: N/g; s/: [0-9.]*e-[0-9]*/: N/g'
spectool verify --reference --sessions 2 packed.bin
spectool logits --reference --ids 582,580 -o reference.npy packed.bin
spectool logits --reference --ids 582,580 -o reference.npy --kernels scalar packed.bin
spectool eval --reference --ids 582,580,258,421 --kv-type f32 --places 0 packed.bin | head -n 1
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
# A checkpoint has no digests: it is read, and a number that is none is found.
cp -r "$TESTDATA/tiny/ar" ar && chmod -R u+w ar
XDG_CACHE_HOME=$PWD/cache spectool verify ar
printf '\377\377\377\377' | dd of=ar/model.safetensors bs=1 seek=100000 conv=notrunc 2>/dev/null
XDG_CACHE_HOME=$PWD/cache spectool verify ar
echo "exit $?"
ls -d cache 2>/dev/null
