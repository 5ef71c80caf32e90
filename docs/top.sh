#!/usr/bin/env bash
# Draws docs/top.svg: the screen of `forebay top` in a real terminal of 80 columns, while fio writes
# to two exports of one server. Prints what `forebay why` says of the same load.
#
# usage: docs/top.sh FOREBAY FILE.svg
# It needs tmux and fio with its nbd engine.
set -euo pipefail

forebay=$(realpath -- "$1")
picture=$(realpath -- "$2")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-top-XXXXXX")
cd -- "$scratch"
server=
writers=()

cleanup() {
  tmux -L forebay-top kill-server 2>/dev/null || true
  kill "${writers[@]}" 2>/dev/null || true
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  rm -rf -- "$scratch"
}
trap cleanup EXIT

# Writes to the export NAME with the other arguments of fio.
write_to() {
  fio --name="$1" --ioengine=nbd --uri="nbd+unix:///$1?socket=s" --rw=randwrite --bs=4k --time_based \
    --runtime=60 "${@:2}" >/dev/null 2>&1 &
  writers+=($!)
}

mkfifo started
"$forebay" serve nbd disk.img log.img --socket s --create 256M --memory 48M --control c >started 2>/dev/null &
server=$!
read -r _ <started
write_to disk.img --iodepth=32
write_to log.img --iodepth=1 --rate=200k
tmux -L forebay-top new-session -d -x 80 -y 24 "'$forebay' top c"
sleep 15
tmux -L forebay-top capture-pane -p >screen
[ "$(head -c 8 screen)" = "forebay " ]
"$forebay" why c
tmux -L forebay-top send-keys q
sleep 1
if tmux -L forebay-top has-session 2>/dev/null; then
  echo "forebay top did not end when q was pressed" >&2
  exit 1
fi

# A line of the screen as text of a picture, in ASCII.
escaped() {
  local line=$1 at code
  for ((at = 0; at < ${#line}; at++)); do
    printf -v code %d "'${line:at:1}"
    case ${line:at:1} in
    '&' | '<' | '>') printf '&#%d;' "$code" ;;
    *) if ((code < 128)); then printf %s "${line:at:1}"; else printf '&#x%x;' "$code"; fi ;;
    esac
  done
}

export LC_ALL=C.UTF-8
{
  echo '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 696 456" role="img" aria-label="A screen of forebay top">'
  echo '<rect width="696" height="456" rx="6" fill="#1d1f21"/>'
  echo '<g font-family="monospace" font-size="14" fill="#d0d0d0" xml:space="preserve">'
  number=0
  while IFS= read -r line; do
    width=$((${#line} * 84))
    printf '<text x="12" y="%d" textLength="%d.%d" lengthAdjust="spacingAndGlyphs" ' \
      $((26 + 18 * number)) $((width / 10)) $((width % 10))
    printf 'xml:space="preserve" style="white-space:pre">%s</text>\n' "$(escaped "$line")"
    number=$((number + 1))
  done <screen
  echo '</g>'
  echo '</svg>'
} >"$picture"
