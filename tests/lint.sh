#!/bin/sh
# Checks the sources: direction of includes, one home for each outside library, symbol prefix, ASCII,
# trailing whitespace, and headers that compile alone.
#
# usage: tests/lint.sh [libspectool.a]          the sources, and the symbols of the archive
#        tests/lint.sh --symbols libspectool.a  the symbols alone
set -u
cd "$(dirname "$0")/.." || exit 2
bad=0
say() { printf 'lint: %s\n' "$1"; bad=1; }

check_symbols() {
    nm -g --defined-only "$1" | awk 'NF == 3 && $3 !~ /^sp_/ && $3 !~ /^__(asan|odr|ubsan)/ {print $3}' |
        grep . && say "symbols of $1 without the prefix sp_"
}
if [ "${1:-}" = --symbols ]; then
    check_symbols "$2"
    exit $bad
fi

sources=$(git ls-files '*.c' '*.h' | grep -v '^testdata/')

# Each key of config.json that is passed over in silence is explained.
[ "$(sed -n '/^static const char without_effect/,/;$/s/.*"\(.*\)".*/\1/p' format/config/config_refuse.c | tr -s ' ' '\n' | grep .)" = \
    "$(cut -f 1 testdata/config/keys_without_effect.txt)" ] ||
    say 'the keys of config_refuse.c are not those of testdata/config/keys_without_effect.txt'
[ "$(sed -n '/^static const char silent/,/;$/s/.*"\(.*\)".*/\1/p' convert/source/generation_config.c | tr -s ' ' '\n' | grep .)" = \
    "$(grep -v 'noted: ' testdata/config/generation_keys.txt | cut -f 1)" ] ||
    say 'the keys of generation_config.c are not those of testdata/config/generation_keys.txt'

# fclose alone does not say that a stream in memory lost its text.
for f in $(grep -l 'open_memstream(' $(echo "$sources" | grep -v '^tests/')); do
    grep -q 'sp_close_text(' "$f" || say "$f: open_memstream without sp_close_text (format/base/mem.h)"
done

# The folders whose headers a file of folder $1 may include, besides its own: a layer includes the
# layers to its left. convert and runtime never meet; only cli and tests include everything.
#   format:  system <- base <- json <- modelfile, files <- tokenizer, config <- family <- families, weights
#   quantize: types <- simd <- kernels <- quantize
#   convert: gguf <- adapter <- source <- create <- export
#   runtime: vector <- backend <- model <- sampling <- grammar <- speculate <- session <- measure   spectool.h below all
#            backend, ranks <- remote <- session     tokenizer <- grammar     template, grammar <- chat
#            template: value <- jinja, go <- template
#   cli:     base <- chat <- serve, bench    base <- eval    commands over all
#   serve:   http, request <- jobs <- openai, anthropic, ollama <- serve
formats='format/system format/base format/json format format/tokenizer format/config format/family format/weights format/modelfile'
codecs="$formats quantize/types quantize/simd quantize/kernels quantize"
imports='convert/gguf convert/adapter convert/source convert/create convert/export'
numbers='runtime runtime/vector runtime/backend'
decoding='runtime runtime/vector runtime/backend runtime/model runtime/sampling runtime/tokenizer runtime/grammar'
processes='runtime/ranks runtime/remote'
templates='runtime/template/value runtime/template/jinja runtime/template/go'
texts="$templates runtime/template runtime/chat"
library="$codecs $imports $decoding $processes runtime/speculate runtime/session runtime/measure $texts"
answering='cli/serve/http cli/serve/request cli/serve/jobs'
apis='cli/serve/openai cli/serve/anthropic cli/serve/ollama'
front_ends="cli/base cli/chat cli/bench cli/eval $answering $apis cli/serve"
below() {
    case $1 in
    format/system) below= ;;
    format/base) below=format/system ;;
    format/json) below=format/base ;;
    format | format/modelfile) below='format/system format/base format/json' ;;
    format/tokenizer | format/config) below='format/base format/json format' ;;
    format/family) below='format/base format/json format format/config' ;;
    format/family/families | format/weights) below='format/base format/json format format/config format/family' ;;
    quantize/types) below=$formats ;;
    quantize/simd) below="$formats quantize/types" ;;
    quantize/kernels) below="$formats quantize/types quantize/simd" ;;
    quantize) below="$formats quantize/types quantize/kernels" ;;
    convert/gguf) below="$codecs" ;;
    convert/adapter) below="$codecs convert/gguf" ;;
    convert/source) below="$codecs convert/gguf convert/adapter" ;;
    convert/create) below="$codecs convert/gguf convert/adapter convert/source" ;;
    convert/export) below="$codecs $imports" ;;
    runtime) below=format/base ;;
    runtime/vector | runtime/tokenizer) below="$codecs runtime" ;;
    runtime/template/value) below='format/base format/json runtime' ;;
    runtime/template/*) below='format/system format/base format/json runtime runtime/template/value' ;;
    runtime/template) below="format/base format/json runtime $templates" ;;
    runtime/ranks) below='format/system format/base runtime' ;;
    runtime/backend) below="$codecs runtime runtime/vector" ;;
    runtime/remote) below="$codecs $numbers runtime/ranks" ;;
    runtime/model) below="$codecs $numbers" ;;
    runtime/sampling) below="$codecs $numbers runtime/model" ;;
    runtime/grammar) below="$codecs $numbers runtime/model runtime/sampling runtime/tokenizer" ;;
    runtime/speculate) below="$codecs $decoding" ;;
    runtime/chat) below="$formats runtime runtime/tokenizer runtime/grammar runtime/template" ;;
    runtime/session) below="$codecs $decoding $processes runtime/speculate $texts" ;;
    runtime/measure) below="$codecs $decoding $processes runtime/speculate runtime/session $texts" ;;
    cli/base) below=$library ;;
    cli/chat | cli/eval) below="$library cli/base" ;;
    cli/bench) below="$library cli/base cli/chat" ;;
    cli/serve/http) below="$library cli/base" ;;
    cli/serve/request) below="$library cli/base cli/chat" ;;
    cli/serve/jobs) below="$library cli/base cli/chat cli/serve/http cli/serve/request" ;;
    cli/serve/*) below="$library cli/base cli/chat $answering" ;;
    cli/serve) below="$library cli/base cli/chat $answering $apis" ;;
    cli) below="$library $front_ends" ;;
    tests/*) below="$library cli $front_ends tests/support ${1%/*}" ;;
    *) below= ;;
    esac
}
for edge in $(grep -E '^ *# *include "' $sources /dev/null | sed 's/^\([^:]*\):[^"]*"\([^"]*\)".*/\1:\2/'); do
    f=${edge%%:*} header=${edge#*:}
    from=${f%/*} to=${header%/*}
    [ "$from" = "$to" ] && continue
    below "$from"
    case " $below " in
    *" $to "*) ;;
    *) say "$f includes $header: $from/ is not above $to/ (see below() in tests/lint.sh)" ;;
    esac
done

# A folder has at most 48 sources, of tests 60.
for folder in $(echo "$sources" | sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > ($2 ~ /^tests/ ? 60 : 48) {print $2}'); do
    say "$folder/ has too many files"
done

# The command is a client of the library: of runtime it includes the public headers alone.
for f in $(grep -lE '^ *# *include "runtime/' $(echo "$sources" | grep '^cli/') /dev/null); do
    grep -nE '^ *# *include "runtime/' "$f" /dev/null | grep -vE '"runtime/spectool(_measure)?\.h"' &&
        say "$f includes more of runtime/ than its public headers"
done

# header:home
for pair in json.h:format/json/json zstd.h:format/base/compress xxhash.h:format/base/hash cblas.h:runtime/backend/blas_module microhttpd.h:cli/serve/http/serve_http seccomp.h:cli/serve/serve_syscalls numa.h:runtime/ranks/numa_nodes mpi.h:runtime/ranks/mpi_module; do
    header=${pair%%:*} home=${pair##*:}
    for f in $(grep -lE "# *include <(json-c/)?$header>" $sources /dev/null); do
        case $f in "$home"* | tests/quantize/test_blas.c) ;; *) say "$f includes <$header>, whose home is $home" ;; esac
    done
done

# The program's locale may have another decimal point, so format/base/number_text.h reads and writes
# fractions.
for f in $(echo "$sources" | grep -E '^(format|quantize|convert|runtime)/' | grep -v '^format/base/number_text\.c$'); do
    grep -nE '(^|[^_a-z])(strto(d|f|ld)|atof|vs?n?printf|strn?casecmp)\(' "$f" /dev/null &&
        say "$f: a function that depends on the locale"
    grep -nE '(^|[^_a-z])sn?printf\(.*%[^"a-zA-Z%]*[eEfFgG]' "$f" /dev/null &&
        say "$f: a fraction printed with the locale's decimal point"
done

for f in $sources; do
    grep -nE '[[:blank:]]+$' "$f" /dev/null && say "$f: trailing blanks"
    LC_ALL=C grep -nP '[^\x00-\x7F]' "$f" /dev/null && say "$f: not ASCII"
    [ -n "$(tail -c1 "$f")" ] && say "$f: no newline at the end"
done
# The tables of the READMEs name files that exist.
for readme in $(git ls-files '*README.md' | grep -E '^(format|convert|quantize|runtime|cli)/'); do
    awk '/^\|---/ { row = 1; next } /^$/ { row = 0 } row && !/^\|.*\|$/ { print FILENAME ":" FNR }' "$readme" |
        grep . && say "$readme: a row of a table does not begin and end with |"
    for name in $(sed -n 's/^| \(`[^|]*\)|.*/\1/p' "$readme" | grep -oE '`[a-z0-9_/]+\.(c|h|\[ch\])`' | tr -d '`'); do
        case $name in */*) file=$name ;; *) file=${readme%README.md}$name ;; esac
        for f in "${file%\[ch\]}c" "${file%\[ch\]}h"; do
            case $file in *'[ch]') ;; *) f=$file ;; esac
            [ -f "$f" ] || [ -f "${readme%README.md}$f" ] || say "$readme names $name"
        done
    done
done
grep -nE '^\.(D1|Dl|Li) .* "' man/*.[1-9] && say 'a quote that mdoc(7) interprets: write \(dq'
# Numbers of equal width need no continuation.
awk '/^\.Bl -column .*[a-zA-Z]"( -.*)?$/ { n = gsub(/"/, "") / 2; next } n && /^\.It/ { if (n >= gsub(/ Ta /, "") + 1) print FILENAME ":" FNR; n = 0 }' \
    man/*.[1-9] | grep . && say 'a width of the last column, by which groff indents the lines that continue it'
# The version stands once in the sources; packages of distributions must repeat it.
version=$(sed -n 's/^#define SPECTOOL_VERSION_[A-Z]* \([0-9]*\)$/\1/p' runtime/spectool.h | paste -sd.)
for f in README.md packaging/PKGBUILD packaging/spectool.rb packaging/flake.nix packaging/debian/changelog packaging/Containerfile; do
    grep -q "$version" "$f" || say "$f does not have the version $version"
done
git grep -nE 'TODO|FIXME|\bXXX\b' -- '*.c' '*.h' '*.sh' '*.[1-9]' ':!tests/lint.sh' && say 'unfinished work'

# shellcheck disable=SC2016 # the inner shell's argument
leaning=$(git ls-files '*.h' | grep -v '^testdata/' | xargs -P "$(nproc)" -n 1 sh -c '
    printf "#include \"%s\"\n" "$1" |
        gcc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -I. -fsyntax-only -x c - || echo "$1"' sh)
for h in $leaning; do say "$h does not compile alone"; done

[ $# -eq 0 ] || check_symbols "$1"
exit $bad
