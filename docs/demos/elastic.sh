#!/usr/bin/env bash
# A cache that gives memory back to a program that takes it: a memory cgroup of 2 GiB, a block server with
# --memory 256M..1536M in it, and beside it a program that takes 1 GiB in 5 s.
#
# usage: docs/demos/elastic.sh FOREBAY [tries COUNT | visits SECONDS | hits | idle]..
# FOREBAY is the program, built with --release. Without a part: tries 10, hits, idle. Needs root, memory cgroups of
# version 1, python3, and fio with its nbd engine.
#
# tries   the cache is full and fio writes 25 MB/s; the program comes; then every byte is verified in the image
# visits  the program comes for 40 s every 80 s
# hits    random reads of 64 KiB over 1 GiB, before the program comes and after it has gone
# idle    processor time of a server that nobody uses for a minute, with and without a floor
set -uo pipefail
unset CDPATH

forebay=$(realpath -- "$1")
shift
if [ $# -eq 0 ]; then set -- tries 10 hits idle; fi
here=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-elastic-XXXXXX")
group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/forebay-elastic-$$
cd -- "$scratch" || exit 1
server=

cleanup() {
  if [ -n "$server" ]; then
    kill -KILL "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  fi
  rmdir -- "$group"
  rm -rf -- "$scratch"
}
mkdir -- "$group" || exit 1
trap cleanup EXIT
trap 'exit 130' INT TERM
echo 2G >"$group/memory.limit_in_bytes"

# serve MEMORY: serves disk.img in the group.
serve() {
  local line
  rm -f started
  mkfifo started
  port=$((20000 + ($$ + RANDOM) % 20000))
  # shellcheck disable=SC2016 # The inner shell moves itself.
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" \
    "$forebay" serve nbd disk.img --memory "$1" --socket nbd.sock --metrics "127.0.0.1:$port" \
    >started 2>server.log &
  server=$!
  read -r line <started || sed 's/^/  /' server.log
}

end_server() {
  kill -TERM "$server"
  wait "$server" || echo "  the server ended with status $?"
  server=
}

# load NAME FLAGS..: fio at the server; its JSON goes to NAME.json.
load() {
  local name=$1
  shift
  fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$scratch/nbd.sock" --output-format=json \
    --output="$name.json" "$@" >"$name.log" 2>&1 || {
    echo "  fio failed: $name"
    tail -n 3 "$name.log"
  }
}

# measure WORDS..: the measuring half, with the server's metrics and the group.
measure() {
  python3 "$here/elastic.py" "$group" "$port" "$server" "$@"
}

# The written half of the image, each block once, with checksums.
written=(--rw=randwrite --bs=64k --offset=1G --size=256M --verify=crc32c --verify_fatal=1 --randseed)

tries() {
  local try
  for ((try = 1; try <= $1; try++)); do
    serve 256M..1536M
    load fill --rw=read --bs=1M --size=1G
    load full --rw=read --bs=1M --offset=1280M --size=512M
    load written "${written[@]}" $try --do_verify=0 --rate=25m &
    local writer=$!
    sleep 1
    measure try "$try" written.json "$writer" 1024 5 >try.txt &
    local measuring=$!
    wait "$writer"
    touch written.done
    wait "$measuring"
    rm -f written.done
    cat try.txt
    end_server
    fio --name=image --filename=disk.img --ioengine=psync "${written[@]}" $try --verify_only >image.log 2>&1 ||
      { echo "  try $try: the image has other bytes"; tail -n 3 image.log; }
    if [ "$try" -eq 1 ]; then sed 's/^/  /' server.log; fi
  done
}

visits() {
  serve 256M..1536M
  load fill --rw=read --bs=1M --size=1536M
  load reader --rw=randread --bs=64k --size=1536M --rate=50m --time_based --runtime="$1" &
  local reader=$!
  measure visits "$1" 1024 5 40 80
  wait "$reader"
  grep -e '->' server.log | sed 's/^/  /'
  end_server
}

hits() {
  serve 256M..1536M
  load fill --rw=read --bs=1M --size=1G
  load reader --rw=randread --bs=64k --size=1G --rate=200m --time_based --runtime=105 &
  local reader=$!
  measure hits 1024 5
  wait "$reader"
  grep -e '->' server.log | sed 's/^/  /'
  end_server
}

idle() {
  local memory
  for memory in 1536M 256M..1536M 1536M 256M..1536M; do
    serve "$memory"
    sleep 2
    measure idle "$memory"
    end_server
  done
}

truncate -s 2G disk.img
load_image() { fio --name=laid --filename=disk.img --ioengine=psync --rw=write --bs=1M --size=2G --direct=1 >/dev/null; }
while [ $# -gt 0 ]; do
  case $1 in
    tries | hits | visits) [ -e laid ] || { load_image && touch laid; } ;;
  esac
  echo "$1:"
  case $1 in
    tries | visits) "$1" "$2" && shift ;;
    hits | idle) "$1" ;;
    *) echo "no such part: $1" >&2 && exit 2 ;;
  esac
  shift
done
