# Activation statistics collected from texts, and a q4 file that uses them.
spectool create -f "$TESTDATA/tiny/Modelfile" -o target.bin 2>/dev/null
printf 'Once upon a time there was a lonely owl. What is 7 plus 8? 7 plus 8 is 15.\n' >one.txt
printf 'Count from 3 to 15. Tell me a story about a cat and a dog.\n' >two.txt
spectool calibrate target.bin one.txt two.txt
echo "exit $?"
spectool calibrate --threads 1 --kernels scalar -o again.bin target.bin one.txt two.txt 2>/dev/null
cmp calibration.bin again.bin && echo 'the same from any kernels'
cat one.txt | spectool calibrate -o again.bin target.bin - two.txt
echo "exit $?"
cat one.txt | spectool calibrate --force -o again.bin target.bin - two.txt
cmp calibration.bin again.bin && echo 'the same from standard input'
spectool verify calibration.bin
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --calibration calibration.bin
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --calibration calibration.bin --dry-run 2>/dev/null |
    sed -n '1p; /layers.0.*calibrated/p'
spectool calibrate --force -o again.bin packed.bin one.txt
spectool quantize -q q4 --calibration calibration.bin target.bin again.bin --force 2>/dev/null
cmp packed.bin again.bin && echo 'as if made at once'
spectool quantize -q q4 --quantize-output q4 --calibration calibration.bin target.bin again.bin --force
# Sensitivities, and the divergence that create predicts from them.
spectool calibrate --sensitivity --force -o sensitive.bin target.bin one.txt two.txt
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --calibration sensitive.bin --dry-run 2>/dev/null |
    sed -n '/^part    group/,/^target  all/p'
spectool show sensitive.bin
# Types of KV caches, chosen by what the calibration says of them.
spectool run target.bin --ids 1,2,3 --kv-type auto
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile" --calibration sensitive.bin -o caches.bin 2>/dev/null
spectool show caches.bin | grep KL
spectool show caches.bin --metadata | grep caches
spectool run caches.bin --ids 1,2,3 --num-predict 8 --kv-type auto --verbose 2>&1 | grep '^KV'
spectool verify --lossless --ids 582,580,258,421 --kv-type auto caches.bin | sed 's/(.*//'
spectool eval caches.bin --text one.txt --against caches.bin --kv-type auto --places 0
spectool quantize -q q8 caches.bin q8.bin 2>/dev/null
spectool show q8.bin | grep -c KL
echo "FROM $TESTDATA/families/olmo2" >Other
spectool create -f Other --calibration sensitive.bin -o caches.bin --force
echo "exit $?"
rm sensitive.bin caches.bin q8.bin Other
# Smoothing.
spectool create -f "$TESTDATA/tiny/Modelfile" -q q8 --calibration calibration.bin -o smooth.bin
spectool create -f "$TESTDATA/tiny/Modelfile" -q q8 --calibration calibration.bin --dry-run 2>/dev/null |
    grep 'layers.0.*smoothed'
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --calibration calibration.bin --dry-run 2>/dev/null | grep -c smoothed
spectool show smooth.bin | grep smoothed
spectool show smooth.bin --json | grep -o '"smoothed_norms": *[0-9]*'
spectool calibrate smooth.bin one.txt --force
echo "exit $?"
spectool quantize --requantize -q q5 --calibration calibration.bin smooth.bin out.bin
spectool calibrate out.bin one.txt --force
echo "exit $?"
rm smooth.bin out.bin
# A draft is calibrated, too, and another draft is refused.
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize-draft q4 --calibration calibration.bin --dry-run 2>/dev/null |
    grep '^draft.*calibrated'
spectool create -f "$TESTDATA/tiny/Modelfile.ar" --quantize-draft q4 --calibration calibration.bin -o out.bin
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize-draft auto --calibration calibration.bin -o out.bin 2>&1 |
    grep becomes
rm out.bin
# Refusals.
spectool create -f "$TESTDATA/tiny/Modelfile" -q bf16 --calibration calibration.bin --force
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 --calibration target.bin --force
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile.ar" -q q4 --calibration one.txt --force
echo "exit $?"
# A calibration is described, and no command takes it for a model.
spectool show calibration.bin
spectool show calibration.bin --json | sed 's/"identity": "[^"]*"/.../'
echo "FROM ./calibration.bin" >From
echo '[{"role": "user", "content": "hi"}]' >messages.json
for command in 'run calibration.bin hi' 'run calibration.bin --huge-pages --ids 1' 'run calibration.bin --ranks 2 --ids 1' \
    'serve calibration.bin --port 0' 'bench calibration.bin' 'tokenize calibration.bin hi' 'detokenize calibration.bin 1' \
    'render calibration.bin messages.json' 'embed calibration.bin hi' 'logits calibration.bin --ids 1 --output x.npy' \
    'eval calibration.bin --text one.txt' 'calibrate calibration.bin one.txt --force' 'verify --lossless calibration.bin' \
    'show --template calibration.bin' 'show --modelfile calibration.bin' 'export calibration.bin out' \
    'quantize -q q4 calibration.bin out.bin' 'create -f From -o out.bin' \
    'create calibration.bin -o out.bin'; do
    echo "# $command" >&2
    spectool $command
    echo "exit $?"
done
rm From messages.json
spectool calibrate target.bin
echo "exit $?"
spectool calibrate target.bin missing.txt
echo "exit $?"
ln -s target.bin link.bin
spectool calibrate --force -o link.bin target.bin one.txt
echo "exit $?"
rm link.bin
printf '' >empty.txt
spectool calibrate target.bin empty.txt --force
echo "exit $?"
ls -A
