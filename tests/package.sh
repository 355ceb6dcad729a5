#!/bin/sh
# The Debian packages: they name their dependencies, of which MPI and BLAS are those of modules alone, and hold what
# `cmake --install` installs; after their installation in an empty root and their removal nothing is left.
# Needs no network and no root.
# usage: tests/package.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v dpkg-shlibdeps >/dev/null || { echo 'no dpkg-dev: not tested'; exit 77; }
fail() { echo "$1"; exit 1; }

cpack --config "$build/CPackConfig.cmake" -B "$tmp/package" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
! grep -i warning "$tmp/log" || fail 'cpack warns'
deb=$(echo "$tmp/package"/spectool_*.deb)
[ -f "$deb" ] || fail 'no .deb was made'
for library in libzstd1 libjson-c libpcre2-8 libutf8proc libedit2 libmicrohttpd libxxhash libnuma1; do
    dpkg-deb -f "$deb" Depends | grep -q "$library" || fail "no dependency on $library"
done
version=$(dpkg-deb -f "$deb" Version)
[ "$(dpkg-deb -I "$deb" shlibs)" = "libspectool ${version%%.*} spectool (= $version)" ] || fail 'shlibs is wrong'
! dpkg-deb -f "$deb" Depends | grep -q 'mpi\|blas' || fail 'the program depends on MPI or BLAS'
modules= names=
for name in mpi blas; do
    [ -f "$build/spectool-$name.so" ] || continue
    module=$(echo "$tmp/package/spectool-${name}"_*.deb)
    [ -f "$module" ] || fail "no .deb of the module $name was made"
    dpkg-deb -f "$module" Depends | grep -q "^spectool (= .*$name" || fail "the module does not depend on $name"
    dpkg-deb -x "$module" "$tmp/unpacked"
    modules="$modules $module" names="$names spectool-$name"
done

# What is installed is the same as with `cmake --install`.
cmake --install "$build" --prefix "$tmp/plain" >/dev/null
(cd "$tmp/plain" && find . ! -type d | sort) >"$tmp/plain.list"
dpkg-deb -x "$deb" "$tmp/unpacked"
(cd "$tmp/unpacked/usr" && find . ! -type d | sort) >"$tmp/unpacked.list"
diff "$tmp/plain.list" "$tmp/unpacked.list" || fail 'the package and cmake --install differ'

# install, use, install again, remove
root=$tmp/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/etc"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
echo '# local magic data' >"$root/etc/magic"
in_root() {
    PATH=$PATH:/usr/sbin:/sbin dpkg --root="$root" --log=/dev/null --force-not-root --force-depends \
        --force-script-chrootless "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
}
# shellcheck disable=SC2086 # lists
in_root -i "$deb" $modules
"$root/usr/bin/spectool" --version >/dev/null
unit=$root/usr/lib/systemd/system/spectool.service
[ -x "$root/usr/bin/$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit")" ] || fail 'the program of the unit is not installed'
[ -f "$root/usr/share/doc/spectool/copyright" ] || fail 'no copyright file'
printf '\211SPK\r\n\032\n\001\000\000\000' >"$tmp/packed.bin"
if command -v file >/dev/null; then
    file -m "$root/etc/magic" "$tmp/packed.bin" | grep -q ': spectool packed model, format 1\.0' ||
        fail 'file(1) does not name a packed file'
fi
in_root -i "$deb"
[ "$(grep -c '^# begin spectool' "$root/etc/magic")" = 1 ] || fail 'not exactly one entry in /etc/magic'
# shellcheck disable=SC2086 # a list
in_root -P spectool $names
[ "$(cat "$root/etc/magic")" = '# local magic data' ] || fail 'the entry in /etc/magic was not removed'
left=$(find "$root" ! -type d ! -path "$root/var/lib/dpkg/*" ! -path "$root/etc/magic")
[ -z "$left" ] || fail "not removed: $left"
