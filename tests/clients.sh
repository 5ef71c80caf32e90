#!/usr/bin/env bash
# `forebay serve nbd` under clients from other projects: fio, libnbd's tools, qemu's tools, an ext4 file system made on the export.
#
# usage: tests/clients.sh FOREBAY
# FOREBAY is the program. A check whose client is missing is named and counted as ignored.
set -uo pipefail
unset CDPATH

# shellcheck source=tests/checks.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/checks.bash"
forebay=$(realpath -- "$1")
moves=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")/../docs/demos/volume-moves.sh")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-clients-XXXXXX")
cd -- "$scratch" || exit 1
socket=$scratch/nbd.sock
uri="nbd+unix:///?socket=$socket"

cleanup() {
  if [ -n "$server" ]; then
    kill -KILL "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  fi
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Serves disk.img, with the other arguments, and returns when clients can connect.
serve() {
  serve_at disk.img "$@"
}

# The same for another PATH.
serve_at() {
  # The FIFO ends this wait at the server's first line, or at its death.
  rm -f started
  mkfifo started
  "$forebay" serve nbd "$@" --socket "$socket" >started 2>>server.log &
  server=$!
  local line
  read -r line <started && [ "$line" = "$uri" ]
}

# A server that outlived its check.
kill_server() {
  if [ -n "$server" ]; then
    kill -KILL "$server"
  fi
}

# A disk of its own for every check.
prepare() {
  rm -f disk.img
}

run_fio() {
  fio --ioengine=nbd --uri="$uri" --verify=crc32c --verify_fatal=1 --do_verify=1 "$@"
}

check_fio_verifies_random_writes() (
  set -e
  trap kill_server EXIT
  serve --create 512M --memory 32M
  run_fio --name=whole --rw=randwrite --bs=4k --size=96M --iodepth=32
  run_fio --name=odd --rw=randwrite --bsrange=512-128k --bs_unaligned --size=96M --iodepth=16
  run_fio --name=jobs --rw=randrw --bs=16k --size=64M --offset_increment=64M --numjobs=4 \
    --iodepth=8 --group_reporting
  run_fio --name=durable --rw=randwrite --bs=4k --size=4M --fsync=16 --iodepth=4
  end
)

check_fio_finds_its_data_after_a_restart() (
  set -e
  trap kill_server EXIT
  serve --create 256M --memory 32M
  run_fio --name=kept --rw=write --bs=64k --size=200M --iodepth=8 --do_verify=0
  end
  serve --memory 32M --read-only
  run_fio --name=kept --rw=read --bs=64k --size=200M --iodepth=8 --verify_only
  end
)

check_nbdcopy_brings_back_what_it_took() (
  set -e
  trap kill_server EXIT
  head -c 192M /dev/urandom >original
  serve --create 192M --memory 32M
  nbdcopy --flush original "$uri"
  nbdcopy "$uri" copy
  cmp original copy
  nbdcopy --synchronous "$uri" - | cmp original -
  end
  cmp original disk.img
  rm -f original copy
)

check_nbdinfo_sees_what_is_offered() (
  set -e
  trap kill_server EXIT
  serve --create 64M --memory 32M --export disk
  nbdinfo --json "nbd+unix:///disk?socket=$socket" >info.json
  grep -q '"export-size": 67108864' info.json
  for can in can_cache can_df can_flush can_fua can_multi_conn can_trim can_zero; do
    grep -q "\"$can\": true" info.json
  done
  nbdinfo --list "$uri" | grep -q 'export="disk"'
  # A new image is one hole, until something is written.
  nbdinfo --map "$uri" | grep -Eq '^ *0 +67108864 +3 +hole,zero$'
  end
)

check_qemu_img_converts_and_compares() (
  set -e
  trap kill_server EXIT
  qemu-img create -q -f qcow2 source.qcow2 192M
  for at in 0 40 80 120; do
    qemu-io -c "write -P $at ${at}M 20M" source.qcow2
  done
  serve --create 192M --memory 32M
  qemu-img convert -n -f qcow2 -O raw source.qcow2 "$uri"
  qemu-img compare -f qcow2 -F raw source.qcow2 "$uri"
  qemu-io -f raw -c 'write -P 7 1000 70000' -c 'discard 10M 4M' -c 'write -z 30M 3M' \
    -c 'flush' -c 'read -P 7 1000 70000' -c 'read -P 0 10M 4M' -c 'read -P 0 30M 3M' "$uri" >io.log
  lacks 'verification failed' io.log
  end
)

check_a_qcow2_inside_stays_whole() (
  set -e
  trap kill_server EXIT
  serve --create 256M --memory 32M
  qemu-img create -q -f qcow2 "$uri" 128M
  for at in 3 21 77 90; do
    qemu-io -f qcow2 -c "write -P $at ${at}M 9M" "$uri"
  done
  qemu-img check -f qcow2 "$uri"
  end
  qemu-img check -f qcow2 disk.img
  for at in 3 21 77 90; do
    qemu-io -f qcow2 -c "read -P $at ${at}M 9M" disk.img >io.log
    lacks 'verification failed' io.log
  done
)

check_nbdkit_passes_it_on() (
  set -e
  trap kill_server EXIT
  head -c 32M /dev/urandom >original
  serve --create 32M --memory 32M
  # Through nbdkit's client plugin, with simple replies and with chunks.
  nbdkit -U - nbd socket="$socket" --run 'nbdcopy original "$uri" && nbdcopy "$uri" copy'
  cmp original copy
  nbdkit --no-sr -U - nbd socket="$socket" --run 'nbdcopy "$uri" again'
  cmp original again
  end
  rm -f original copy again
)

check_ext4_is_clean() (
  set -e
  trap kill_server EXIT
  mkdir tree
  for at in $(seq 200); do
    head -c $((at * 517)) /dev/urandom >"tree/file-$at"
  done
  truncate -s 128M plain.img
  mke2fs -q -t ext4 -d tree plain.img
  serve --create 128M --memory 32M
  nbdcopy --flush plain.img "$uri"
  end
  e2fsck -fn disk.img
  for at in 1 100 200; do
    debugfs -R "cat /file-$at" disk.img 2>/dev/null | cmp - "tree/file-$at"
  done
  rm -rf tree plain.img
)

# The file system on the export itself, if the kernel has a client and lets us use it.
check_ext4_through_the_kernel() (
  set -e
  device=
  undo() {
    if mountpoint -q mnt; then umount mnt; fi
    if [ -n "$device" ]; then nbd-client -d "$device"; fi
    kill_server
  }
  trap undo EXIT
  serve --create 128M --memory 32M
  nbd-client -unix "$socket" /dev/nbd0 && device=/dev/nbd0
  mke2fs -q -t ext4 "$device"
  mkdir -p mnt
  mount "$device" mnt
  head -c 64M /dev/urandom >mnt/file
  sum=$(cksum <mnt/file)
  umount mnt
  e2fsck -fn "$device"
  mount "$device" mnt
  [ "$(cksum <mnt/file)" = "$sum" ]
  umount mnt
  nbd-client -d "$device" && device=
  end
  e2fsck -fn disk.img
)

check_metrics_are_reported() (
  set -e
  trap kill_server EXIT
  serve --create 64M --memory 32M --metrics 127.0.0.1:0
  run_fio --name=some --rw=write --bs=64k --size=8M
  address=$(sed -n 's/.*metrics at //p' server.log)
  curl -sf "$address" >metrics.txt
  grep -q '^forebay_nr_dirtied_total [1-9]' metrics.txt
  tail -n 1 metrics.txt | grep -qx '# EOF'
  end
)

# Two exports of one server: fio writes as fast as it can to one, and little to the other.
check_why_names_the_heavy_client() (
  set -e
  trap kill_server EXIT
  rm -f log.img
  serve log.img --create 128M --memory 32M --control control
  write_to() {
    fio --name="$1" --ioengine=nbd --uri="nbd+unix:///$1?socket=$socket" --rw=randwrite --bs=4k \
      --size=128M --time_based --runtime=3 "${@:2}"
  }
  write_to disk.img --iodepth=32 &
  write_to log.img --iodepth=1 --rate=200k
  wait $!
  "$forebay" why control --trace trace.json | tee why.txt
  sed -n 2p why.txt | grep -q '^1  client [0-9]* (disk.img) '
  "$forebay" why control --json |
    python3 -c 'import json, sys; assert json.load(sys.stdin)["lines"][0]["caller"]["name"] == "disk.img"'
  "$forebay" set control store.0.drain=2s | grep -qx 'store.0.drain: off -> 2s'
  curl -sf --unix-socket control http://localhost/state | grep -q '"store.0.drain":"2s"'
  end
)

# An authority, and what it signs for the server and a client, in the files that qemu names.
make_certificates() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=authority -keyout "$1/ca-key.pem" -out "$1/ca-cert.pem"
  local who
  for who in server client; do
    # With an extension, because a certificate without one has version 1, which rustls refuses.
    echo 'subjectAltName = DNS:localhost, IP:127.0.0.1' >extensions
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$who" \
      -keyout "$1/$who-key.pem" -out request.pem
    openssl x509 -req -in request.pem -days 2 -CA "$1/ca-cert.pem" -CAkey "$1/ca-key.pem" \
      -CAcreateserial -extfile extensions -out "$1/$who-cert.pem"
  done
}

# Serves disk.img to the network, sets port, and returns when clients can connect.
serve_tls() {
  rm -f started
  mkfifo started
  "$forebay" serve nbd disk.img --listen 0.0.0.0:0 --tls-certificates pki "$@" >started \
    2>>server.log &
  server=$!
  local line
  read -r line <started
  port=${line##*:}
  [ "$line" = "nbds://0.0.0.0:$port" ]
}

check_tls_is_spoken_and_demanded() (
  set -e
  trap kill_server EXIT
  mkdir -p pki other
  make_certificates pki
  make_certificates other
  serve_tls --create 64M --memory 32M
  secured="nbds://localhost:$port/?tls-certificates=$PWD/pki"
  [ "$(nbdinfo --size "$secured")" = 67108864 ]
  head -c 64M /dev/urandom >original
  nbdcopy --flush original "$secured"
  nbdcopy "$secured" copy
  cmp original copy
  # Neither without TLS, nor with the certificate of an authority that the server does not know.
  lacks_size() { ! nbdinfo --size "$1"; }
  lacks_size "nbd://localhost:$port"
  cp pki/ca-cert.pem other/ca-cert.pem
  lacks_size "nbds://localhost:$port/?tls-certificates=$PWD/other"
  rm -f pki/client-*
  lacks_size "$secured"
  end
  cmp original disk.img
  rm -rf original copy pki other
)

# A cache in front of a server with TLS, with its authority in a folder, or known to the system.
check_a_server_with_tls_is_cached() (
  set -e
  front=
  trap '[ -z "$front" ] || kill -9 "$front"; kill_server' EXIT
  mkdir -p pki
  make_certificates pki
  serve_tls --create 64M --memory 32M
  rm -f front.sock started
  mkfifo started
  "$forebay" serve nbd "nbds://localhost:$port/?tls-certificates=$PWD/pki" --memory 64M \
    --socket front.sock >started 2>front.log &
  front=$!
  read -r line <started
  [ "$line" = "nbd+unix:///?socket=front.sock" ]
  head -c 64M /dev/urandom >original
  nbdcopy --flush original "nbd+unix:///?socket=$PWD/front.sock"
  kill -TERM "$front"
  wait "$front"
  front=
  nbdcopy "nbds://localhost:$port/?tls-certificates=$PWD/pki" copy
  cmp original copy
  refuses() {
    ! "$forebay" serve nbd "$2" --memory 64M --socket front.sock 2>front.log
    grep -q -- "$1" front.log
  }
  refuses 'begins with nbds://' "nbd://localhost:$port/"
  refuses 'authority that is not known' "nbds://localhost:$port/"
  # It is trusted now, and this client is not.
  SSL_CERT_FILE=$PWD/pki/ca-cert.pem refuses 'accept this client' "nbds://localhost:$port/"
  end
  cmp original disk.img
  rm -rf original copy pki front.log
)

check_qemu_speaks_tls() (
  set -e
  trap kill_server EXIT
  mkdir -p pki
  make_certificates pki
  serve_tls --create 64M --memory 32M
  credentials="tls-creds-x509,id=tls,dir=$PWD/pki,endpoint=client,verify-peer=on"
  image="driver=nbd,host=localhost,port=$port,tls-creds=tls"
  qemu-io --object "$credentials" --image-opts "$image" -c 'write -P 9 1000 3000000' -c flush \
    -c 'read -P 9 1000 3000000' -c 'read -P 0 3001000 100000' >io.log
  lacks 'verification failed' io.log
  qemu-img info --object "$credentials" --image-opts "$image" | grep -q '64 MiB'
  end
  rm -rf pki
)

# A filter of system calls, as containers have one.
check_a_refused_io_uring_is_told() (
  set -e
  trap kill_server EXIT
  cat >refusing <<'END'
#!/usr/bin/env python3
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
IO_URING_SETUP, ERRNO, ALLOW, EPERM = 425, 0x50000, 0x7fff0000, 1
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, IO_URING_SETUP), (6, 0, 0, ERRNO | EPERM), (6, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(SECCOMP, FILTER, program) == 0
os.execv(sys.argv[1], sys.argv[1:])
END
  chmod +x refusing
  printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$PWD/refusing" "$forebay" >filtered
  chmod +x filtered
  forebay=$PWD/filtered
  serve --create 64M --memory 32M
  grep -q 'io_uring cannot be used (.*): requests go through threads' server.log
  qemu-io -f raw -c 'write -P 7 1M 8M' -c flush -c 'read -P 7 1M 8M' "$uri" >io.log
  lacks 'verification failed' io.log
  end
)

check_a_volume_reports_what_it_takes() (
  set -e
  trap kill_server EXIT
  serve_at "folder://$PWD/volume" --create 64M --chunk 64K --memory 64M --metrics 127.0.0.1:0
  address=$(sed -n 's/.*metrics at //p' server.log | tail -n 1)
  qemu-io -f raw -c 'write -P 7 0 1M' -c flush -c 'write -P 8 0 1M' -c flush "$uri" >/dev/null
  curl -sf "$address" >metrics.txt
  for line in 'bucket_requests_total{export="",call="make",result="ok"} [1-9]' 'volume_epoch{export=""} 1' \
    'volume_dead_bytes{export=""} 10[45][0-9][0-9][0-9][0-9]' 'volume_live_bytes{export=""} 1049600'; do
    grep -q "^forebay_$line" metrics.txt
  done
  end
  rm -rf volume
)

check_a_volume_in_a_folder_moves() (
  "$moves" "$forebay"
)

# A server that nobody here wrote; its bucket is made by a request without a signature.
check_a_volume_at_an_s3_server_moves() (
  set -e
  port=$((20000 + RANDOM % 20000))
  moto_server -H 127.0.0.1 -p "$port" >/dev/null 2>&1 &
  moto=$!
  trap 'kill -KILL $moto' EXIT
  curl --silent --fail --retry 60 --retry-delay 1 --retry-connrefused -X PUT "http://127.0.0.1:$port/backups"
  export AWS_ENDPOINT=http://127.0.0.1:$port AWS_ALLOW_HTTP=true AWS_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=secretsecret
  "$moves" "$forebay" s3://backups/disks/one
)

check fio_verifies_random_writes fio
check fio_finds_its_data_after_a_restart fio
check nbdcopy_brings_back_what_it_took nbdcopy
check nbdinfo_sees_what_is_offered nbdinfo
check qemu_img_converts_and_compares qemu-img qemu-io
check a_qcow2_inside_stays_whole qemu-img qemu-io
check nbdkit_passes_it_on nbdkit nbdcopy
check ext4_is_clean mke2fs e2fsck debugfs nbdcopy
check metrics_are_reported fio curl
check why_names_the_heavy_client fio curl
check tls_is_spoken_and_demanded openssl nbdinfo nbdcopy
check qemu_speaks_tls openssl qemu-io qemu-img
check a_server_with_tls_is_cached openssl nbdcopy
check a_refused_io_uring_is_told qemu-io
check a_volume_reports_what_it_takes qemu-io curl
check a_volume_in_a_folder_moves qemu-io
check a_volume_at_an_s3_server_moves qemu-io moto_server curl
if [ -b /dev/nbd0 ]; then
  check ext4_through_the_kernel nbd-client mke2fs e2fsck
else
  ignore ext4_through_the_kernel "the kernel has no /dev/nbd0"
fi

conclude
