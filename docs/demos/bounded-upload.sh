#!/usr/bin/env bash
# Writes 1 GiB through a cache of 256 MiB to a bucket behind a line of 20 MB/s: with Forebay, rclone and s3backer, one
# after the other at the same server. Prints what each did: the longest write, errors, the memory and disk that it took,
# when everything was in the bucket.
#
# usage: docs/demos/bounded-upload.sh FOREBAY PLAIN [PROGRAM..]
# FOREBAY is the program and PLAIN the example `plain` of forebay-bucket, both built with --release. PROGRAMs are forebay,
# rclone-writes, rclone-full and s3backer; without any, all. Needs versitygw or moto_server, fio with its nbd engine,
# python3, and for the others rclone, s3backer, and FUSE. MIB is another size than 1024, RATE another rate than 20000000.
# What has arrived is seen at versitygw alone, whose bucket is a folder.
set -uo pipefail
unset CDPATH

forebay=$(realpath -- "$1")
plain=$(realpath -- "$2")
shift 2
programs=${*:-forebay rclone-writes rclone-full s3backer}
mib=${MIB:-1024}
rate=${RATE:-20000000}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-bounded-XXXXXX")
# shellcheck source=s3-server.sh
source "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/s3-server.sh"
cd -- "$scratch" || exit 1
processes=()
mounted=()

cleanup() {
  for mount in "${mounted[@]}"; do
    fusermount -uz "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null
  done
  for process in "${processes[@]}"; do
    kill -KILL "$process" 2>/dev/null
    wait "$process" 2>/dev/null
  done
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# written FILE: writes the bytes to FILE in calls of 64 KiB, syncs and closes it; prints what its caller waited.
written() {
  python3 - "$1" "$mib" <<'PYTHON'
import os, sys, time
path, mib = sys.argv[1], int(sys.argv[2])
clock, took, errors = time.monotonic, [], []
begun = clock()
chunk = os.urandom(64 << 10)
def step(what, call):
    before = clock()
    try:
        call()
    except OSError as error:
        errors.append(f"{what}: {error.strerror}")
    return clock() - before
try:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
except OSError as error:
    print(f"  the file cannot be opened: {error.strerror}")
    sys.exit(1)
for number in range(mib * 16):
    took.append(step("write", lambda: os.pwrite(file, chunk, number * len(chunk))))
    if errors:
        break
writes_s = clock() - begun
sync_s = step("fsync", lambda: os.fsync(file))
close_s = step("close", lambda: os.close(file))
took.sort()
print(f"  {len(took)} writes in {writes_s:.1f} s: p99.9 {took[len(took) * 999 // 1000] * 1e3:.1f} ms, longest "
      f"{took[-1] * 1e3:.0f} ms, over 200 ms {sum(one > 0.2 for one in took)}; fsync {sync_s:.1f} s, close {close_s:.1f} s; "
      f"errors: {', '.join(errors) or 'none'}")
PYTHON
}

# The MiB of objects below a prefix of the bucket: what is safe when the caller believes so.
arrived() {
  if [ -d far/bounded ]; then
    echo "  in the bucket then: $(find far/bounded -path "*/$1/*" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum / 1048576 }') MiB"
  fi
}

# What a process has at most: resident memory, and what its cache folder takes.
taken() {
  echo "  most resident memory $(($(grep VmHWM "/proc/$1/status" | tr -dc 0-9) / 1024)) MiB, cache on disk $(du -sm "$2" | cut -f1) MiB"
}

await_mount() {
  for _ in $(seq 100); do
    if mountpoint -q "$1"; then return 0; fi
    sleep 0.1
  done
  echo "  it does not mount"
  return 1
}

run_forebay() {
  echo "forebay serve nbd --memory 256M, fio's nbd client:"
  mkfifo started
  "$forebay" serve nbd s3://bounded/forebay --create 2G --memory 256M --socket f.sock >started 2>f.log &
  local server=$!
  processes+=("$server")
  read -r _ <started
  fio --name=stream --ioengine=nbd --uri="nbd+unix:///?socket=$scratch/f.sock" --output-format=json --output=f.json \
    --rw=write --bs=64k --iodepth=1 --size="${mib}M" --end_fsync=1 --write_lat_log=f --log_avg_msec=0 >/dev/null 2>&1
  python3 - <<'PYTHON'
import json
job = json.load(open("f.json"))["jobs"][0]
took = sorted(int(line.split(",")[1]) / 1e6 for line in open("f_clat.1.log") if line.split(",")[2].strip() == "1")
writes_s = job["write"]["runtime"] / 1e3
sync_s = job["job_runtime"] / 1e3 - writes_s
print(f"  {len(took)} writes: p99.9 {took[len(took) * 999 // 1000]:.1f} ms, longest {took[-1]:.0f} ms, over 200 ms "
      f"{sum(one > 200 for one in took)}; flush included {job['job_runtime'] / 1e3:.1f} s; errors: {job['error'] or 'none'}")
PYTHON
  arrived forebay
  taken "$server" /dev/null
  kill -TERM "$server"
  wait "$server"
  sed 's/^/  /' f.log | grep -v 'memory in all\|program code' | tail -2
}

run_rclone() {
  local mode=$1
  echo "rclone mount --vfs-cache-mode $mode --vfs-cache-max-size 256M:"
  command -v rclone >/dev/null || { echo "  not installed"; return; }
  mkdir -p rmount rcache
  RCLONE_CONFIG_FAR_TYPE=s3 RCLONE_CONFIG_FAR_PROVIDER=Other RCLONE_CONFIG_FAR_ENDPOINT=$AWS_ENDPOINT \
    RCLONE_CONFIG_FAR_ACCESS_KEY_ID=k RCLONE_CONFIG_FAR_SECRET_ACCESS_KEY=secretsecret RCLONE_CONFIG_FAR_REGION=us-east-1 \
    rclone mount "far:bounded/rclone-$mode" rmount --cache-dir "$scratch/rcache" --vfs-cache-mode "$mode" \
    --vfs-cache-max-size 256M --vfs-write-back 1s --vfs-cache-poll-interval 5s --log-file "r-$mode.log" -v &
  local server=$! begun=$SECONDS
  processes+=("$server")
  mounted+=("$scratch/rmount")
  await_mount rmount || { tail -2 "r-$mode.log"; return; }
  written rmount/stream
  arrived "rclone-$mode"
  taken "$server" rcache
  for _ in $(seq 300); do
    [ "$(stat -c %s "far/bounded/rclone-$mode/stream" 2>/dev/null)" = $((mib << 20)) ] && break
    sleep 1
  done
  echo "  all of it in the bucket $((SECONDS - begun)) s after the start"
  fusermount -u rmount 2>/dev/null || fusermount3 -u rmount
  wait "$server"
  grep -E 'ERROR|CRITICAL' "r-$mode.log" | head -3 | sed 's/^/  /'
  rm -rf rcache rmount
}

run_s3backer() {
  echo "s3backer, blocks of 1 MiB, --blockCacheSize 256, --directIO:"
  command -v s3backer >/dev/null || { echo "  not installed"; return; }
  mkdir -p smount
  s3backer --baseURL="$AWS_ENDPOINT/" --accessId=k --accessKey=secretsecret --size=2G --blockSize=1M --blockCacheSize=256 \
    --prefix=s3backer/ --listBlocks --directIO -f bounded smount >s.log 2>&1 &
  local server=$!
  processes+=("$server")
  mounted+=("$scratch/smount")
  await_mount smount || { tail -2 s.log; return; }
  written smount/file
  arrived s3backer
  taken "$server" /dev/null
  fusermount -u smount 2>/dev/null || fusermount3 -u smount
  wait "$server"
  grep -iE 'error|warn|fail' s.log | head -3 | sed 's/^/  /'
}

unset AWS_CA_BUNDLE # rclone does not start with it
start_far bounded
start_line "$rate"
echo "at $far_name, a line of $((rate / 1000000)) MB/s, $mib MiB in writes of 64 KiB"
for program in $programs; do
  case $program in
    forebay) run_forebay ;;
    rclone-writes) run_rclone writes ;;
    rclone-full) run_rclone full ;;
    s3backer) run_s3backer ;;
    *) echo "there is no program '$program'" >&2; exit 2 ;;
  esac
done
