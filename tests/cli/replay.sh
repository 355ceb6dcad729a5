# Recorded answers are computed again with other threads, kernels and drafting; a change is found where it begins.
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 2>/dev/null
for i in 1 2 3 4 5 6 7 8; do echo "\"What is $i plus 7?\""; done |
    spectool run packed.bin --batch --sessions 8 --temperature 0.7 --seed 5 --dry-multiplier 0.5 --logit-bias 262=-1 \
        --num-predict 24 --record log --quiet >answers
spectool run packed.bin --ids 582,580,258,421 --num-predict 20 --kv-type q8 --record log --quiet >/dev/null
spectool run packed.bin --format json --num-predict 9 --record log --quiet 'An object' >/dev/null
spectool run packed.bin --ids 582,580 --num-predict 9 --temperature 1 --seed 3 --accept rejection --record log --quiet >/dev/null
spectool replay log packed.bin --kernels scalar --threads 1
spectool replay log packed.bin --kernels avx2 --threads 1 >avx2 2>&1 || [ $? = 4 ] || cat avx2
spectool replay log packed.bin --no-draft --json
grep -c . log
grep -c plus log
sed -n '1s/"\(version\|file\)": "[^"]*"/"\1": N/g; 1s/\[[0-9, ]*\]/IDS/g; 1s/"[0-9a-f]\{16\}"/N/p' log
ls -l log | cut -c1-10
# A flipped weight.
cp packed.bin other.bin
printf '\377' | dd of=other.bin bs=1 seek=1300000 conv=notrunc 2>/dev/null
spectool replay log other.bin 2>&1 | sed 's/[0-9a-f]\{16\}/N/g'
sed -n '9s/"ids": \[[0-9]*/"ids": [1/p' log >changed
spectool replay changed packed.bin
echo "exit $?"
# The context of the session is recorded: some models turn positions by it.
spectool run packed.bin --ids 582 --num-predict 2 --num-ctx 640 --record wide --quiet >/dev/null
grep -o '"num_ctx": [0-9]*' wide
spectool replay wide packed.bin
sed 's/"num_ctx": 640/"num_ctx": 2/' wide >changed
spectool replay changed packed.bin
sed 's/"num_ctx": 640, //' wide >changed
spectool replay changed packed.bin
# An answer that ends with the context, and one of more tokens than the context holds.
spectool run packed.bin --ids "$(yes 582 | head -n 2040 | paste -sd, -)" --num-predict 20 --record full --quiet >/dev/null
spectool replay full packed.bin
sed 's/"ids": \[/&1, /; s/"ids": \[1, \([^]]*\)/"ids": [\1, 1/' full >changed
spectool replay changed packed.bin
spectool create "$TESTDATA/tiny/ar" -o ar.bin 2>/dev/null
spectool replay log ar.bin 2>&1 | sed 's/identity is .*/identity is N/'
spectool run ar.bin --ids 582,580 --num-predict 5 --record log --quiet >/dev/null
spectool replay log ar.bin
head -n 1 log | sed 's/"seed"/"sead"/' >bad
spectool replay bad packed.bin
echo '{"file": "12"}' >bad
spectool replay bad packed.bin
head -n 1 log | sed 's/"kv_type"/"adapter": "0123456789abcdef", "kv_type"/' >bad
spectool replay bad packed.bin
spectool replay missing packed.bin
spectool run packed.bin --ids 582 --record packed.bin # would be damaged
spectool run packed.bin --ids 582 --record missing/log
