# A mount within its limits of descriptors and memory, with more files than these are for.
#
# Sourced by tests/mount.sh, not run.
# shellcheck shell=bash disable=SC2154

# Makes $1 folders of 1,000 small files each in the source.
make_small_files() {
  local folder
  for ((folder = 0; folder < $1; folder++)); do
    mkdir "$src/$folder"
    seq -f "needle %g" 1000 | split -l 1 -a 3 - "$src/$folder/"
  done
}

check_more_files_than_descriptors_are_all_found() (
  set -e
  trap kill_server EXIT
  make_small_files 20
  ulimit -n 128
  serve --memory 32M
  [ "$(find "$mnt" -type f | wc -l)" = 20000 ]
  ls -lR "$mnt" >list
  [ "$(grep -c '^-rw' list)" = 20000 ]
  [ "$(grep -r needle "$mnt" | wc -l)" = 20000 ]
  # Some are written too, by several writers.
  find "$mnt/3" -type f -print0 | xargs -0 -n 50 -P 4 sed -i s/needle/thread/
  [ "$(grep -r thread "$mnt" | wc -l)" = 1000 ]
  end
  [ "$(grep -r thread "$src" | wc -l)" = 1000 ]
)

check_too_few_descriptors_are_refused_with_the_least() (
  set -e
  trap kill_server EXIT
  ulimit -n 127
  if serve --memory 32M; then exit 1; fi
  grep 'needs at least 128 descriptors and may open 127' server.log
)

check_many_small_files_leave_memory_as_it_was_said() (
  set -e
  trap kill_server EXIT
  make_small_files 40
  serve --memory 32M
  grep -r needle "$mnt" | wc -l
  ls -lR "$mnt" >list
  cp -r "$mnt/1" "$mnt/new"
  local resident_kib
  resident_kib=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server/status")
  echo "$resident_kib KiB"
  [ "$resident_kib" -le $(((32 + 16) * 1024)) ]
  end
)

check_limits() {
  check_mount more_files_than_descriptors_are_all_found
  check_mount too_few_descriptors_are_refused_with_the_least
  check_mount many_small_files_leave_memory_as_it_was_said
}
