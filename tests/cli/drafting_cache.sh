# What a run learns of drafting is kept for the next one with the same file; it changes no text.
export XDG_CACHE_HOME=$PWD/cache
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
plain() { spectool run packed.bin --raw 'Once upon a time' --quiet --ignore-eos -n 240 "$@" 2>&1; }
answer() { plain --draft-by model "$@"; }
files() { ls cache/spectool/drafting 2>/dev/null | sed 's/[0-9a-f]\{16\}/HASH/g'; }
echo '# nothing is kept with --no-cache, without drafting, or of a few rounds'
answer --no-cache >want
plain --no-draft | cmp - want
spectool run packed.bin --raw 'Once' --quiet --ignore-eos -n 3 >/dev/null 2>&1
files
answer | cmp - want
files
file=$(echo cache/spectool/drafting/*)
grep -c '"version": 1, "verify": \[\[' "$file"
[ "$(stat -c %a "$file")" = 600 ] || stat -c %a "$file"
echo '# the next run begins with it'
answer | cmp - want
files
echo '# a damaged file is replaced'
echo '{"version": 1}' >"$file"
answer | cmp - want
grep -c '"drafted": \[' "$file"
echo '# other threads, another file'
answer --threads 1 | cmp - want
files
