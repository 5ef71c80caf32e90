#!/usr/bin/env bash
# A volume that outlives its server: the server is killed, another takes the volume over, the first comes back as a zombie.
#
# usage: docs/demos/volume-moves.sh FOREBAY [VOLUME]
# FOREBAY is the program. VOLUME is a new one, as s3://BUCKET/PREFIX with AWS_ENDPOINT and its keys in the environment, or
# folder:///DIR; without it a folder is made. Needs qemu-io.
set -uo pipefail
unset CDPATH

forebay=$(realpath -- "$1")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-volume-XXXXXX")
volume=${2:-folder://$scratch/volume}
cd -- "$scratch" || exit 1
servers=()
failed=0

cleanup() {
  for server in "${servers[@]}"; do
    kill -KILL "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  done
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() {
  printf '\n# %s\n' "$*"
}

# Serves the volume at NAME.sock with the other arguments, and returns when clients can connect. Its messages go to NAME.log.
serve() {
  local name=$1 line
  shift
  rm -f "$name.started"
  mkfifo "$name.started"
  printf '$ forebay serve nbd %s --socket %s.sock --memory 64M %s\n' "$volume" "$name" "$*"
  "$forebay" serve nbd "$volume" --socket "$name.sock" --memory 64M "$@" >"$name.started" 2>"$name.log" &
  server=$!
  servers+=("$server")
  read -r line <"$name.started" || {
    sed 's/^/  /' "$name.log"
    return 1
  }
}

# Lets qemu-io do the other arguments, each a command, to the disk of the server NAME.
disk() {
  local name=$1 status command text arguments=()
  shift
  for command in "$@"; do
    arguments+=(-c "$command")
    printf '$ qemu-io %s.sock: %s\n' "$name" "$command"
  done
  text=$(qemu-io -f raw -t writeback "${arguments[@]}" "nbd+unix:///?socket=$scratch/$name.sock" 2>&1)
  status=$?
  if [ "$status" = 0 ] && ! grep -qE 'failed|verification' <<<"$text"; then
    echo '  ok'
    return 0
  fi
  echo "  refused: $(grep -m 1 -E 'failed|verification|error' <<<"$text" || echo "status $status")"
  return 1
}

expect() {
  "$@" || {
    echo "  NOT AS PROMISED"
    failed=1
  }
}

say 'Server a makes a volume. 8 MiB are written and flushed, then 1 MiB more is written and not flushed.'
expect serve a --create 1G
a=$server
expect disk a 'write -P 1 0 8M' flush
expect disk a 'write -P 2 8M 1M'

say 'Server a is killed without a word. Server b is not let in by accident:'
kill -KILL "$a"
wait "$a" 2>/dev/null
serve b && failed=1

say 'Server b is told to take the volume over. What was flushed is there.'
expect serve b --take-over
b=$server
expect disk b 'read -P 1 0 8M'

say 'Server c takes the volume over while b still runs. What b had flushed is there.'
expect disk b 'write -P 3 0 1M' flush
expect serve c --take-over
c=$server
expect disk c 'read -P 3 0 1M' 'read -P 1 1M 7M' 'write -P 4 1M 1M' flush

say 'Server b is a zombie now. It can write no more, and says so.'
disk b 'write -P 5 0 1M' flush && {
  echo "  NOT AS PROMISED"
  failed=1
}
kill -TERM "$b"
wait "$b"
echo "  b has ended with status $?:"
grep -E 'taken' b.log | sed 's/^/  /'

say 'Nothing of b is in the volume, and c leaves it in order.'
expect disk c 'read -P 3 0 1M' 'read -P 4 1M 1M' 'read -P 1 2M 6M'
kill -TERM "$c"
wait "$c"
echo "  c has ended with status $?"
for task in info gc check; do
  printf '$ forebay volume %s %s\n' "$task" "$volume"
  expect "$forebay" volume "$task" "$volume"
done
exit "$failed"
