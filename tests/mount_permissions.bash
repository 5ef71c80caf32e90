# Who may do what through a mount, compared with what the source allows the same users.
#
# Sourced by tests/mount.sh, not run.
# shellcheck shell=bash disable=SC2154

# Two users without accounts, in groups of their own.
as_one() { setpriv --reuid=4001 --regid=4001 --clear-groups -- "$@"; }
as_other() { setpriv --reuid=4002 --regid=4002 --clear-groups -- "$@"; }

# Prints the modes and access lists of all files in the current folder.
show_permissions() {
  find . -mindepth 1 -printf '%P %m %U %G\n' | sort
  getfacl --recursive --numeric --absolute-names . | grep -v '^$'
}

# Each call prints its result, without the tool's own words.
try() {
  if "$@" >/dev/null 2>&1; then echo "yes: $*"; else echo "no: $*"; fi
}

access_lists_deny_and_allow() {
  install -m 644 /dev/stdin denied <<<denied
  setfacl -m u:4001:- denied
  install -m 600 /dev/stdin allowed <<<allowed
  setfacl -m u:4001:r allowed
  install -m 640 /dev/stdin masked <<<masked
  setfacl -m u:4001:rw,g::-,m::r masked
  mkdir -m 755 closed
  setfacl -m u:4002:- closed
  echo inside >closed/file
  local name user
  for user in as_one as_other; do
    for name in denied allowed masked closed/file; do
      try "$user" cat "$name"
      try "$user" dd if=/dev/null of="$name" conv=notrunc
    done
    try "$user" ls closed
    try "$user" setfacl -m u:4001:rw denied
  done
  # A chmod changes the mask; a list that says no more than a mode becomes one.
  chmod 600 allowed
  try as_one cat allowed
  setfacl -b denied
  try as_one cat denied
  show_permissions
}

new_files_inherit_the_default_list() {
  mkdir -m 777 plain inheriting sticky setgid
  setfacl -d -m u::rwx,u:4002:rw,g::r,o::- inheriting
  chmod 1777 sticky
  chgrp 4002 setgid
  chmod 2777 setgid
  install -m 060 -g 4001 /dev/null source
  local folder mask
  for folder in plain inheriting sticky setgid; do
    for mask in 022 077 000; do
      (
        umask "$mask"
        as_one touch "$folder/file-$mask"
        as_one install -m 600 /dev/null "$folder/installed-$mask"
        as_one mkdir "$folder/folder-$mask"
        as_one mkfifo "$folder/pipe-$mask"
        as_one mkfifo -m 640 "$folder/narrow-$mask"
        # Made with a mode that its maker could not open it with.
        as_one cp source "$folder/odd-$mask"
      )
    done
    try as_other rm -f "$folder/file-022"
    try as_other cat "$folder/file-077"
  done
  as_one touch inheriting/folder-022/deep
  show_permissions
}

changes_take_privileges_away() {
  local name
  for name in by-other by-root cut-other cut-root bare; do
    install -m 6777 /dev/stdin "$name" <<<program
    setcap cap_net_raw=ep "$name"
    # Now capabilities and modes are in every cache that there is.
    stat -c '%n %a' "$name"
  done
  as_other dd if=/dev/zero of=by-other bs=1 count=1 conv=notrunc status=none
  dd if=/dev/zero of=by-root bs=1 count=1 conv=notrunc status=none
  as_other truncate -s 3 cut-other
  truncate -s 3 cut-root
  chown 4001 bare
  stat -c '%n %a' by-other by-root cut-other cut-root bare
  getcap by-other by-root cut-other cut-root bare
  # A user that is not in the group of a file cannot give it set-group-ID by a list either.
  install -m 2755 -o 4001 -g 4002 /dev/null listed
  as_one setfacl -m u:4002:rwx listed
  stat -c '%n %a' listed
  as_one chmod 2775 listed
  stat -c '%n %a' listed
}

# permissions_are_those_below SCENE: plays the scene in a folder, and in another one's mount.
permissions_are_those_below() (
  set -e
  trap kill_server EXIT
  rm -rf below
  mkdir -m 755 below
  (cd below && "$1") >expected 2>&1
  chmod 755 "$src"
  serve --memory 16M --allow-other
  (cd "$mnt" && "$1") >found 2>&1
  end
  diff expected found
  # So is what was stored.
  diff <(cd below && show_permissions) <(cd "$src" && show_permissions)
)

check_access_lists_deny_and_allow() {
  permissions_are_those_below access_lists_deny_and_allow
}
check_new_files_inherit_the_default_list() {
  permissions_are_those_below new_files_inherit_the_default_list
}
check_changes_take_privileges_away() {
  permissions_are_those_below changes_take_privileges_away
}

# A file system without access lists refuses them, and admits the users that its modes admit.
check_a_source_without_lists_refuses_them() (
  set -e
  undo() {
    kill_server
    umount "$src" 2>/dev/null || true
  }
  trap undo EXIT
  truncate -s 32M unlisted.img
  mkfs.ext4 -q -F unlisted.img
  mount -o loop,noacl unlisted.img "$src" 2>/dev/null || mount -t ramfs ramfs "$src"
  chmod 755 "$src"
  serve --memory 16M --allow-other
  install -m 640 -o 4001 -g 4002 /dev/stdin "$mnt/file" <<<text
  as_one cat "$mnt/file"
  as_other cat "$mnt/file"
  if setfacl -m u:4002:- "$mnt/file"; then exit 1; fi
  end
)

# What keeps the checks of access lists from being made in the scratch folder.
lists_missing() {
  touch list
  setfacl -m u:4001:r list 2>/dev/null || echo no-access-lists
}

check_permissions() {
  local missing
  missing=$(lists_missing)
  # shellcheck disable=SC2086
  {
    check_mount access_lists_deny_and_allow setfacl getfacl setpriv $as_root $missing
    check_mount new_files_inherit_the_default_list setfacl getfacl setpriv $as_root $missing
    check_mount changes_take_privileges_away setfacl getfacl setpriv setcap $as_root $missing
    check_mount a_source_without_lists_refuses_them setfacl setpriv mkfs.ext4 $as_root
  }
}
