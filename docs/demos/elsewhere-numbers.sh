#!/usr/bin/env bash
# What a cache in front of storage elsewhere reaches, beside a plain program at the same server in the same run.
#
# usage: docs/demos/elsewhere-numbers.sh FOREBAY PLAIN [PART..]
# FOREBAY is the program and PLAIN the example `plain` of forebay-bucket, both built with --release. PARTs are kills, slow,
# hits, misses, stream, flush and line; without any, all. Needs fio with its nbd engine, nbdkit, and versitygw or
# moto_server.
set -uo pipefail
unset CDPATH

forebay=$(realpath -- "$1")
plain=$(realpath -- "$2")
shift 2
parts=${*:-kills slow hits misses stream flush line}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-numbers-XXXXXX")
# shellcheck source=s3-server.sh
source "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/s3-server.sh"
cd -- "$scratch" || exit 1
processes=()

cleanup() {
  for process in "${processes[@]}"; do
    kill -KILL "$process" 2>/dev/null
    wait "$process" 2>/dev/null
  done
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# serve NAME ADDRESS FLAGS..: serves ADDRESS at NAME.sock.
serve() {
  local name=$1 line
  shift
  mkfifo "$name.started"
  "$forebay" serve nbd "$@" --socket "$name.sock" >"$name.started" 2>"$name.log" &
  server=$!
  processes+=("$server")
  read -r line <"$name.started" || sed 's/^/  /' "$name.log"
  rm -f "$name.started"
}

end() {
  kill -TERM "$1"
  wait "$1"
}

# load SOCKET NAME FLAGS..: fio at SOCKET; its JSON goes to NAME.json.
load() {
  local socket=$1 name=$2
  shift 2
  fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$scratch/$socket" --output-format=json \
    --output="$name.json" "$@" >/dev/null 2>&1 || echo "  fio failed: $name"
}

# report NAME LABEL: what fio reached.
report() {
  python3 - "$1.json" "$2" <<'PYTHON'
import json, sys
jobs = json.load(open(sys.argv[1]))["jobs"]
for way in ("read", "write"):
    rate = sum(job[way]["bw_bytes"] for job in jobs)
    if not rate:
        continue
    calls = sum(job[way]["iops"] for job in jobs)
    at = lambda p: max(job[way]["clat_ns"].get("percentile", {}).get(p, 0) for job in jobs) / 1e6
    longest = max(job[way]["clat_ns"]["max"] for job in jobs) / 1e6
    cpu = sum(job["usr_cpu"] + job["sys_cpu"] for job in jobs)
    print(f"  {sys.argv[2]}: {rate / 1e6:.2f} MB/s, {calls:.0f} calls/s, p50 {at('50.000000'):.3f} ms, "
          f"p99 {at('99.000000'):.2f} ms, p99.9 {at('99.900000'):.1f} ms, longest {longest:.0f} ms")
flushes = [job["sync"]["lat_ns"] for job in jobs if job.get("sync", {}).get("total_ios")]
for sync in flushes:
    print(f"  {sys.argv[2]}, flush: p50 {sync['percentile']['50.000000'] / 1e6:.2f} ms, n {sync['N']}")
PYTHON
}

start_nbdkit() {
  local socket=$1
  shift
  nbdkit --foreground --unix "$scratch/$socket" "$@" &
  nbdkit=$!
  processes+=("$nbdkit")
  until [ -S "$socket" ]; do sleep 0.05; done
}

part_kills() {
  local kills=0 rounds=0 failed=0 most=${KILLS:-100} client
  echo "fio with --verify=crc32c, 64 MiB, while nbdkit below is killed and started anew $most times; it forgets what was not flushed:"
  truncate -s 64M killed.img
  start_nbdkit killed.sock --filter=cache file killed.img cache=writeback
  serve over-killed "nbd+unix:///?socket=$scratch/killed.sock" --memory 32M
  while [ "$kills" -lt "$most" ]; do
    fio --name=verify --ioengine=nbd --uri="nbd+unix:///?socket=$scratch/over-killed.sock" --rw=randwrite --bs=4k \
      --iodepth=16 --size=64M --rate=8M --verify=crc32c --do_verify=1 --end_fsync=1 >verify.log 2>&1 &
    client=$!
    while kill -0 "$client" 2>/dev/null && [ "$kills" -lt "$most" ]; do
      sleep "0.$((RANDOM % 6 + 1))"
      kill -KILL "$nbdkit"
      wait "$nbdkit" 2>/dev/null
      rm -f killed.sock
      start_nbdkit killed.sock --filter=cache file killed.img cache=writeback
      kills=$((kills + 1))
    done
    wait "$client" || {
      failed=$((failed + 1))
      tail -3 verify.log
    }
    rounds=$((rounds + 1))
  done
  echo "  $kills kills, $rounds rounds of fio, $failed of them with an error or a wrong byte"
  grep -c 'was away' over-killed.log | sed 's/^/  times that the server was away: /'
  kill -KILL "$server" "$nbdkit"
}

part_slow() {
  echo "A server of 20 MB/s, 4 writers of 64 KiB, 20 s:"
  start_nbdkit slow.sock --filter=rate memory 2G rate=160M
  serve slow-cached "nbd+unix:///?socket=$scratch/slow.sock" --memory 256M
  load slow-cached.sock slow --rw=randwrite --bs=64k --numjobs=4 --iodepth=1 --size=256M --offset_increment=256M \
    --time_based --runtime=20 --ramp_time=5
  report slow 'Forebay'
  kill -KILL "$server" "$nbdkit"
}

# cpu PID: the processor time of a process so far, in clock ticks.
cpu() {
  awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# turn NAME KIND PID: two seconds of fio at NAME.sock; adds calls a second, and the server's processor time a call, to
# NAME-KIND.turns.
turn() {
  local name=$1 kind=$2 before
  before=$(cpu "$3")
  load "$name.sock" "$kind-$name" --rw="$kind" --bs=4k --iodepth=16 --size=64M --time_based --runtime=2
  python3 - "$kind-$name.json" "$(($(cpu "$3") - before))" "$(getconf CLK_TCK)" >>"$name-$kind.turns" <<'PYTHON'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
way = "read" if job["read"]["total_ios"] else "write"
calls = job[way]["total_ios"]
print(job[way]["iops"], int(sys.argv[2]) / int(sys.argv[3]) / calls * 1e6)
PYTHON
}

part_hits() {
  local turns=${TURNS:-9}
  echo "Cached, 64 MiB, depth 16, 4 KiB, $turns turns of 2 s each, medians, nbd:// below compared with a file below:"
  start_nbdkit hits.sock memory 1G
  truncate -s 1G file.img
  serve far "nbd+unix:///?socket=$scratch/hits.sock" --memory 512M
  local far=$server
  serve near file.img --memory 512M
  local near=$server round kind name
  # Nothing is dirty while reads are measured: writes of what was written before would count for them.
  for name in far near; do
    load "$name.sock" "warm-$name" --rw=write --bs=1M --iodepth=4 --size=64M --end_fsync=1
  done
  for kind in randread randwrite; do
    for round in $(seq "$turns"); do
      # Which of them is first changes, so that what one leaves for later strikes both.
      if [ $((round % 2)) = 0 ]; then
        turn far "$kind" "$far" && turn near "$kind" "$near"
      else
        turn near "$kind" "$near" && turn far "$kind" "$far"
      fi
    done
    python3 - "$kind" <<'PYTHON'
import statistics, sys
kind = sys.argv[1]
turns = {name: [[float(word) for word in line.split()] for line in open(f"{name}-{kind}.turns")] for name in ("far", "near")}
rate = {name: statistics.median(turn[0] for turn in all) for name, all in turns.items()}
cost = {name: statistics.median(turn[1] for turn in all) for name, all in turns.items()}
spread = {name: (min(all)[0], max(all)[0]) for name, all in turns.items()}
ratios = sorted(far[0] / near[0] for far, near in zip(turns["far"], turns["near"]))
print(f"  {kind}: {rate['far']:.0f} and {rate['near']:.0f} calls/s, {rate['far'] / rate['near']:.2f} x; "
      f"of single turns {ratios[0]:.2f} to {ratios[-1]:.2f} x; the server's processor time {cost['far']:.2f} and "
      f"{cost['near']:.2f} us a call, {cost['far'] / cost['near']:.2f} x")
PYTHON
  done
  kill -KILL "$far" "$near" "$nbdkit"
}

part_misses() {
  local delay round seconds=${SECONDS_A_TURN:-6}
  for delay in 0 2; do
    echo "Misses of 4 KiB at depth 32, 4 GiB behind 64 MiB, a server that takes $delay ms more, three turns:"
    start_nbdkit "misses-$delay.sock" --threads 64 --filter=delay memory 4G "rdelay=${delay}ms"
    load "misses-$delay.sock" fill --rw=write --bs=1M --iodepth=4 --size=4G
    serve "missing-$delay" "nbd+unix:///?socket=$scratch/misses-$delay.sock" --memory 64M
    for round in 1 2 3; do
      load "misses-$delay.sock" direct --rw=randread --bs=4k --iodepth=32 --size=4G --time_based --runtime="$seconds"
      report direct "$round straight at the server"
      load "missing-$delay.sock" cached --rw=randread --bs=4k --iodepth=32 --size=4G --time_based --runtime="$seconds"
      report cached "$round through Forebay"
    done
    kill -KILL "$server" "$nbdkit"
  done
}

part_stream() {
  echo "A stream of 512 MiB into a bucket, and a plain program with 1 MiB puts at depth 16, three turns:"
  start_far numbers
  echo "  at $far_name"
  local round
  for round in 1 2 3; do
    echo "  $round plain: $("$plain" put "s3://numbers/plain-$round" 1048576 512 16)"
    serve "stream-$round" "s3://numbers/stream-$round" --create 1G --memory 512M
    load "stream-$round.sock" stream --rw=write --bs=1M --iodepth=4 --size=512M --end_fsync=1
    python3 -c 'import json; job = json.load(open("stream.json"))["jobs"][0]; print(f"  '"$round"' Forebay, flush included: {job['"'job_runtime'"'] / 1000:.2f} s")'
    end "$server"
  done
  kill -KILL "$far"
}

part_flush() {
  echo "A flush of one page beside a put of 4 KiB, and a cold read of 4 KiB beside a ranged get:"
  start_far numbers
  echo "  at $far_name"
  echo "  put of 4 KiB: $("$plain" put s3://numbers/small 4096 500 1)"
  serve flush s3://numbers/flush --create 1G --memory 256M
  load flush.sock flush --rw=randwrite --bs=4k --iodepth=1 --size=64M --fsync=1 --number_ios=500
  report flush 'Forebay'
  load flush.sock filled --rw=write --bs=1M --iodepth=4 --size=512M --end_fsync=1
  end "$server"
  echo "  ranged get of 4 KiB: $("$plain" get s3://numbers/ranged 4096 500 1)"
  serve cold s3://numbers/flush --memory 64M
  load cold.sock cold --rw=randread --bs=4k --iodepth=1 --size=512M --number_ios=500
  report cold 'Forebay, cold'
  end "$server"
  kill -KILL "$far"
}

part_line() {
  echo "1 GiB through 256 MiB to a bucket behind a line of 20 MB/s:"
  start_far numbers
  echo "  at $far_name"
  start_line 20000000
  serve line s3://numbers/line --create 2G --memory 256M
  load line.sock line --rw=write --bs=64k --iodepth=1 --size=1G --end_fsync=1
  report line 'Forebay'
  end "$server"
  kill -KILL "$far"
}

for part in $parts; do
  "part_$part"
done
