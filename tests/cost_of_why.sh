#!/usr/bin/env bash
# What it costs a server that it knows who waits: fio writes and reads 4 KiB at depth 32 over NBD, while
# `forebay top` asks once a second, and by turns without a control socket. With BEFORE, another program
# (one from before the ledger, say) takes the turns without. Then how long `forebay why` takes while fio
# writes, and what an idle server works for `top`.
#
# usage: tests/cost_of_why.sh FOREBAY [BEFORE [ROUNDS [SECONDS]]]
# Prints medians with the lowest and the highest round. It needs fio with its nbd engine.
set -euo pipefail
unset CDPATH

forebay=$(realpath -- "$1")
before=$(realpath -- "${2:-$1}")
rounds=${3:-5}
seconds=${4:-5}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-cost-XXXXXX")
cd -- "$scratch"
server=
asker=

cleanup() {
  stop
  rm -rf -- "$scratch"
}
trap cleanup EXIT

stop() {
  if [ -n "$asker" ]; then
    kill "$asker" 2>/dev/null || true
    wait "$asker" 2>/dev/null || true
    asker=
  fi
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
}

# Starts the program $1 with the other arguments, and returns when it serves.
serve() {
  rm -f started
  mkfifo started
  env -u XDG_RUNTIME_DIR "$1" serve nbd disk.img --socket s --create 64M --memory 256M "${@:2}" >started 2>/dev/null &
  server=$!
  read -r _ <started
}

# Asks for the state once a second, as `forebay top` does.
ask() {
  while sleep 1; do
    "$forebay" top --json c >/dev/null || return
  done
}

# Nanoseconds that the server has worked, with its threads that have ended: each connection has one.
used_ns() {
  awk -v tick="$(getconf CLK_TCK)" '{ printf "%.0f", ($14 + $15) * 1e9 / tick }' "/proc/$server/stat"
}

# The same of the threads that there are, exactly.
worked_ns() {
  cat "/proc/$server"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

# Requests a second of fio, doing $1 for the seconds.
fio_iops() {
  fio --name=load --ioengine=nbd --uri=nbd+unix:///?socket=s --rw="$1" --bs=4k --iodepth=32 --size=64M \
    --norandommap --time_based --runtime="$seconds" --output-format=terse --terse-version=3 |
    awk -F';' '$1 == 3 { print $8 + $49 }'
}

# One turn: a line "NAME LOAD IOPS NANOSECONDS-A-REQUEST" for each load.
turn() {
  local load iops from
  for load in randwrite randread; do
    if [ "$load" = randread ]; then
      # Everything is cached before it is read.
      fio --name=fill --ioengine=nbd --uri=nbd+unix:///?socket=s --rw=read --bs=1M --size=64M >/dev/null
    fi
    from=$(used_ns)
    iops=$(fio_iops "$load")
    echo "$1 $load $iops $((($(used_ns) - from) / (iops * seconds + 1)))"
  done
}

# Median, lowest and highest of the numbers in standard input.
median() {
  sort -n | awk '{ all[NR] = $1 } END { printf "%s (%s to %s)", all[int((NR + 1) / 2)], all[1], all[NR] }'
}

for ((round = 0; round < rounds; round++)); do
  for name in $( ((round % 2)) && echo with without || echo without with); do
    if [ "$name" = with ]; then
      serve "$forebay" --control c
      ask &
      asker=$!
    else
      serve "$before"
    fi
    turn "$name" >>turns
    stop
  done
done
for load in randwrite randread; do
  for name in without with; do
    printf '%s, %s: %s requests/s, %s ns of the server for each\n' "$load" "$name" \
      "$(awk -v n="$name" -v l="$load" '$1 == n && $2 == l { print $3 }' turns | median)" \
      "$(awk -v n="$name" -v l="$load" '$1 == n && $2 == l { print $4 }' turns | median)"
  done
done

serve "$forebay" --control c
fio_iops randwrite >/dev/null &
writer=$!
sleep 1
for ((at = 0; at < 20; at++)); do
  from=$EPOCHREALTIME
  "$forebay" why c >/dev/null
  awk -v from="$from" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", (to - from) * 1000 }' >>answers
done
wait "$writer"
echo "forebay why, the program's start included: $(median <answers) ms"
stop

# A server that writes nothing any more, and whose caller has waited.
serve "$forebay" --control c
fio_iops randread >/dev/null
from=$(worked_ns)
sleep 20
idle=$(($(worked_ns) - from))
ask &
asker=$!
from=$(worked_ns)
sleep 20
echo "top once a second: $((($(worked_ns) - from) / 20000)) us of the server a second, $((idle / 20000)) us without"
