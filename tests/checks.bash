# The common part of the checks with clients; sourced by those scripts, not run.
#
# They set `server` to the serving process and `scratch` to their folder, and define `prepare`, which is called before each check.
# shellcheck shell=bash
passed=0 failed=0 ignored=0
server=
# A check that hangs would hold the whole run until it is cut off, without a word about which it was.
check_seconds=600

# Shows what exists against expectation. A function, because `set -e` does not see a `!`.
lacks() {
  ! grep -m 5 "$1" "$2" >&2
}

# Ends the server in order; what was written must then be in its source.
end() {
  kill -TERM "$server" && wait "$server"
  local status=$?
  server=
  return "$status"
}

# Kills the check with the process CHECKING, and what runs in the scratch folder, when the check has
# had its time. That also frees clients of a mount: they wait for its server, and no signal reaches
# them. Ends with the check.
watch() {
  local name=$1 checking=$2 sleeping=
  trap 'kill $sleeping 2>/dev/null; exit 0' TERM
  sleep "$check_seconds" &
  sleeping=$!
  wait "$sleeping"
  sleeping=
  {
    echo "$name did not end within $check_seconds s; there ran:"
    ps --ppid 2 -p 2 --deselect -o pid,ppid,stat,etimes,wchan:24,args
  } >late.log
  kill -KILL "$checking"
  pkill -KILL -f -- "$scratch"
}

# ignore NAME REASON: names and counts a check that cannot run here.
ignore() {
  echo "test $1 ... ignored, $2"
  ignored=$((ignored + 1))
}

# check NAME CLIENT...: runs the function check_NAME if every client is there. Every check runs in
# a shell of its own and ends its server there.
check() {
  local name=$1 client
  shift
  for client in "$@"; do
    if ! command -v "$client" >/dev/null; then
      ignore "$name" "$client is missing"
      return
    fi
  done
  prepare
  : >server.log
  : >late.log
  # Not as a condition: bash would ignore `set -e` in the whole check.
  ("check_$name") >check.log 2>&1 &
  local checking=$! watching
  watch "$name" "$checking" >/dev/null 2>&1 &
  watching=$!
  wait "$checking"
  local status=$?
  kill -TERM "$watching" 2>/dev/null
  wait "$watching" 2>/dev/null
  if [ "$status" -eq 0 ]; then
    echo "test $name ... ok"
    passed=$((passed + 1))
  else
    echo "test $name ... FAILED"
    sed 's/^/  /' check.log server.log | tail -n 40
    sed 's/^/  /' late.log
    failed=$((failed + 1))
  fi
}

# The last line, in the form of cargo's, so that ./test counts these checks too.
conclude() {
  local result=ok
  if [ "$failed" -gt 0 ]; then
    result=FAILED
  fi
  printf '\ntest result: %s. %d passed; %d failed; %d ignored; 0 measured; 0 filtered out\n' \
    "$result" "$passed" "$failed" "$ignored"
  [ "$failed" -eq 0 ]
}
