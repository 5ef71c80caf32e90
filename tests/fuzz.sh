#!/usr/bin/env bash
# Runs the fuzz targets for some seconds, side by side: fuzz.sh SECONDS.
#
# It needs a nightly compiler and a C++ compiler for libfuzzer; without them the targets count as
# ignored, and it says so. New inputs are kept in the target folder for the next run; an input that
# breaks something is kept there too, and named.
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

seconds=${1:?usage: fuzz.sh SECONDS}
targets=(operations nbd_wire nbd_client lab_text)
folder=$(realpath -m -- "${CARGO_TARGET_DIR:-target}/fuzz")

if ! rustc +nightly --version >/dev/null 2>&1; then
  missing='no nightly toolchain (rustup toolchain install nightly --profile minimal)'
elif ! command -v c++ >/dev/null; then
  missing='no C++ compiler (c++)'
fi
if [ -n "${missing:-}" ]; then
  printf 'ignored: fuzzing of %s: %s\n' "${targets[*]}" "$missing"
  printf 'test result: ok. 0 passed; 0 failed; %d ignored\n' "${#targets[@]}"
  exit 0
fi

# The flags of cargo-fuzz, except AddressSanitizer, with which a build takes far longer: every edge
# is counted and comparisons are traced. With a target given, build scripts are not instrumented.
flags='--cfg fuzzing -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares'
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
RUSTFLAGS=${flags//$'\n'/ } CARGO_TARGET_DIR=$folder cargo +nightly build --quiet --release \
  --locked --manifest-path fuzz/Cargo.toml --target "$host"

# Starts from the inputs of former runs and, for texts, from those that ship.
run() {
  local corpus=$folder/corpus/$1 shipped=()
  if [ "$1" = lab_text ]; then
    shipped=(crates/forebay-lab/src/machines scenarios)
  fi
  mkdir -p "$corpus" "$folder/found"
  "$folder/$host/release/$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -artifact_prefix="$folder/found/$1-" -print_final_stats=1 "$corpus" "${shipped[@]}" \
    >"$folder/$1.log" 2>&1
}

passed=0
failed=0
pids=()
for target in "${targets[@]}"; do
  run "$target" &
  pids+=($!)
done
for index in "${!targets[@]}"; do
  name=${targets[index]}
  if wait "${pids[index]}"; then
    passed=$((passed + 1))
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$name.log")
    printf 'fuzz %s: ok, %s inputs in %s s\n' "$name" "$inputs" "$seconds"
  else
    failed=$((failed + 1))
    tail -n 40 -- "$folder/$name.log"
    printf 'fuzz %s: FAILED; the input is named above\n' "$name"
  fi
done
state=ok
if [ "$failed" -gt 0 ]; then
  state=FAILED
fi
printf 'test result: %s. %d passed; %d failed; 0 ignored\n' "$state" "$passed" "$failed"
exit $((failed > 0))
