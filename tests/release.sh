#!/bin/sh
# What packaging/release made: the static program alone in an empty root makes the packed file, the text and the logits
# of the dynamic one; the checksums hold; the list of what is linked in agrees with the program.
# usage: tests/release.sh FOLDER SPECTOOL     FOLDER: where the results are, SPECTOOL: the dynamic program
set -eu
folder=$(cd "$1" && pwd)
spectool=$(realpath "$2")
testdata=$(cd "$(dirname "$0")/../testdata" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=/dev/null
fail() { echo "$1"; exit 1; }
static=$(echo "$folder"/spectool-*-linux-"$(uname -m)")
(cd "$folder" && sha256sum --quiet -c SHA256SUMS) || fail 'SHA256SUMS is wrong'
! readelf -dl "$static" | grep -E 'NEEDED|INTERP' || fail 'the program is not static'
[ "$("$static" --version)" = "$("$spectool" --version)" ] || fail 'another version'
[ "$("$static" run --help | grep '^ *--kernels')" = "$("$spectool" run --help | grep '^ *--kernels')" ] ||
    fail 'other kernel sets'

# An empty root, with the program and a checkpoint.
mkdir "$tmp/root"
cp "$static" "$tmp/root/spectool"
cp -r "$testdata/tiny" "$tmp/root/tiny"
in_root() {
    if [ "$(id -u)" = 0 ]; then chroot "$tmp/root" /spectool "$@"; else unshare -r chroot "$tmp/root" /spectool "$@"; fi
}
in_root create -f /tiny/Modelfile -q q4 -o /packed.bin >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
"$spectool" create -f "$testdata/tiny/Modelfile" -q q4 -o "$tmp/packed.bin" >"$tmp/log" 2>&1
cmp "$tmp/root/packed.bin" "$tmp/packed.bin" || fail 'another packed file'
answer='"logits_xxh3": "[0-9a-f]*"\|"ids": [^]]*'
for kernels in auto scalar; do
    for program in in_root "$spectool"; do
        cd "$tmp"
        [ "$program" = in_root ] && file=/packed.bin || file=packed.bin
        "$program" run --json --logits-digest --kernels $kernels --threads 2 --num-predict 40 --ignore-eos "$file" \
            'What is 7 plus 8?' | grep -o "$answer" >"$tmp/${program##*/}.$kernels"
    done
    [ -s "$tmp/in_root.$kernels" ] && cmp "$tmp/in_root.$kernels" "$tmp/${spectool##*/}.$kernels" || fail "$kernels: another answer"
done
code=0
in_root verify --reference /packed.bin >"$tmp/log" 2>&1 || code=$?
[ $code = 4 ] && grep -q 'OpenBLAS cannot be loaded by a static program' "$tmp/log" || { cat "$tmp/log"; fail 'the reference decoder is not refused'; }

# The server answers within its sandbox, and ends.
"$static" serve --host "$tmp/socket" "$tmp/packed.bin" >"$tmp/log" 2>&1 &
server=$!
curl -s --retry 50 --retry-delay 1 --retry-all-errors --unix-socket "$tmp/socket" http://localhost/health >"$tmp/health"
grep -q ok "$tmp/health" || { cat "$tmp/log"; fail 'the server does not answer'; }
kill -TERM $server
(sleep 20; kill -KILL $server 2>/dev/null) &
wait $server || fail "the server does not end: status $?"

# The versions that the program tells are those of the list, and the list has no other library.
"$static" --version --verbose | tr ',' '\n' | awk '{ sub(/^ */, ""); print tolower($1), $2 }' |
    sed -e 's/^libedit .*/libedit 3.1-20221030/' | sort >"$tmp/told"
sed -n 's/.*"name": "\([^"]*\)", "versionInfo": "\([^"]*\)".*/\1 \2/p' "$static.spdx.json" | sort >"$tmp/listed"
diff "$tmp/told" "$tmp/listed" || fail 'told by the program (<), listed (>)'

# The wheels: one is installed in an empty environment and answers; the other has no library but musl's.
wheel=$(echo "$folder"/spectool-*-manylinux_2_28_"$(uname -m)".whl)
[ -f "$wheel" ] || exit 0
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q --no-index --no-deps "$wheel" 2>"$tmp/log" || { cat "$tmp/log"; exit 1; }
cmp "$tmp/venv/bin/spectool" "$static" || fail 'the program of the wheel is another one'
cd "$tmp"
"$spectool" run packed.bin 'What is 7 plus 8?' >run.out 2>/dev/null
"$tmp/venv/bin/python" -c '
import spectool
for part in spectool.open("packed.bin").chat("What is 7 plus 8?"): print(part.text, end="", flush=True)
print()' >python.out
cmp run.out python.out || fail 'the module answers otherwise'
newest=$(objdump -T venv/lib/python3*/site-packages/spectool/libspectool.so | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
[ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -1)" = GLIBC_2.28 ] || fail "the library needs $newest"
python3 -m zipfile -e "$folder"/spectool-*-musllinux_1_2_"$(uname -m)".whl musl
[ "$(readelf -d musl/spectool/libspectool.so | grep NEEDED)" = "$(readelf -d musl/spectool/libspectool.so | grep 'NEEDED.*\[libc\.so\]$')" ] ||
    fail 'the library for musl needs another library'
newer='_Fork|gettid|pthread_getname_np|preadv2|pwritev2|qsort_r|reallocarray|renameat2|statx' # than musl 1.2.0
! nm -D --undefined-only musl/spectool/libspectool.so | grep -wE "$newer" || fail 'the library needs a newer musl than 1.2.0'
