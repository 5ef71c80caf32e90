#!/usr/bin/env bash
# Writes 192 MiB through a write-back cache of 64 MiB over a file, then compares the file with the
# written bytes: once with nbdkit's cache filter, once with Forebay.
#
# usage: docs/demos/size-limited-cache.sh [FOREBAY]
# FOREBAY is the program; by default it is built. Needs nbdkit and qemu-io.
set -euo pipefail
unset CDPATH

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if [ $# -gt 0 ]; then
  forebay=$(realpath -- "$1")
else
  cargo build --quiet --release --manifest-path "$root/Cargo.toml"
  forebay=${CARGO_TARGET_DIR:-$root/target}/release/forebay
fi
for needed in nbdkit qemu-io; do
  if ! command -v "$needed" >/dev/null; then
    echo "$needed is missing; install nbdkit and qemu-utils" >&2
    exit 1
  fi
done

scratch=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
  fi
  rm -rf -- "$scratch"
}
trap cleanup EXIT
cd -- "$scratch"

# Writes 192 MiB, reads them back, flushes. There is no flush before the end, so only the cache
# decides what is written when.
write_and_flush() {
  qemu-io -f raw -t writeback "nbd+unix:///?socket=$scratch/$1.sock" \
    -c 'write -P 0xbb 32M 192M' -c 'read -P 0xbb 32M 192M' -c 'flush' >"$1.log" 2>&1
}

# Prints what the client saw, and how much of its data is in the file.
report() {
  local name=$1 log=$2 lost
  # Every byte of the range was written as 0xbb; a block that is missing is all zeros.
  lost=$(dd if="$name.img" bs=1M skip=32 count=192 status=none | LC_ALL=C tr -d '\273' | wc -c)
  echo "$name:"
  if grep -q 'verification failed' "$log"; then
    echo "  read back before the flush: not the bytes that were written"
  else
    echo "  read back before the flush: the bytes that were written"
  fi
  echo "  blocks of 4 KiB that are not in the file after the flush: $((lost / 4096)) of 49152"
}

truncate -s 512M nbdkit.img
nbdkit -f -U nbdkit.sock --filter=cache file nbdkit.img cache-max-size=64M &
server=$!
for _ in $(seq 100); do
  if [ -S nbdkit.sock ]; then break; fi
  sleep 0.05
done
write_and_flush nbdkit || true
kill "$server"
wait "$server" || true
server=
nbdkit --version
report nbdkit nbdkit.log

mkfifo started
"$forebay" serve nbd forebay.img --create 512M --memory 64M --socket forebay.sock \
  >started 2>forebay.server.log &
server=$!
read -r _ <started
write_and_flush forebay
kill -KILL "$server"
wait "$server" 2>/dev/null || true
server=
"$forebay" --version
report forebay forebay.log
