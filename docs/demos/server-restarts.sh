#!/usr/bin/env bash
# Writes 64 MiB through a proxy to a block server that keeps writes in memory until a flush. The
# server is killed and started anew, then the client writes 1 MiB more and flushes. At the end the
# server's file is compared: once with nbdkit's retry filter as the proxy, once with Forebay.
#
# usage: docs/demos/server-restarts.sh [FOREBAY]
# FOREBAY is the program; without it, it is built. Needs nbdkit and qemu-io.
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
server='' proxy=''
end() {
  if [ -n "$1" ]; then
    kill "-$2" "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
  fi
}
cleanup() {
  end "$proxy" KILL
  end "$server" KILL
  rm -rf -- "$scratch"
}
trap cleanup EXIT
cd -- "$scratch"

# Waits until a server listens on a socket.
await() {
  for _ in $(seq 200); do
    if [ -S "$1" ] && qemu-io -r -f raw "nbd+unix:///?socket=$scratch/$1" -c length >/dev/null 2>&1; then
      return
    fi
    sleep 0.05
  done
  echo "nobody listens on $1" >&2
  exit 1
}

# The server. Unflushed writes are in its memory, and are lost with it.
start_server() {
  rm -f far.sock
  nbdkit -f -U far.sock --filter=cache file disk.img cache=writeback 2>>server.log &
  server=$!
  await far.sock
}

# Bytes of the 65 MiB that differ from those that were written.
missing() {
  local first second
  first=$(dd if=disk.img bs=1M count=64 status=none | LC_ALL=C tr -d '\273' | wc -c)
  second=$(dd if=disk.img bs=1M skip=64 count=1 status=none | LC_ALL=C tr -d '\314' | wc -c)
  echo $(((first + second) / 1048576))
}

# One run behind a proxy that listens on near.sock; $1 is its name, the rest starts it.
run() {
  local name=$1 flushed=succeeded
  shift
  rm -f disk.img near.sock
  truncate -s 128M disk.img
  start_server
  "$@" 2>>"$name.log" >>"$name.log" &
  proxy=$!
  await near.sock
  # One client stays for all of it. While it rests, the proxy sends on what it has, and the server
  # is killed.
  qemu-io -f raw -t writeback "nbd+unix:///?socket=$scratch/near.sock" \
    -c 'write -P 0xbb 0 64M' -c 'sleep 14000' -c 'write -P 0xcc 64M 1M' -c flush \
    >"$name.client" 2>&1 &
  local client=$!
  sleep 10
  end "$server" KILL
  start_server
  wait "$client" || flushed=failed
  if grep -qi 'error\|failed' "$name.client"; then
    flushed=failed
  fi
  # This is right after the flush: bytes that are not in the file now are lost.
  end "$server" KILL
  end "$proxy" KILL
  server='' proxy=''
  echo "$name:"
  echo "  the flush $flushed"
  echo "  of 65 MiB that were written, $(missing) MiB are not in the server's file"
}

nbdkit --version | head -1
run nbdkit-retry nbdkit -f -U near.sock --filter=retry nbd "uri=nbd+unix:///?socket=$scratch/far.sock"
"$forebay" --version
run forebay "$forebay" serve nbd "nbd+unix:///?socket=$scratch/far.sock" --socket near.sock --memory 48M
grep 'away' forebay.log | sed "s|$scratch/||; s/^/  /"
