#!/usr/bin/env bash
# `forebay mount` under clients that nobody here wrote: fio, dd, rsync, tar, git, SQLite,
# PostgreSQL, fsx, stress-ng, dbench, and pjdfstest's several hundred cases of what POSIX asks of a file system.
#
# usage: tests/mount.sh FOREBAY [--share FOLDER | CHECK..]
# FOREBAY is the program. A check whose client is missing is named and counted as ignored, and so
# is every check where nothing can be mounted. Runs beside each other that share an empty folder divide
# the checks between them: each check has its mark there, and whoever makes the mark runs it.
set -uo pipefail
unset CDPATH

# shellcheck source=tests/checks.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/checks.bash"
# shellcheck source=tests/mount_permissions.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/mount_permissions.bash"
# shellcheck source=tests/mount_limits.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/mount_limits.bash"
# shellcheck source=tests/mount_below.bash
. "$(dirname -- "${BASH_SOURCE[0]}")/mount_below.bash"
forebay=$(realpath -- "$1")
marks=
if [ "${2-}" = --share ]; then
  marks=$(realpath -- "$3")
  set -- "$1"
fi
programs=$(realpath -- "$(dirname -- "${BASH_SOURCE[0]}")")/mapped
helper=$(realpath -- "$programs/../../contrib/mount.fuse.forebay")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/forebay-mount-XXXXXX")
cd -- "$scratch" || exit 1
chmod 755 .
src=$scratch/src
mnt=$scratch/mnt

# Takes the mount away, in any state.
kill_server() {
  if [ -n "$server" ]; then
    kill -KILL "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
  # A mount whose server is gone is only in the list.
  if grep -q " $mnt fuse" /proc/mounts; then
    fusermount3 -u -z "$mnt" 2>/dev/null || umount -l "$mnt"
  fi
}

cleanup() {
  kill_server
  rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Mounts src at mnt, with the other arguments, and returns when it answers.
serve() {
  # The FIFO ends this wait at the server's first line, or at its death.
  rm -f started
  mkfifo started
  "$forebay" mount "$src" "$mnt" --foreground "$@" >started 2>>server.log &
  server=$!
  local line
  read -r line <started && [ "$line" = "$mnt" ]
}

# A folder of its own for every check.
prepare() {
  rm -rf -- "$src"
  mkdir -p "$src" "$mnt"
}

# As check, if something can be mounted and no other run has taken it.
check_mount() {
  if [ -n "$marks" ] && ! mkdir -- "$marks/$1" 2>/dev/null; then return; fi
  if [ -n "$no_mount" ]; then
    ignore "$1" "$no_mount"
  else
    check "$@"
  fi
}

run_fio() {
  fio --directory="$mnt" --verify=crc32c --verify_fatal=1 --do_verify=1 "$@"
}

check_fio_verifies_random_writes() (
  set -e
  trap kill_server EXIT
  serve --memory 32M
  run_fio --name=whole --rw=randwrite --bs=4k --size=96M --ioengine=psync
  run_fio --name=odd --rw=randwrite --bsrange=512-128k --bs_unaligned --size=64M
  run_fio --name=jobs --rw=randrw --bs=16k --size=32M --numjobs=4 --group_reporting
  run_fio --name=direct --rw=randwrite --bs=8k --size=32M --direct=1 --ioengine=libaio --iodepth=8
  run_fio --name=durable --rw=randwrite --bs=4k --size=2M --fsync=16
  end
)

check_fio_verifies_mapped_writes() (
  set -e
  trap kill_server EXIT
  serve --memory 32M
  run_fio --name=mapped --rw=randwrite --bs=4k --size=48M --ioengine=mmap
  end
)

# One thread stores to a word of each page through a mapping, another writes another word of it.
check_mapped_stores_and_writes_share_pages() (
  set -e
  trap kill_server EXIT
  cc -O2 -pthread -o beside "$programs/beside.c"
  serve --memory 64M
  ./beside "$mnt/file" 40 2048
  ./beside "$mnt/file" 40 2048 punch
  end
  rm -f beside
)

# A mapping ends with SIGBUS where it does in the kernel's own file systems, and nowhere else.
check_mappings_of_what_is_gone_are_signalled() (
  set -e
  trap kill_server EXIT
  cc -O2 -o signalled "$programs/signalled.c"
  serve --memory 16M
  mkdir -p below
  ./signalled below/file >in-the-folder
  ./signalled "$mnt/file" >in-the-mount
  diff in-the-folder in-the-mount
  end
  rm -rf signalled below in-the-folder in-the-mount
)

# Touches a mapping of the file $2 on a disk that is the image $1, of which only the first 40 MiB can
# be read for a while: what is cut off an image fails.
touch_on_a_failing_disk() {
  local line length
  rm -f words stored
  mkfifo words stored
  ./failed "$2" <words >stored &
  exec 3>words 4<stored
  for length in 40M 120M 120M; do
    while read -r line <&4 && [ "$line" != ready ]; do echo "$line"; done
    truncate -s "$length" "$1"
    echo go >&3
  done
  exec 3>&- 4<&-
  wait "$!"
}

# A mapping whose disk fails ends with SIGBUS where it does on that disk itself, and works again.
check_mappings_of_a_disk_that_fails_are_signalled() (
  set -e
  disk=$scratch/disk
  src=$disk
  undo() {
    kill_server
    if mountpoint -q "$disk"; then umount -l "$disk"; fi
  }
  trap undo EXIT
  cc -O1 -o failed "$programs/failed.c"
  mkdir -p "$disk"
  for where in folder mount; do
    truncate -s 120M image
    mkfs.ext4 -q -F -O ^has_journal image
    mount -o loop,errors=continue image "$disk"
    head -c 64M /dev/zero | tr '\0' o >"$disk/file"
    umount "$disk"
    # Then nothing of the disk is cached any more.
    mount -o loop,errors=continue image "$disk"
    if [ "$where" = folder ]; then
      touch_on_a_failing_disk image "$disk/file" >in-the-folder
    else
      serve --memory 16M
      touch_on_a_failing_disk image "$mnt/file" >in-the-mount
      end
    fi
    umount "$disk"
    rm -f image
  done
  diff in-the-folder in-the-mount
  grep 'cannot be read: SIGBUS' in-the-mount
  rm -f failed in-the-folder in-the-mount words stored
)

# Each operation against a model in memory, with mappings and syncs; the seeds change every day.
# posix_fallocate is left out: fsx sometimes calls it for 0 bytes, and counts the refusal as a
# fault. Four at once, each with a file, because most of it is waiting for the disk.
check_fsx_finds_what_it_wrote() (
  set -e
  trap kill_server EXIT
  cat >fsx.toml <<CONFIGURATION
flen = 262144
nomsyncafter = false
[opsize]
max = 65536
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
fsync = 1
fdatasync = 1
truncate = 5
punch_hole = 5
copy_file_range = 1
CONFIGURATION
  serve --memory 16M
  first=$(($(date -u +%s) / 86400 * 12))
  # One that fails ends the others too: 255 tells xargs to begin no more of them.
  # shellcheck disable=SC2016
  one='fsx -q -f fsx.toml -N 20000 -S "$0" -P . "$1/fsx-$0" || { echo "seed $0"; exit 255; }'
  seq "$first" $((first + 11)) | xargs -P 4 -I @ sh -c "$one" @ "$mnt"
  end
)

check_fio_finds_its_data_after_a_restart() (
  set -e
  trap kill_server EXIT
  serve --memory 32M
  run_fio --name=kept --rw=write --bs=64k --size=128M --do_verify=0
  end
  serve --memory 32M --read-only
  run_fio --name=kept --rw=read --bs=64k --size=128M --verify_only
  if touch "$mnt/new"; then exit 1; fi
  end
)

check_dd_writes_what_it_read() (
  set -e
  trap kill_server EXIT
  head -c 100M /dev/urandom >original
  serve --memory 16M
  dd if=original of="$mnt/copy" bs=1M conv=fsync
  cmp original "$src/copy"
  dd if=original of="$mnt/copy" bs=3000 count=1000 seek=100 conv=notrunc
  dd if="$mnt/copy" of=part bs=3000 skip=100 count=1000
  cmp -n 3000000 original part
  dd if=original of="$mnt/direct" bs=1M count=16 oflag=direct
  dd if="$mnt/direct" bs=1M iflag=direct | cmp - <(head -c 16M original)
  end
  cmp "$src/direct" <(head -c 16M original)
  rm -f original part
)

# A tree of files of many kinds.
make_tree() {
  mkdir -p "$1/deep/er" "$1/many"
  for at in $(seq 300); do
    head -c $((at * 731)) /dev/urandom >"$1/many/file-$at"
  done
  ln "$1/many/file-1" "$1/deep/hard"
  ln -s ../many/file-2 "$1/deep/soft"
  mkfifo "$1/deep/er/pipe"
  truncate -s 10M "$1/sparse"
  printf end | dd of="$1/sparse" bs=1 seek=9000000 conv=notrunc status=none
  chmod 640 "$1/many/file-3"
  touch -d '2001-02-03 04:05:06.789' "$1/many/file-4" "$1/deep"
}

check_rsync_has_nothing_to_do_again() (
  set -e
  trap kill_server EXIT
  make_tree tree
  serve --memory 16M
  rsync -aHS tree/ "$mnt/tree/"
  rsync -aHS --checksum --itemize-changes tree/ "$mnt/tree/" >again
  lacks . again
  end
  rsync -aHS --checksum --itemize-changes tree/ "$src/tree/" >behind
  lacks . behind
  rm -rf tree
)

check_tar_packs_and_compares() (
  set -e
  trap kill_server EXIT
  make_tree tree
  tar -cf tree.tar tree
  serve --memory 16M
  tar -C "$mnt" -xpf tree.tar
  tar -C "$mnt" -df tree.tar
  tar -C "$mnt" -cf again.tar tree
  tar -df again.tar
  end
  tar -C "$src" -df tree.tar
  diff -r --no-dereference -x pipe tree "$src/tree"
  rm -rf tree tree.tar again.tar
)

check_git_clones_and_is_whole() (
  set -e
  trap kill_server EXIT
  export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
  who=(-c user.name=somebody -c user.email=somebody@example.org -c init.defaultBranch=main)
  git "${who[@]}" init -q repository
  for at in $(seq 40); do
    head -c $((at * 3000)) /dev/urandom >"repository/file-$((at % 17))"
    git -C repository add .
    git -C repository "${who[@]}" commit -q -m "change $at"
  done
  serve --memory 16M
  git clone -q --no-hardlinks repository "$mnt/clone"
  git -C "$mnt/clone" fsck --strict
  git -C "$mnt/clone" status --porcelain >status
  lacks . status
  git -C "$mnt/clone" "${who[@]}" commit -q --allow-empty -m more
  git -C "$mnt/clone" gc -q
  git -C "$mnt/clone" fsck --strict
  end
  git -C "$src/clone" -c safe.directory='*' fsck --strict
  [ "$(git -C "$src/clone" -c safe.directory='*' log --oneline | wc -l)" -eq 41 ]
  rm -rf repository
)

check_sqlite_stays_whole() (
  set -e
  trap kill_server EXIT
  serve --memory 16M
  for mode in wal delete truncate persist; do
    base=$mnt/$mode.db
    sqlite3 "$base" "PRAGMA journal_mode=$mode; CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);"
    for at in $(seq 20); do
      sqlite3 "$base" "INSERT INTO t(v) WITH RECURSIVE n(i) AS
        (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT randomblob(300) FROM n;
        DELETE FROM t WHERE k % 7 = $((at % 7));"
    done
    [ "$(sqlite3 "$base" 'PRAGMA integrity_check')" = ok ]
  done
  end
  for mode in wal delete truncate persist; do
    [ "$(sqlite3 "$src/$mode.db" 'PRAGMA integrity_check')" = ok ]
  done
)

# A writer is killed in its middle, and then the mount itself: what SQLite had committed is there.
check_commits_outlive_a_killed_mount() (
  set -e
  trap kill_server EXIT
  serve --memory 16M
  base=$mnt/kept.db
  sqlite3 "$base" "PRAGMA journal_mode=wal; CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);" >made
  while sqlite3 "$base" "PRAGMA synchronous=FULL; INSERT INTO t(v) VALUES (randomblob(3000));" \
    && echo one >>committed; do
    [ "$(wc -l <committed)" -lt 40 ] || kill_server
  done 2>/dev/null
  [ "$(sqlite3 "$src/kept.db" 'PRAGMA integrity_check')" = ok ]
  [ "$(sqlite3 "$src/kept.db" 'SELECT count(*) FROM t')" -ge "$(wc -l <committed)" ]
  rm -f committed
)

check_a_client_killed_in_its_middle_harms_nobody() (
  set -e
  trap kill_server EXIT
  serve --memory 16M
  head -c 4M /dev/urandom >original
  cat /dev/zero >"$mnt/endless" &
  writer=$!
  cp original "$mnt/beside"
  until [ "$(stat -c %s "$mnt/endless")" -gt 30000000 ]; do :; done
  kill -KILL "$writer"
  wait "$writer" || true
  cmp original "$mnt/beside"
  length=$(stat -c %s "$mnt/endless")
  end
  [ "$(stat -c %s "$src/endless")" -eq "$length" ]
  cmp -n "$length" "$src/endless" /dev/zero
  cmp original "$src/beside"
  rm -f original
)

check_the_end_writes_what_is_dirty() (
  set -e
  trap kill_server EXIT
  head -c 40M /dev/urandom >original
  serve --memory 256M
  cp original "$mnt/by-signal"
  end
  cmp original "$src/by-signal"
  grep -q 'left to write' server.log
  grep -q 'everything is written' server.log
  serve --memory 256M
  cp original "$mnt/by-hand"
  fusermount3 -u "$mnt"
  wait "$server"
  server=
  cmp original "$src/by-hand"
  rm -f original
)

# A program that has a file mapped when the mount is ended is cut off, but nothing that it stored
# before is lost: neither what was there at the signal nor what came afterwards.
check_the_end_takes_what_is_stored_to_a_mapping() (
  set -e
  client=
  undo() {
    kill_server
    if [ -n "$client" ]; then kill -KILL "$client" || true; fi
  }
  trap undo EXIT
  serve --memory 16M
  printf 'older bytes, and others' >"$mnt/mapped"
  rm -f words stored
  mkfifo words stored
  cat >client.py <<'PROGRAM'
import mmap, sys
file = open(sys.argv[1], "r+b")
mapped = mmap.mmap(file.fileno(), 0)
for word in sys.stdin:
    at, bytes = word.split()
    mapped[int(at) : int(at) + len(bytes)] = bytes.encode()
    print(word, flush=True)
PROGRAM
  python3 client.py "$mnt/mapped" <words >stored &
  client=$!
  exec 3>words 4<stored
  echo '0 newer' >&3
  read -r line <&4
  kill -TERM "$server"
  while mountpoint -q "$mnt"; do :; done
  echo '17 latest' >&3
  read -r line <&4
  wait "$server"
  server=
  grep -q 'are cut off' server.log
  [ "$(cat "$src/mapped")" = 'newer bytes, and latest' ]
  rm -f words stored client.py
)

# A mount that is given up while its source stalls ends once the source goes on: none of its threads
# is left waiting for the kernel, which would wait for the threads that are gone.
check_a_mount_that_is_given_up_is_gone() (
  set -e
  disk=$scratch/disk
  connections=/sys/fs/fuse/connections
  client=
  connection=
  made_connections=
  undo() {
    fsfreeze -u "$disk" || true
    if [ -n "$connection" ]; then echo 1 >"$connections/$connection/abort" || true; fi
    if [ -n "$client" ]; then kill -KILL "$client" || true; fi
    kill_server
    # A mount of somebody else may be looking at its own connection there.
    if [ -n "$made_connections" ]; then umount -l "$connections"; fi
    # The kernel takes a moment to let go of the files of a process that is gone.
    if mountpoint -q "$disk"; then umount -l "$disk"; fi
  }
  trap undo EXIT
  if ! mountpoint -q "$connections"; then
    mount -t fusectl none "$connections"
    made_connections=1
  fi
  source_on_ext4
  serve --memory 16M
  connection=$(stat -c %d "$mnt")
  rm -f words
  mkfifo words
  cat >client.py <<'PROGRAM'
import mmap, signal, sys
file = open(sys.argv[1], "w+b")
file.truncate(24 << 20)
mapped = mmap.mmap(file.fileno(), 0)
for at in range(0, 24 << 20, 4096):
    mapped[at] = 7
print("stored", flush=True)
signal.pause()
PROGRAM
  python3 client.py "$mnt/mapped" >words &
  client=$!
  read -r line <words
  fsfreeze -f "$disk"
  kill -INT "$server"
  for _ in $(seq 100); do
    if grep -qs '(forebay-mapped) D' "/proc/$server/task"/*/stat; then break; fi
    sleep 0.1
  done
  kill -INT "$server"
  until grep -q 'given up' server.log; do :; done
  fsfreeze -u "$disk"
  # The end of its first thread is not enough: the lock of the source goes with the last.
  timeout 5 tail --pid="$server" -f /dev/null
  flock -w 5 "$src" true
  rm -f words client.py
)

check_it_goes_to_the_background() (
  set -e
  trap 'kill "$(cat pid)" 2>/dev/null || true' EXIT
  "$forebay" mount "$src" "$mnt" --memory 16M 2>background.log
  mountpoint -q "$mnt"
  pgrep -f "$forebay mount $src" >pid
  echo there >"$mnt/file"
  if "$forebay" mount "$src" "$mnt" --memory 16M 2>refused.log; then exit 1; fi
  grep -q "is in use by process $(cat pid) (forebay)" refused.log
  fusermount3 -u "$mnt"
  tail --pid="$(cat pid)" -f /dev/null
  [ "$(cat "$src/file")" = there ]
)

# As mount(8) calls it for a line of /etc/fstab.
check_a_line_of_fstab_mounts() (
  set -e
  trap 'kill "$(cat pid)" 2>/dev/null || true' EXIT
  export FOREBAY=$forebay
  "$helper" "$src" "$mnt" -o rw,memory=16M,nofail,x-systemd.automount 2>helper.log
  mountpoint -q "$mnt"
  pgrep -f "$forebay mount $src" >pid
  echo there >"$mnt/file"
  fusermount3 -u "$mnt"
  tail --pid="$(cat pid)" -f /dev/null
  [ "$(cat "$src/file")" = there ]
  if "$helper" "$src" "$mnt" -o rw 2>refused.log; then exit 1; fi
  grep -q 'memory=512M' refused.log
  if "$helper" "$src" "$mnt" -o memory=16M,unheard_of 2>refused.log; then exit 1; fi
  grep -q 'unheard_of' refused.log
)

# Puts the source on a disk of 64 MB with ext4, in `image`; the check unmounts $disk.
source_on_ext4() {
  mkdir -p "$disk"
  truncate -s 64M image
  mkfs.ext4 -q image
  mount -o loop image "$disk"
  mkdir "$disk/src"
  src=$disk/src
}

# Puts the source on a disk of 80 MB until the check ends.
source_on_small_disk() {
  disk=$scratch/disk
  undo() {
    kill_server
    if mountpoint -q "$disk"; then umount "$disk"; fi
  }
  trap undo EXIT
  mkdir -p "$disk"
  mount -t tmpfs -o size=80M none "$disk"
  mkdir "$disk/src"
  src=$disk/src
}

# Others take the room that 12 MiB were to have. It takes no time, so nothing can be written meanwhile.
take_room() {
  fallocate -l 76M "$src/ballast"
}

# A full disk below: fsync reports it, the bytes are kept, and they are written when there is room.
check_a_full_disk_loses_nothing() (
  set -e
  source_on_small_disk
  head -c 12M /dev/urandom >original
  # With this many pages nothing is written before fsync asks for it.
  serve --memory 256M
  cp original "$mnt/kept"
  take_room
  if sync -d "$mnt/kept" 2>full.log; then exit 1; fi
  grep -qi 'no space' full.log
  cmp original "$mnt/kept"
  if cp original "$mnt/refused" 2>full.log; then exit 1; fi
  grep -qi 'no space' full.log
  grep -c 'no room is left' server.log | grep -qx 1
  rm "$src/ballast"
  # Failed pages are tried again by themselves; a sync does it at once.
  sync -d "$mnt/kept" || sync -d "$mnt/kept"
  cmp original "$src/kept"
  until grep 'there is room again' server.log; do sleep 0.2; done
  cp original "$mnt/taken"
  end
  cmp original "$src/kept"
  cmp original "$src/taken"
  rm -f original
)

# Its room is taken away, and then the folder is unmounted: the process says what to do, and goes on.
check_an_end_without_room_says_how_to_go_on() (
  set -e
  source_on_small_disk
  head -c 12M /dev/urandom >original
  serve --memory 256M
  cp original "$mnt/kept"
  take_room
  fusermount3 -u "$mnt"
  for _ in $(seq 1200); do
    if grep -q "kill -INT $server" server.log; then break; fi
    sleep 0.1
  done
  grep 'are kept in memory: once the source takes them' server.log
  rm "$src/ballast"
  wait "$server"
  server=
  cmp original "$src/kept"
  rm -f original
)

check_metrics_are_reported() (
  set -e
  trap kill_server EXIT
  serve --memory 16M --metrics 127.0.0.1:0
  head -c 1M /dev/zero >"$mnt/some"
  address=$(sed -n 's/.*metrics at //p' server.log)
  curl -sf "$address" >metrics.txt
  grep -q '^forebay_nr_dirtied_total [1-9]' metrics.txt
  tail -n 1 metrics.txt | grep -qx '# EOF'
  end
)

# PostgreSQL refuses to run as root: it gets a user of its own, and the mount lets it in.
check_pgbench_runs_and_restarts() (
  set -e
  tools=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
  data=$mnt/data
  as_postgres() {
    if [ "$(id -u)" -eq 0 ]; then
      setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"
    else
      "$@"
    fi
  }
  sockets=$(mktemp -d /tmp/forebay-pg-XXXXXX)
  undo() {
    as_postgres "$tools/pg_ctl" -D "$data" -m immediate stop || true
    kill_server
    rm -rf "$sockets"
  }
  trap undo EXIT
  chmod 777 "$sockets"
  options=(--memory 64M)
  if [ "$(id -u)" -eq 0 ]; then options+=(--allow-other); fi
  serve "${options[@]}"
  mkdir "$data"
  if [ "$(id -u)" -eq 0 ]; then chown postgres "$data"; fi
  chmod 700 "$data"
  as_postgres "$tools/initdb" -D "$data" -A trust --data-checksums
  start() {
    as_postgres "$tools/pg_ctl" -D "$data" -w -l "$sockets/log" \
      -o "-k $sockets -c listen_addresses='' -c shared_buffers=16MB" start
  }
  start
  as_postgres createdb -h "$sockets" bench
  as_postgres pgbench -h "$sockets" -q -i -s 3 bench
  as_postgres pgbench -h "$sockets" -c 4 -T 8 bench
  as_postgres "$tools/pg_ctl" -D "$data" -m immediate stop
  start
  as_postgres psql -h "$sockets" -Atc 'SELECT sum(tbalance) - (SELECT sum(bbalance) FROM
    pgbench_branches) FROM pgbench_tellers' bench >difference
  [ "$(cat difference)" = 0 ]
  as_postgres "$tools/pg_ctl" -D "$data" stop
  as_postgres "$tools/pg_checksums" --check -D "$data"
  end
  as_postgres "$tools/pg_checksums" --check -D "$src/data"
)

# The file system tests of stress-ng, a second each and checked: nothing may fail here that does not
# fail in the folder of the scratch files. LTP is left out, because no registry has it.
check_stress_ng_fails_nowhere_else() (
  set -e
  trap kill_server EXIT
  stressors="access chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate fcntl
    fiemap filename flock fpunch fstat getdent hdd io iomix lease link locka lockf lockofd metamix
    mknod mmap msync open readahead rename revio seek sendfile splice symlink sync-file touch utime
    unlink xattr"
  serve --memory 32M --allow-other
  mkdir -p beside
  tried() { stress-ng --temp-path "$1" "--$2" 1 --timeout 1 --verify; }
  worse_than_beside() {
    if ! tried "$mnt" "$1" && tried "$scratch/beside" "$1"; then echo "$1" >>worse; fi
  }
  export mnt scratch
  export -f tried worse_than_beside
  : >worse
  # Two at once, because each takes a second whatever it does.
  printf '%s\n' $stressors | xargs -P 2 -I @ bash -c 'worse_than_beside @'
  echo "worse: $(tr '\n' ' ' <worse)"
  [ ! -s worse ]
  end
  rm -rf beside worse
)

check_dbench_does_its_work() (
  set -e
  trap kill_server EXIT
  serve --memory 32M
  dbench -D "$mnt" -t 8 4
  end
)

check_pjdfstest_finds_a_file_system() (
  set -e
  trap kill_server EXIT
  # Two users that every Linux has, each with a group of its own.
  cat >pjdfstest.toml <<CONFIGURATION
[features]
posix_fallocate = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
[dummy_auth]
entries = [["nobody", "$(id -gn nobody)"], ["daemon", "$(id -gn daemon)"]]
CONFIGURATION
  serve --memory 32M --allow-other
  chmod 777 "$mnt"
  pjdfstest -c pjdfstest.toml -p "$mnt" >cases || { grep -A3 'FAIL' cases; exit 1; }
  # Cases for another kind of system are skipped, but most must run.
  tail -n 1 cases | grep '^Summary: 0 failed'
  [ "$(grep -c ' ok$' cases)" -gt 300 ]
  end
)

no_mount=
if [ ! -c /dev/fuse ]; then
  no_mount="there is no /dev/fuse"
elif ! command -v fusermount3 >/dev/null; then
  no_mount="fusermount3 is missing"
else
  mkdir -p "$src" "$mnt"
  if ! "$forebay" mount "$src" "$mnt" --memory 16M >refused.log 2>&1; then
    no_mount="the system refuses: $(tail -n 1 refused.log)"
  else
    fusermount3 -u "$mnt"
  fi
fi
# Only root may make the disk that is full, and change users.
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=no-root; fi

if [ "$#" -gt 1 ]; then
  # Only the named checks, to look for a fault.
  shift
  for name in "$@"; do check_mount "$name"; done
else
  # The longest first, so that runs beside each other end together.
  check_mount fsx_finds_what_it_wrote fsx
  check_mount mapped_stores_and_writes_share_pages cc
  check_mount stress_ng_fails_nowhere_else stress-ng $as_root
  check_mount fio_verifies_random_writes fio
  check_mount fio_verifies_mapped_writes fio
  check_mount mappings_of_what_is_gone_are_signalled cc
  check_mount mappings_of_a_disk_that_fails_are_signalled cc mkfs.ext4 $as_root
  check_mount fio_finds_its_data_after_a_restart fio
  check_mount dd_writes_what_it_read dd
  check_mount rsync_has_nothing_to_do_again rsync
  check_mount tar_packs_and_compares tar
  check_mount git_clones_and_is_whole git
  check_mount sqlite_stays_whole sqlite3
  check_mount commits_outlive_a_killed_mount sqlite3
  check_mount a_client_killed_in_its_middle_harms_nobody
  check_mount the_end_writes_what_is_dirty
  check_mount the_end_takes_what_is_stored_to_a_mapping python3
  check_mount a_mount_that_is_given_up_is_gone python3 fsfreeze mkfs.ext4 $as_root
  check_mount it_goes_to_the_background
  check_mount a_line_of_fstab_mounts
  check_mount a_full_disk_loses_nothing $as_root
  check_mount an_end_without_room_says_how_to_go_on $as_root
  check_mount metrics_are_reported curl
  check_mount pgbench_runs_and_restarts pgbench
  check_mount dbench_does_its_work dbench
  check_mount pjdfstest_finds_a_file_system pjdfstest $as_root
  check_permissions
  check_limits
  check_below
fi

conclude
