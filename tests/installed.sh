#!/bin/sh
# Tests an installed spectool: every file is installed, the shared library exports exactly what the headers
# declare, and a program that uses only pkg-config builds against either library and generates.
# usage: tests/installed.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cmake --install "$build" --prefix "$tmp/usr" >"$tmp/log"
libdir=$(dirname "$(find "$tmp/usr" -name libspectool.a)")
for f in "${libdir#"$tmp/usr/"}/libspectool.so" bin/spectool include/spectool.h include/spectool_measure.h share/man/man1/spectool.1 share/man/man1/spectool-run.1 \
    share/man/man5/spectool-pack.5 share/bash-completion/completions/spectool \
    lib/systemd/system/spectool.service lib/systemd/system/spectool.socket; do
    [ -e "$tmp/usr/$f" ] || { echo "not installed: $f"; exit 1; }
done
LD_LIBRARY_PATH=$libdir "$tmp/usr/bin/spectool" create -f "$source/testdata/tiny/Modelfile" --quantize q8 -o "$tmp/p.bin" >"$tmp/log" 2>&1
cat >"$tmp/use.c" <<'C'
#include <spectool.h>
#include <stdio.h>
static int show(void *context, const char *text, size_t size, bool drafted)
{
    (void)context;
    (void)drafted;
    return fwrite(text, 1, size, stdout) != size;
}
int main(int argc, char **argv)
{
    const uint32_t story[] = {582, 580, 258, 421};
    struct sp_package *package;
    struct sp_session *session;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_err err = {0};
    struct sp_request request = {.size = sizeof request, .prompt = story, .n_prompt = 4, .max_tokens = 6,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO, .text = show};
    if (argc != 2 || sp_package_open(&package, argv[1], &(struct sp_package_options)SP_PACKAGE_OPTIONS_INIT, &err) ||
        sp_session_open(&session, package, &(struct sp_session_options)SP_SESSION_OPTIONS_INIT, &err) ||
        sp_session_generate(session, &request, &result, &err)) {
        puts(err.text);
        return 1;
    }
    sp_result_release(&result);
    sp_session_close(session);
    sp_package_close(package);
    return 0;
}
C
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
cflags=$(pkg-config --cflags spectool)
case $cflags in
*-D* | *json-c*) echo "the flags of a library that only the library uses: $cflags"; exit 1 ;;
esac
# shellcheck disable=SC2046,SC2086
cc -std=c11 -Wall -Wextra -Werror -o "$tmp/use" "$tmp/use.c" $cflags \
    $(pkg-config --libs spectool) ${SP_LINK_FLAGS:-}
# shellcheck disable=SC2046,SC2086
cc -std=c11 -o "$tmp/use_static" "$tmp/use.c" $cflags \
    $(pkg-config --static --libs spectool | sed 's/-lspectool/-l:libspectool.a/') ${SP_LINK_FLAGS:-}

# Every function that the headers declare, and no other symbol, is exported.
printf '#include <spectool_measure.h>\n' >"$tmp/declared.c"
cc -E -P -I"$tmp/usr/include" "$tmp/declared.c" | tr '\n' ' ' |
    sed -e 's/__attribute__ *(([a-z_]*))//g' -e 's/__attribute__ *(([a-z_]*([^()]*)))//g' \
        -e ':again' -e 's/{[^{}]*}//g' -e 't again' |
    tr ';' '\n' | grep -v typedef | sed -n 's/^[^(]*\b\(sp_[a-z0-9_]*\) *(.*/\1/p' | sort >"$tmp/declared"
nm -D --defined-only "$libdir/libspectool.so" | awk '$3 !~ /^_/ { print $3 }' | sort >"$tmp/exported"
diff "$tmp/declared" "$tmp/exported" >"$tmp/difference" || {
    echo "declared in a header without SP_API (<), or exported without a declaration there (>):"
    cat "$tmp/difference"
    exit 1
}

cat >"$tmp/use.cc" <<'C'
#include <spectool_measure.h>
int main() { return sp_fail(nullptr, SP_OK, "links by its C name"); }
C
# shellcheck disable=SC2046
clang++ -Wall -Wextra -Werror -c -o "$tmp/use_cc.o" "$tmp/use.cc" $(pkg-config --cflags spectool)
# shellcheck disable=SC2046
cc -o "$tmp/use_cc" "$tmp/use_cc.o" $(pkg-config --libs spectool) ${SP_LINK_FLAGS:-}
"$tmp/use_cc"
# "Once upon a time", continued: the first golden ids of testdata/tiny/golden_target.json, as text
for use in use use_static; do
    text=$("$tmp/$use" "$tmp/p.bin")
    case $text in
    " there was a "*) ;;
    *) echo "$use: unexpected text:$text"; exit 1 ;;
    esac
done

# The examples: a chat in C and, where there is Python, in Python.
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$tmp/chat" "$source/cli/examples/chat.c" \
    $(pkg-config --cflags --libs spectool) ${SP_LINK_FLAGS:-}
"$tmp/chat" "$tmp/p.bin" 'What is 7 plus 8?' >"$tmp/c.out"
[ -s "$tmp/c.out" ] || { echo 'chat.c: no answer'; exit 1; }
if command -v python3 >/dev/null; then
    cp -r "$source/packaging/python/spectool" "$tmp/spectool"
    python3 "$source/packaging/interface.py" ctypes "$tmp/usr/include/spectool.h" >"$tmp/spectool/_interface.py"
    PYTHONPATH=$tmp SPECTOOL_LIBRARY=$libdir/libspectool.so python3 "$source/cli/examples/chat.py" "$tmp/p.bin" \
        'What is 7 plus 8?' >"$tmp/python.out"
    cmp "$tmp/c.out" "$tmp/python.out"
fi
