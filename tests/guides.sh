#!/usr/bin/env bash
# The commands of README.md and of the pages in docs/start and docs/guides, run as a reader would paste them.
#
# usage: tests/guides.sh FOREBAY FOREBAY-LAB [PAGE..]
#
# A page runs from top to bottom in one shell, in a folder of its own that contains nothing except `forebay`,
# a link to this repository. Two kinds of blocks are run; the text after the language is not shown:
#
#   ```sh run [needs=A,B..]      commands; the page fails with the first that fails
#   ```LANGUAGE file=PATH        a file that the reader writes
#
# `needs` names commands, and `root`, `fuse`, `nbd`, `systemd`. A block whose needs are not met is named as
# skipped, and so is one with `unrun=REASON`; a block of commands has to be one or the other. After each block the shell waits until its servers answer at their sockets, as a person who reads on would.
set -uo pipefail
unset CDPATH

repository=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")/..")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-guides-XXXXXX")
mkdir "$scratch/bin"
ln -s "$(realpath -- "$1")" "$scratch/bin/forebay"
ln -s "$(realpath -- "$2")" "$scratch/bin/forebay-lab"
shift 2
target=$(realpath -m -- "${CARGO_TARGET_DIR:-$repository/target}")
export PATH=$scratch/bin:$PATH:$target/tools/bin
# What pages build with cargo is kept for the next run, and away from the workspace.
export CARGO_TARGET_DIR=$target/guides
page_seconds=600
# shellcheck source=tests/checks.bash
. "$repository/tests/checks.bash"

end_page() {
  local mount
  while read -r _ mount _; do
    case $mount in "$scratch"/*) fusermount3 -u -z "$mount" || umount -l "$mount" ;; esac
  done </proc/mounts
  if [ -n "${running:-}" ]; then
    kill -KILL -- "-$running" 2>/dev/null
    running=
  fi
}
trap 'end_page; rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT TERM

# Makes a script of a page. Each line of the script is that line of the page, so that bash reports the page's numbers.
script_of() {
  awk -v page="$2" '
    function settle(   text) { text = sockets; sockets = ""; return text == "" ? "" : "; settle" text }
    /^```/ && !inside {
      inside = 1; run = 0; file = ""; needs = ""; reason = $1 == "```sh" ? "a mark: run or unrun" : ""
      for (i = 2; i <= NF; i++) {
        if ($i == "run") run = 1
        if ($i ~ /^unrun=/) { reason = ""; print "echo skipped: " page ":" NR " is not run: " substr($i, 7); next }
        if ($i ~ /^file=/) file = substr($i, 6)
        if ($i ~ /^needs=/) { needs = substr($i, 7); gsub(",", " ", needs) }
      }
      if (file != "") print "mkdir -p \"$(dirname " file ")\"; cat >" file " <<\"END OF BLOCK\""
      else if (!run && reason != "") print "echo needs " reason "; false"
      else if (run) print "if have " page ":" NR " " needs "; then :"
      else print ""
      next
    }
    /^```/ {
      inside = 0
      print file != "" ? "END OF BLOCK" : run ? ":" settle() "; fi" : ""
      next
    }
    inside && run {
      for (i = 1; i < NF; i++) if ($i == "--socket" || $i == "--control") sockets = sockets " " $(i + 1)
    }
    { print inside && (run || file != "") ? $0 : "" }
  ' "$1"
}

cat >"$scratch/reader.bash" <<'EOF_READER'
set -eE
trap 'echo "$page:$LINENO: failed: $BASH_COMMAND" >&2' ERR
have() {
  local place=$1 need
  shift
  for need in "$@"; do
    case $need in
      root) [ "$(id -u)" -eq 0 ] ;;
      fuse) [ -w /dev/fuse ] && command -v fusermount3 ;;
      nbd) [ -b /dev/nbd0 ] && [ "$(id -u)" -eq 0 ] && command -v nbd-client ;;
      systemd) [ -d /run/systemd/system ] ;;
      *) command -v "$need" ;;
    esac >/dev/null || { echo "skipped: $place needs $need"; return 1; }
  done
}
answers() {
  local status=0
  curl --silent --max-time 1 --unix-socket "$1" http://forebay/ >/dev/null || status=$?
  [ "$status" -ne 7 ]
}
settle() {
  local socket tries
  for socket in "$@"; do
    for tries in {1..300}; do
      # A killed server leaves its socket behind, so what counts is that somebody listens there.
      if answers "$socket"; then break; fi
      sleep 0.1
    done
  done
}
. "$1"
EOF_READER

run_page() {
  local page=$1 name status=0
  name=${page//\//-}
  mkdir "$scratch/$name"
  ln -s "$repository" "$scratch/$name/forebay"
  script_of "$repository/$page" "$page" >"$scratch/$name.bash"
  # `setsid` gives the page a group of its own, by which what it left running is found.
  (cd -- "$scratch/$name" && page=$page XDG_RUNTIME_DIR=$scratch/$name exec setsid \
    timeout --kill-after=5 "$page_seconds" bash "$scratch/reader.bash" "$scratch/$name.bash") \
    >"$scratch/$name.log" 2>&1 </dev/null &
  running=$!
  wait "$running" || status=$?
  end_page
  grep '^skipped: ' "$scratch/$name.log" | sort -u
  ignored=$((ignored + $(grep -c '^skipped: ' "$scratch/$name.log")))
  if [ "$status" -eq 0 ]; then
    echo "test $page ... ok"
    passed=$((passed + 1))
  else
    echo "test $page ... FAILED"
    sed 's/^/  /' "$scratch/$name.log" | tail -n 40
    if [ "$status" -eq 124 ]; then echo "  $page did not end within $page_seconds s"; fi
    failed=$((failed + 1))
  fi
}

if [ "$#" -eq 0 ]; then
  cd -- "$repository" || exit 1
  # shellcheck disable=SC2046
  set -- $(grep -lE '^```(sh|.* file=)' README.md docs/start/*.md docs/guides/*.md)
fi
for page in "$@"; do run_page "$page"; done

conclude && [ "$passed" -gt 0 ]
