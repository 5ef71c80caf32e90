# A mount over other file systems: what holds there as in the plain folder, and where the mount would
# lead into itself.
#
# Sourced by tests/mount.sh, not run.
# shellcheck shell=bash disable=SC2154

# Makes the source a file system of the kind $1, with the folder `seed` in it from the start.
make_below() {
  local layers=$scratch/layers
  rm -rf -- "$layers"
  mkdir -p "$layers/lower" "$layers/upper/files" "$layers/upper/work"
  case $1 in
    overlay | overlay-of-two)
      if [ "$1" = overlay-of-two ]; then
        mount -t tmpfs tmpfs "$layers/upper"
        mkdir "$layers/upper/files" "$layers/upper/work"
      fi
      cp -a seed "$layers/lower/"
      mount -t overlay -o "lowerdir=$layers/lower,upperdir=$layers/upper/files,workdir=$layers/upper/work" \
        overlay "$src"
      return
      ;;
    tmpfs) mount -t tmpfs tmpfs "$src" ;;
    mount)
      mkdir -p "$layers/below"
      "$forebay" mount "$layers/below" "$src" --memory 16M
      ;;
    *)
      truncate -s 400M "$layers/image"
      "mkfs.$1" -q "$layers/image"
      mount -o loop "$layers/image" "$src"
      if [ "$1" = btrfs ]; then btrfs -q subvolume create "$src/part"; fi
      ;;
  esac
  cp -a seed "$src/"
}

undo_below() {
  kill_server
  if mountpoint -q "$src"; then umount -l "$src"; fi
  if mountpoint -q "$scratch/layers/upper"; then umount -l "$scratch/layers/upper"; fi
}

# What users do: a repository in which a shell works, a log that is followed, a database, a checker.
use_below() {
  local at
  (
    cd "$mnt/seed/repository"
    for at in $(seq 5); do
      echo "$at" >>old
      git "${who[@]}" commit -q -a -m "change $at"
      sleep 0.3
    done
    git fsck --strict
    git status --porcelain
    /bin/pwd -P
  )
  tail -n +1 -f "$mnt/seed/log" >followed 2>&1 &
  local follower=$!
  for at in $(seq 20); do
    echo "line $at" >>"$mnt/seed/log"
    sleep 0.1
  done
  for _ in $(seq 100); do
    if [ "$(tail -n 1 followed)" = 'line 20' ]; then break; fi
    sleep 0.1
  done
  kill "$follower"
  [ "$(tail -n 1 followed)" = 'line 20' ]
  sqlite3 "$mnt/seed/base" "INSERT INTO t(v) WITH RECURSIVE n(i) AS
    (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT randomblob(700) FROM n;"
  [ "$(sqlite3 "$mnt/seed/base" 'PRAGMA integrity_check')" = ok ]
}

check_a_mount_over() (
  set -e
  kind=$1
  trap undo_below EXIT
  export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
  who=(-c user.name=somebody -c user.email=somebody@example.org -c init.defaultBranch=main)
  rm -rf seed
  mkdir seed
  git "${who[@]}" init -q seed/repository
  echo old >seed/repository/old
  git -C seed/repository add .
  git -C seed/repository "${who[@]}" commit -q -m first
  echo 'line 0' >seed/log
  sqlite3 seed/base 'CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)'
  make_below "$kind"
  serve --memory 16M
  use_below
  find "$mnt" -printf '%i %P\n' | sort >before
  end
  [ "$(wc -l <"$src/seed/log")" -eq 21 ]
  git -C "$src/seed/repository" -c safe.directory='*' fsck --strict
  [ "$(sqlite3 "$src/seed/base" 'SELECT count(*) FROM t')" -eq 500 ]
  # A backup of the next mount reads nothing again.
  serve --memory 16M
  find "$mnt" -printf '%i %P\n' | sort >after
  if [ "$kind" != overlay-of-two ]; then diff before after; fi
  end
  rm -rf seed before after followed
)

check_a_mount_over_an_overlay() { check_a_mount_over overlay; }
check_a_mount_over_an_overlay_of_two() { check_a_mount_over overlay-of-two; }
check_a_mount_over_tmpfs() { check_a_mount_over tmpfs; }
check_a_mount_over_ext4() { check_a_mount_over ext4; }
check_a_mount_over_xfs() { check_a_mount_over xfs; }
check_a_mount_over_btrfs() { check_a_mount_over btrfs; }
check_a_mount_over_a_mount() { check_a_mount_over mount; }

# Backs the folder `seed` in $1 up, and shows what was new.
back_up() {
  (cd "$1" && restic -q -r "$scratch/backups" --no-cache backup --json seed) >summary
  grep '"message_type":"summary"' summary
}

# A backup of the next mount reads no file again, and has what the plain folder has. A file that was
# backed up before the source had its bytes is read once more: its time of change is then that of the
# write-back, which no program can set.
check_restic_over() (
  set -e
  trap undo_below EXIT
  export RESTIC_PASSWORD=none
  rm -rf seed backups
  make_tree seed
  make_below "$1"
  restic -q -r backups --no-cache init
  serve --memory 16M
  back_up "$mnt"
  echo more >>"$mnt/seed/many/file-7"
  back_up "$mnt" | grep '"files_new":0,"files_changed":1,'
  end
  serve --memory 16M
  back_up "$mnt" | grep '"files_new":0,"files_changed":[01],.*"data_blobs":0,'
  end
  serve --memory 16M
  back_up "$mnt" | grep '"files_new":0,"files_changed":0,.*"data_blobs":0,'
  end
  back_up "$src"
  # In the order in which they were made.
  restic -q -r backups --no-cache snapshots --json | grep -o '"short_id":"[^"]*"' | cut -d '"' -f 4 >made
  [ "$(wc -l <made)" -eq 5 ]
  restic -q -r backups --no-cache diff "$(sed -n 4p made)" "$(sed -n 5p made)" >differences
  lacks '^[-+MTU?] */' differences
  restic -q -r backups --no-cache restore "$(sed -n 4p made)" --target restored
  rsync -aHS --checksum --itemize-changes restored/seed/ "$src/seed/" >again
  lacks . again
  rm -rf seed backups restored made differences again summary
)

check_restic_over_an_overlay() { check_restic_over overlay; }
check_restic_over_ext4() { check_restic_over ext4; }

# The source shows the mount through a bind mount that is shared with it.
check_a_mount_that_contains_itself_refuses_to_be_entered() (
  set -e
  other=$scratch/other
  undo() {
    kill_server
    if mountpoint -q "$src/inside"; then umount -l "$src/inside"; fi
    if mountpoint -q "$other"; then umount -l "$other"; fi
    if mountpoint -q "$src"; then umount -l "$src"; fi
  }
  trap undo EXIT
  mkdir -p "$other" "$src/inside"
  mount --bind "$src" "$src"
  mount --make-shared "$src"
  mount --bind "$src" "$other"
  echo bytes >"$src/file"
  plain=$mnt
  mnt=$other/inside
  serve --memory 16M
  mountpoint "$src/inside"
  local lists=() list status
  for _ in 1 2 3 4 5 6 7 8; do
    timeout -s KILL 20 ls -lR "$mnt" >listed 2>&1 &
    lists+=("$!")
  done
  for list in "${lists[@]}"; do
    status=0
    wait "$list" || status=$?
    # They report the name that cannot be entered, and are not killed.
    [ "$status" -le 2 ]
  done
  if timeout -s KILL 20 ls "$mnt/inside" >refused 2>&1; then exit 1; fi
  grep -i 'too many levels' refused
  [ "$(timeout 20 cat "$mnt/file")" = bytes ]
  end
  mnt=$plain
  rm -f listed refused
)

# Somebody else has the lock: it is named, at once.
check_a_lock_of_another_program_is_not_waited_for() (
  set -e
  trap kill_server EXIT
  flock "$src" sleep 60 &
  holder=$!
  until ! flock -n "$src" true; do sleep 0.1; done
  if timeout 20 "$forebay" mount "$src" "$mnt" --memory 16M >refused.log 2>&1; then exit 1; fi
  grep 'is in use by process [0-9]* (flock)' refused.log
  pkill -P "$holder" || true
  kill "$holder" || true
  rm -f refused.log
)

# A start that is given up leaves no process that mounts later.
check_a_start_that_is_given_up_leaves_nothing() (
  set -e
  disk=$scratch/disk
  undo() {
    fsfreeze -u "$disk" || true
    kill_server
    if mountpoint -q "$disk"; then umount -l "$disk"; fi
  }
  trap undo EXIT
  source_on_ext4
  serve --memory 16M
  echo bytes >"$mnt/file"
  fsfreeze -f "$disk"
  kill -TERM "$server"
  while mountpoint -q "$mnt"; do sleep 0.1; done
  "$forebay" mount "$src" "$mnt" --memory 16M >waits.log 2>&1 &
  start=$!
  until grep "waiting up to 300 s for process $server" waits.log; do sleep 0.1; done
  kill -TERM "$start"
  wait "$start" || true
  fsfreeze -u "$disk"
  wait "$server"
  server=
  sleep 1
  if mountpoint -q "$mnt"; then exit 1; fi
  flock -n "$src" true
  umount "$disk"
  rm -f image waits.log
)

# Names that could be taken for something else in a list, an option or a line.
check_nasty_names_are_mounted_and_listed() (
  set -e
  trap kill_server EXIT
  plain=$src
  for name in 'a b' 'a,b' 'a#b' 'a\b' $'a\tb' $'a\nb' '100%' '%2C' $'\xff\xfe' '-o'; do
    src=$plain/$name
    mkdir -p -- "$src"
    serve --memory 8M
    echo bytes >"$mnt/file"
    # The same folder again: refused, and not waited for.
    if timeout 20 "$forebay" mount "$src" "$plain" --memory 8M >refused.log 2>&1; then exit 1; fi
    grep 'is in use by process' refused.log
    end
    [ "$(cat -- "$src/file")" = bytes ]
  done
  src=$plain
  rm -f refused.log
)

# Everything that a line of fstab may have; a boot must not stop for it.
check_options_of_fstab_are_taken() (
  set -e
  trap undo_helper EXIT
  undo_helper() {
    if mountpoint -q "$mnt"; then fusermount3 -u "$mnt"; fi
  }
  export FOREBAY=$forebay
  usual=memory=16M,user,noexec,sync,dirsync,lazytime,silent,default_permissions,nofail,x-systemd.automount
  "$helper" "$src" "$mnt" -o "rw,$usual"
  findmnt -n -o OPTIONS "$mnt" >options
  grep noexec options
  grep nosuid options
  cp /bin/true "$mnt/program"
  if "$mnt/program" 2>/dev/null; then exit 1; fi
  # With sync it is there when the write returns.
  echo bytes >"$mnt/file"
  [ "$(cat "$src/file")" = bytes ]
  fusermount3 -u "$mnt"
  until flock -n "$src" true; do sleep 0.1; done
  "$helper" "$src" "$mnt" -o memory=16M,suid,dev
  findmnt -n -o OPTIONS "$mnt" >options
  lacks nosuid options
  lacks nodev options
  mknod "$mnt/zero" c 1 5
  [ "$(head -c 3 "$mnt/zero" | od -An -tx1 | tr -d ' ')" = 000000 ]
  fusermount3 -u "$mnt"
  rm -f options
)

# Files that can only be appended to, as logs that nobody is to change.
check_append_only_files_are_appended_to() (
  set -e
  undo() {
    chattr -a "$src/log" || true
    kill_server
  }
  trap undo EXIT
  echo one >"$src/log"
  chattr +a "$src/log"
  serve --memory 16M
  echo two >>"$mnt/log"
  sync "$mnt/log"
  if echo other 2>/dev/null >"$mnt/log"; then exit 1; fi
  if (echo other 1<>"$mnt/log") 2>/dev/null; then exit 1; fi
  echo three >>"$mnt/log"
  printf 'one\ntwo\nthree\n' | cmp - "$mnt/log"
  printf 'one\ntwo\nthree\n' | cmp - "$src/log"
  end
)

check_below() {
  check_mount a_mount_over_an_overlay git sqlite3 $as_root
  check_mount a_mount_over_an_overlay_of_two git sqlite3 $as_root
  check_mount a_mount_over_tmpfs git sqlite3 $as_root
  check_mount a_mount_over_ext4 git sqlite3 mkfs.ext4 $as_root
  check_mount a_mount_over_xfs git sqlite3 mkfs.xfs $as_root
  check_mount a_mount_over_btrfs git sqlite3 mkfs.btrfs $as_root
  check_mount a_mount_over_a_mount git sqlite3 $as_root
  check_mount restic_over_an_overlay restic rsync $as_root
  check_mount restic_over_ext4 restic rsync mkfs.ext4 $as_root
  check_mount a_mount_that_contains_itself_refuses_to_be_entered $as_root
  check_mount a_lock_of_another_program_is_not_waited_for flock
  check_mount a_start_that_is_given_up_leaves_nothing fsfreeze mkfs.ext4 flock $as_root
  check_mount nasty_names_are_mounted_and_listed
  check_mount options_of_fstab_are_taken findmnt flock $as_root
  check_mount append_only_files_are_appended_to chattr $as_root
}
