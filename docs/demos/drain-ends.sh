#!/usr/bin/env bash
# How long an end takes that comes at any time: four writers on a disk of 30 MB/s, --drain 2s.
#
# usage: docs/demos/drain-ends.sh FOREBAY [nbd COUNT | mount COUNT]..
# FOREBAY is the program, built with --release. Without a part: nbd 10, mount 3. Needs root, losetup, the throttle of
# the block layer in cgroups of version 1, and fio with its nbd engine; for mount also mkfs.ext4 and fusermount3.
#
# nbd    SIGTERM to a block server whose clients go on writing, until it has ended
# mount  fusermount3 -u of a mount whose writers were killed just before, until everything is on the disk; and before
#        that the time in which all their files are synced while they write
set -uo pipefail
unset CDPATH

forebay=$(realpath -- "$1")
shift
if [ $# -eq 0 ]; then set -- nbd 10 mount 3; fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-ends-XXXXXX")
cd -- "$scratch" || exit 1
rule=/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device
truncate -s 2G disk.img
disk=$(losetup --find --show --direct-io=on disk.img) || exit 1
number=$(cat "/sys/class/block/${disk#/dev/}/dev")
server=
load=

cleanup() {
  for process in $load $server; do
    kill -KILL "$process" 2>/dev/null
    wait "$process" 2>/dev/null
  done
  echo "$number 0" >"$rule"
  umount -l mnt below 2>/dev/null
  losetup --detach "$disk"
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# start WORDS..: starts the program and returns when it answers.
start() {
  local line
  rm -f started
  mkfifo started
  "$forebay" "$@" >started 2>server.log &
  server=$!
  read -r line <started || sed 's/^/  /' server.log
}

# write_with FLAGS..: four writers that never rest.
write_with() {
  fio --name=writer --numjobs=4 --rw=write --bs=64k --size=256M --time_based --runtime=60 --thread "$@" \
    >fio.log 2>&1 &
  load=$!
}

stop_writers() {
  kill -KILL "$load" 2>/dev/null
  wait "$load" 2>/dev/null
  load=
}

# seconds_since NANOSECONDS
seconds_since() {
  local ns=$(($(date +%s%N) - $1))
  printf '%d.%03d' $((ns / 1000000000)) $((ns / 1000000 % 1000))
}

# A random instant from 4 to 9 s after the start.
sleep_a_while() {
  sleep "$((4 + RANDOM % 5)).$((RANDOM % 10))$((RANDOM % 10))"
}

# Syncs all files at once.
sync_all() {
  local file syncs=()
  for file in "$@"; do
    sync "$file" &
    syncs+=($!)
  done
  wait "${syncs[@]}"
}

# How much the server reported as left when it was asked to end.
left() {
  grep -m 1 'left to write' server.log | sed 's/^forebay: //'
}

nbd() {
  local try since status
  for ((try = 1; try <= $1; try++)); do
    start serve nbd "$disk" --memory 256M --socket nbd.sock --drain 2s
    write_with --ioengine=nbd --uri="nbd+unix:///?socket=$scratch/nbd.sock" --offset_increment=256M
    sleep_a_while
    since=$(date +%s%N)
    kill -TERM "$server"
    wait "$server"
    status=$?
    echo "  SIGTERM $try: ended after $(seconds_since "$since") s with status $status; $(left)"
    server=
    stop_writers
  done
}

mount_() {
  local try since synced
  echo "$number 0" >"$rule"
  mkfs.ext4 -q -F "$disk" && mkdir -p below mnt && mount "$disk" below && mkdir -p below/files
  for ((try = 1; try <= $1; try++)); do
    echo "$number 30000000" >"$rule"
    start mount below/files mnt --foreground --memory 256M --drain 2s
    write_with --ioengine=psync --directory="$scratch/mnt" --overwrite=0 --fallocate=none
    sleep_a_while
    since=$(date +%s%N)
    sync_all mnt/writer*
    synced=$(seconds_since "$since")
    sleep 2
    since=$(date +%s%N)
    stop_writers
    until fusermount3 -u mnt 2>unmount.log; do
      # The kernel still closes the files of a writer that was killed.
      sleep 0.01
    done
    wait "$server"
    server=
    echo "  fusermount3 -u $try: ended after $(seconds_since "$since") s; $(left); sync while they write: $synced s"
    echo "$number 0" >"$rule"
    rm -rf below/files/*
    sync
  done
  umount below
}

while [ $# -gt 0 ]; do
  echo "$1:"
  echo "$number 30000000" >"$rule"
  case $1 in
    nbd) nbd "$2" ;;
    mount) mount_ "$2" ;;
    *) echo "no such part: $1" >&2 && exit 2 ;;
  esac
  shift 2
done
