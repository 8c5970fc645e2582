#!/bin/bash
# bench/run with stand-ins for all programs: the suites can be listed and run, peers that hang or
# fail are reported, and figures that they have printed by then count.
# Run: timeout=180
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

complain() {
    echo "FAILED: $1"
    sed 's/^/  /' "$work/out" "$work/err"
    failures=$((failures + 1))
}

# bench STATUS ARGUMENT...
bench() {
    local expected=$1 status=0
    shift
    PATH=$work/path:$PATH BUILD=$work timeout 50 "$top/bench/run" "$@" \
        >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ "$status" = "$expected" ] || complain "bench/run $*: status $status instead of $expected"
}

shows() {
    grep -qE -- "$1" "$work/out" || complain "no line with: $1"
}

# program NAME: what it does is the standard input
program() {
    mkdir -p "$(dirname "$work/$1")"
    { echo '#!/bin/sh'; cat; } >"$work/$1"
    chmod +x "$work/$1"
}

perl -e 1 2>/dev/null || { echo 'SKIP: no perl'; exit 77; }

bench 0 --list
[ ! -s "$work/err" ] || complain 'bench/run --list: warnings'
for group in latency coll-crowded network hosts hosts-p2p coll-curves coll-roots; do
    shows "^$group\$"
done
bench 2 --build "$work" no-such-group
grep -q "there is no 'no-such-group'" "$work/err" || complain 'the wrong name is not mentioned'

program bench/limit <<'END'
echo pingpong_two_lines,64,ns,100
echo pingpong_disturbed,64,percent,0
END
program bin/pamirun <<'END'
echo broadcast,8,us,1
END
program bench/coll </dev/null
program bench/peer/mpi_coll.openmpi </dev/null
program bench/peer/mpi_coll.mpich </dev/null
program path/mpirun.mpich <<'END'
echo broadcast,8,us,4
exec sleep 60
END
program path/mpirun.openmpi <<'END'
[ -z "$OMPI_MCA_coll_adapt_priority" ] || { echo broadcast,8,us,0.5; echo 'an error' >&2; exit 1; }
[ -z "$OMPI_MCA_coll_tuned_dynamic_rules_filename" ] ||
    [ -r "$OMPI_MCA_coll_tuned_dynamic_rules_filename" ] || exit 1
case "$*" in *--fixed*) echo broadcast,8,us,2 ;; esac
END
bench 0 --quick --no-plots --seconds 4 coll-fixed-2
shows 'mpich-blocking: FAILED: time limit, 2 times'
shows 'openmpi-adapt: FAILED: an error, 2 times'
awk -F, '$1 == "coll-fixed-2" && $2 == "openmpi-adapt"' "$work/bench/measures.csv" | grep -q . &&
    complain 'a figure of a run that failed counts'
grep -q '^coll-fixed-2,mpich-blocking,broadcast,8,us,4,4,4,2$' "$work/bench/measures.csv" ||
    complain 'the figures of a run that hangs are lost'
shows 'broadcast 8 B, us < +- +0.500 +1.00 .* failed .* 4.00 '

[ $failures = 0 ]
