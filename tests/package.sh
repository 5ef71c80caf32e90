#!/usr/bin/env bash
# The Debian package: lintian has nothing against it, it installs into an empty root, works from
# there, and leaves nothing behind when it is removed.
#
# usage: tests/package.sh FOREBAY
set -uo pipefail
unset CDPATH

# shellcheck source=tests/checks.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/checks.bash"
forebay=$(realpath -- "$1")
contrib=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")/../contrib")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-package-XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
root=$scratch/root
cd -- "$scratch" || exit 1

prepare() { :; }

# dpkg with an administration of its own: it changes nothing on this machine.
dpkg_in_root() {
  dpkg --root="$root" --force-script-chrootless --force-not-root --force-depends "$@"
}

check_the_package_is_built() {
  "$contrib/debian/build" "$forebay" .
}

check_lintian_finds_nothing() {
  lintian --fail-on error,warning --suppress-tags bogus-mail-host,initial-upload-closes-no-bugs ./*.deb
}

check_it_works_from_an_empty_root() {
  set -e
  mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/etc"
  touch "$root/var/lib/dpkg/status"
  dpkg_in_root --install ./*.deb
  grep '^forebay:' "$root/etc/passwd"
  "$root/usr/bin/forebay" --version
  "$root/usr/bin/forebay" config check "$root/usr/share/doc/forebay/examples/forebay.toml"
  bash -n "$root/usr/share/bash-completion/completions/forebay"
  man --warnings --local-file "$root/usr/share/man/man1/forebay.1.gz" >forebay.txt
  grep 'page cache' forebay.txt
}

check_nothing_is_left_when_it_is_removed() {
  set -e
  dpkg_in_root --purge forebay
  [ -z "$(find "$root/usr" -type f)" ]
}

check the_package_is_built dpkg-deb dpkg-shlibdeps
check lintian_finds_nothing lintian
check it_works_from_an_empty_root man systemd-sysusers
check nothing_is_left_when_it_is_removed dpkg
conclude
