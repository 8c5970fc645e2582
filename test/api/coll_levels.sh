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

# Tasks that have control groups of their own: 0 and 1 may see one core each, 2 and 3 both.
machine()
{
    cat <<XML
<?xml version="1.0"?>
<topology version="2.0">
<object type="Machine" os_index="0" gp_index="1" cpuset="0x3" complete_cpuset="0x3"
 allowed_cpuset="$1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1">
<object type="NUMANode" os_index="0" gp_index="2" cpuset="0x3" complete_cpuset="0x3"
 nodeset="0x1" complete_nodeset="0x1" local_memory="1"/>
XML
    for core in 0 1; do
        sets="cpuset=\"$((1 << core))\" complete_cpuset=\"$((1 << core))\""
        sets="$sets nodeset=\"0x1\" complete_nodeset=\"0x1\""
        echo "<object type=\"Core\" os_index=\"$core\" gp_index=\"$((3 + core))\" $sets>"
        echo "<object type=\"PU\" os_index=\"$core\" gp_index=\"$((5 + core))\" $sets/></object>"
    done
    echo '</object></topology>'
}
machine 0x1 >"$work/0"
machine 0x2 >"$work/1"
machine 0x3 >"$work/2"
cp "$work/2" "$work/3"
for program in coll_basic 'coll_nodes --rounds 5'; do
    # shellcheck disable=SC2086
    PAMI_COLL_LEVELS=node,core "$BUILD/bin/pamirun" -n 4 --timeout 60 sh -c '
        export HWLOC_XMLFILE="$0/$PMI_RANK"
        case $PMI_RANK in [01]) exec taskset -c "$PMI_RANK" "$@" ;; *) exec "$@" ;; esac' \
        "$work" "$BUILD"/test/api/$program >"$work/out" 2>&1 || fail "in control groups: $program"
done

# The same processors by pamirun.
PAMI_COLL_LEVELS=node,core "$BUILD/bin/pamirun" -n 5 --bind core "$BUILD/test/api/coll_basic" \
    >"$work/out" 2>&1 || fail 'with --bind core'
[ $failures = 0 ]
