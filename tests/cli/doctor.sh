# Every figure is printed. Their values depend on the machine and are masked.
mask() {
    sed '/^processor\|^CPUs\|^memory\|^huge/s/ .*/ M/; s/, without drafting//; s/[0-9][0-9.]*/N/g; s/  */ /g
        s/avx[a-zN]*\|neon/K/; s/ [kMG]*B/ B/g; s/bytes/B/g'
}
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 2>/dev/null
spectool doctor packed.bin | mask
spectool doctor packed.bin --threads 1 --kernels scalar | sed -n '/^one/,/^of one/p' | mask
spectool doctor nowhere.bin
echo "exit $?"
