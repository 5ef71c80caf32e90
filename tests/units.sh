#!/usr/bin/env bash
# The systemd units in contrib: systemd accepts each of them, and so does the program. Alerts and manuals are
# accepted by the programs that read them.
#
# usage: tests/units.sh PROGRAM
set -euo pipefail
program=$(realpath -- "$1")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
# shellcheck source=tests/checks.bash
. tests/checks.bash

# expect NAME COMMAND...: the command has to succeed.
expect() {
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    echo "failed: $name"
    failed=$((failed + 1))
  fi
}

# The program is where the tests built it, not where systemd looks.
copy_unit() {
  sed "s|^ExecStart=forebay |ExecStart=$program |" "contrib/$1" >"$folder/$1"
}

# systemd reports most mistakes as warnings.
verify() {
  local told
  told=$(systemd-analyze verify --man=no "$folder/$1" 2>&1) || true
  # Whatever else is wrong with the units of this machine.
  told=$(grep -F "$folder" <<<"$told" || grep -F "${1%@*}@" <<<"$told" || true)
  if [ -n "$told" ]; then
    echo "$told"
    return 1
  fi
}

# A unit with a mistake is found.
finds_mistakes() {
  sed 's|^User=|Userr=|' "$folder/forebay-nbd@.service" >"$folder/wrong@.service"
  if verify wrong@.service >/dev/null; then return 1; fi
}

# The words of ExecStart are a call of the program. It ends with status 1, because there is nothing to
# serve, and with 2 if a flag is wrong.
accepts() {
  local words status=0 told
  words=$(sed -n '/^ExecStart=/,/[^\\]$/p' "$folder/$1" | tr -d '\\\n' | sed 's|^ExecStart=||')
  words=${words//%i/none}
  words=${words//\/run\//$folder/}
  words=${words//\/srv\//$folder/}
  words=${words//\/mnt\//$folder/}
  words=${words//'${FOREBAY_IMAGE}'/$folder/none.img}
  words=${words//'$FOREBAY_LISTEN'/--socket $folder/nbd.sock}
  words=${words//'$FOREBAY_FLAGS'/$2}
  # The words have no spaces of their own.
  # shellcheck disable=SC2086
  told=$(timeout -s KILL 20 $words 2>&1 </dev/null) || status=$?
  if [ "$status" -ne 1 ]; then
    echo "status $status: $words"
    echo "$told"
    return 1
  fi
}

# The step before the start makes an image that is missing, and no other.
makes_image() {
  local script
  script=$(sed -n "/^ExecStartPre=/,/'$/p" "$folder/forebay-nbd@.service" | tr -d '\\\n')
  script=${script#*\'}
  script=${script%\'}
  script=${script//\$\$/\$}
  FOREBAY_IMAGE=$folder/new.img FOREBAY_SIZE=3M sh -c "$script" || return 1
  [ "$(stat -c %s "$folder/new.img")" -eq $((3 << 20)) ] || return 1
  FOREBAY_IMAGE=$folder/new.img FOREBAY_SIZE=5M sh -c "$script" || return 1
  [ "$(stat -c %s "$folder/new.img")" -eq $((3 << 20)) ] || return 1
  FOREBAY_IMAGE=$folder/unknown.img FOREBAY_SIZE='' sh -c "$script" || return 1
  [ ! -e "$folder/unknown.img" ] || return 1
  (cd "$folder" && FOREBAY_IMAGE=s3://bucket/x FOREBAY_SIZE=3M sh -c "$script") || return 1
}

for unit in contrib/*.service contrib/*.socket; do
  copy_unit "${unit#contrib/}"
done
for unit in contrib/*.service contrib/*.socket; do
  expect "${unit#contrib/} is a unit" verify "${unit#contrib/}"
done
expect "mistakes are found" finds_mistakes
expect "forebay-nbd@.service calls the program" accepts forebay-nbd@.service '--memory 64M'
expect "forebay-mount@.service calls the program" accepts forebay-mount@.service '--memory 64M --allow-other'
expect "a missing image is made" makes_image
# groff has nothing to say about a manual.
is_manual() {
  local told
  told=$(groff -man -ww -Tutf8 -z "$1" 2>&1) || return 1
  if [ -n "$told" ]; then
    echo "$told"
    return 1
  fi
}
if command -v groff >/dev/null; then
  for page in docs/man/*.1; do
    expect "$page" is_manual "$page"
  done
else
  ignore manuals "groff is missing"
fi
if command -v promtool >/dev/null; then
  expect "alerts" promtool check rules contrib/prometheus/alerts.yml
else
  ignore alerts "promtool is missing"
fi
conclude
