#!/bin/bash
# Collectives of tasks bound to processors, by the levels that hwloc tells of these: a level
# at which tasks divide gives the rows by levels, a trivial one does not. The machine is real, or
# one of two packages that hwloc makes up of its first two processors.
# Run: timeout=300
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail()
{
    echo "FAILED: $*"
    tail -n 20 "$work/out"
    failures=$((failures + 1))
}

[ "$(taskset -c 0,1 nproc 2>/dev/null)" = 2 ] || { echo 'SKIP: not two processors'; exit 77; }
# Packages of two processors with a cache each, for tasks alone.
packages='HWLOC_SYNTHETIC=package:2 l3:1 core:1 pu:1'

# job LEVELS MACHINE TASKS PROGRAM...: task i on processor i modulo 2
job()
{
    local levels=$1 machine=$2 tasks=$3
    shift 3
    PAMI_COLL_LEVELS=$levels PAMI_STATS=1 "$BUILD/bin/pamirun" -n "$tasks" --env "$machine" \
        sh -c 'exec taskset -c $((PMI_RANK % 2)) "$@"' sh "$@" >"$work/out" 2>&1 ||
        fail "$levels, ${machine:-the real machine}, $tasks tasks: $*"
}

# by_levels yes|no: was there a barrier by levels, which was asked for?
by_levels()
{
    local found=no
    ! grep -q 'collectives: barrier Hierarchical' "$work/out" || found=yes
    [ $found = "$1" ] || fail "by levels: $found instead of $1"
}

export PAMI_COLL_BARRIER=Hierarchical
for levels in node,package node,cache node,package,numa,cache,core; do
    job $levels "$packages" 4 "$BUILD/test/api/coll_calls"
    by_levels yes
done
job node "$packages" 4 "$BUILD/test/api/coll_calls"
by_levels no
job node,package "$packages" 2 "$BUILD/test/api/coll_calls" # one in each
by_levels no
job node,package 'HWLOC_SYNTHETIC=package:1 core:2 pu:1' 4 "$BUILD/test/api/coll_calls"
by_levels no
job node,core "NOTHING=1" 5 "$BUILD/test/api/coll_calls" # as the machine is
unset PAMI_COLL_BARRIER

job node,package "$packages" 5 "$BUILD/test/api/coll_nodes" --rounds 5
job node,core 'HWLOC_SYNTHETIC=package:1 core:2 pu:1' 8 "$BUILD/test/api/coll_nodes" --rounds 5
job node,core "NOTHING=1" 6 "$BUILD/test/api/coll_nodes" --rounds 5
PAMI_COLL_LEADERS=first job node,package "$packages" 5 "$BUILD/test/api/coll_basic"

# The same processors by pamirun.
PAMI_COLL_LEVELS=node,core "$BUILD/bin/pamirun" -n 5 --bind core "$BUILD/test/api/coll_basic" \
    >"$work/out" 2>&1 || fail 'with --bind core'
[ $failures = 0 ]
