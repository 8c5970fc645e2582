#!/bin/bash
# A task dies in one of many ways, and those of another node and of its own notice in time; what they
# had to do with it ends, and among themselves they work as before: test/fault over the ofi device.
# `some` ways, or all (test/hosts).
#
#     dying.sh some|all
#
# Run: args="some" timeout=400
TEST_FACTOR=$((3 * ${TEST_FACTOR:-1}))
export TEST_FACTOR
. "$(dirname "$0")/../fault/functions"

[ -e "$build/lib/pami-ofi.so" ] || {
    echo 'SKIP: this build has no network module (libfabric is missing)'
    exit 77
}
export PAMI_NETWORK=ofi
some='kill-in-dispatch kill-in-flood kill-anywhere kill-unread kill-after-farewell kill-before-contact
    exit-farewell exit-sending abort leave-farewell before-contexts stop-in-dispatch all-exit'
[ "${1:-some}" = some ] || some=$(ways 0 $((START | ENDLESS)))
seed=0
for way in $some; do
    seed=$((seed + 1))
    done=3
    [ "$(ways $RETURNS 0 | grep -cx "$way")" = 0 ] || done=4
    [ "$(ways $EVERYBODY 0 | grep -cx "$way")" = 0 ] || done=4
    job "$(status_of "$way")" $done -n 4 --nodes 2 --keep-going -- --way "$way" --seed $seed
done
finish
