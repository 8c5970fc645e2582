#!/bin/bash
# pami_perf: tables for a node and between nodes, the threshold that --calibrate finds, wrong
# arguments.
# Run: timeout=120
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
perf=$BUILD/bin/pami_perf

fail()
{
    echo "FAILED: $*"
    exit 1
}

# rows OUTPUT: its lines of three numbers
rows()
{
    grep -cE '^ +[0-9]+ +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+$' <<<"$1" || true
}

output=$("$BUILD/bin/pamirun" -n 2 "$perf" --bytes 8-64 --seconds 0.001)
[ "$(rows "$output")" = 4 ] || fail "table: $output"
grep -q '^with task 1, on the same node:$' <<<"$output" || fail "heading: $output"

output=$("$BUILD/bin/pamirun" -n 3 --nodes 2 "$perf" --calibrate --bytes 1K-4K --seconds 0.001)
[ "$(rows "$output")" = 6 ] || fail "table: $output"
grep -q '^with task 2, on another node:$' <<<"$output" || fail "heading: $output"
settings=$(grep -E '^PAMI_RNDV_BYTES=[0-9]+$' <<<"$output")
[ "$(wc -l <<<"$settings")" = 2 ] || fail "settings: $output"
env "$(head -n 1 <<<"$settings")" "$BUILD/bin/pami_info" --options | grep -A1 RNDV_BYTES |
    grep -q environment || fail "the setting is not understood: $settings"

status=0
"$perf" --bytes 8-8 2>/dev/null || status=$?
[ "$status" = 1 ] || fail "one task: status $status"
for wrong in --nonsense '--bytes' '--bytes 0' '--bytes 8-4' '--bytes 8x' '--bytes 17179869185G' \
    '--seconds 0' '--seconds nan' '--seconds inf' '--seconds 1e400' '--seconds 1x' '--seconds'; do
    status=0
    # shellcheck disable=SC2086
    output=$("$perf" $wrong 2>&1) || status=$?
    [ "$status" = 2 ] || fail "$wrong: status $status"
    grep -q -- "^pami_perf: ${wrong%% *}: " <<<"$output" || fail "$wrong: $output"
done
for tool in "$perf --help" "$perf --version" "$BUILD/bin/pami_tune --help" \
    "$BUILD/bin/pamirun -n 2 $perf --bytes 8-8 --seconds 0.001" "$BUILD/bin/pami_info --options"; do
    status=0
    # shellcheck disable=SC2086
    output=$($tool 2>&1 >/dev/full) || status=$?
    [ "$status" = 1 ] || fail "$tool: status $status where nothing can be written"
    grep -q 'written\|cannot write' <<<"$output" || fail "$tool does not say that nothing was written"
done
"$perf" --bytes 8-4 2>&1 | grep -q "'8-4' is not a range" || fail "the value is not named"
"$perf" --help | grep -q -- --calibrate || fail "--help"
"$perf" --version | grep -q '^pami_perf (libpami) [0-9]' || fail "--version"
