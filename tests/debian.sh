#!/bin/sh
# The Debian packages: the program depends on no MPI or BLAS; after their installation in an empty root and their removal
# nothing is left. Needs no network and no root.
# usage: tests/debian.sh FOLDER     where the packages are
set -eu
debs=$(cd "$1" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "$1"; exit 1; }
! dpkg-deb -f "$debs"/spectool_*.deb Depends | grep 'mpi\|blas' || fail 'the program depends on MPI or BLAS'

root=$tmp/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/etc"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
echo '# local magic data' >"$root/etc/magic"
in_root() {
    PATH=$PATH:/usr/sbin:/sbin dpkg --root="$root" --log=/dev/null --force-not-root --force-depends \
        --force-script-chrootless "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
}
in_root -i "$debs"/spectool_*.deb "$debs"/spectool-mpi_*.deb "$debs"/spectool-blas_*.deb "$debs"/libspectool0_*.deb
"$root/usr/bin/spectool" --version >/dev/null
unit=$root/usr/lib/systemd/system/spectool.service
[ -f "$unit" ] || unit=$root/lib/systemd/system/spectool.service
[ -x "$root/usr/bin/$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit")" ] || fail 'the program of the unit is not installed'
[ -f "$root/usr/share/doc/spectool/copyright" ] || fail 'no copyright file'
printf '\211SPK\r\n\032\n\001\000\000\000' >"$tmp/packed.bin"
file -m "$root/etc/magic" "$tmp/packed.bin" | grep -q ': spectool packed model, format 1\.0' || fail 'file(1) does not name a packed file'
in_root -i "$debs"/spectool_*.deb
[ "$(grep -c '^# begin spectool' "$root/etc/magic")" = 1 ] || fail 'not exactly one entry in /etc/magic'
in_root -P spectool spectool-mpi spectool-blas libspectool0
[ "$(cat "$root/etc/magic")" = '# local magic data' ] || fail 'the entry in /etc/magic was not removed'
left=$(find "$root" ! -type d ! -path "$root/var/lib/dpkg/*" ! -path "$root/etc/magic")
[ -z "$left" ] || fail "not removed: $left"
