#!/bin/bash
# The examples that check their own results, with several numbers of tasks.
#
# Run: timeout=240

pamirun=${PAMIRUN:-build/bin/pamirun}
build=${BUILD:-build}
failures=0

# run TEXT TASKS PROGRAM ARGUMENT...: ends with 0 and says TEXT
run() {
    local text=$1 tasks=$2 output
    shift 2
    # shellcheck disable=SC2086 # the number of tasks, and options
    output=$("$pamirun" -n $tasks "$build/examples/$1" "${@:2}" 2>&1) &&
        [[ $output == *"$text"* ]] && return
    failures=$((failures + 1))
    printf 'FAILED: pamirun -n %s %s\n%s\n' "$tasks" "$*" "$output"
}

for program in accumulate dht halo ft multigrid; do
    run 'Usage: ' 1 $program --help
    for bad in --nonsense '--size' '--keys x'; do
        # shellcheck disable=SC2086
        "$build/examples/$program" $bad >/dev/null 2>&1 && {
            echo "FAILED: $program $bad is accepted"
            failures=$((failures + 1))
        }
    done
done
for tasks in 1 2 3 5 8; do
    run 'result: exact' $tasks accumulate --size 50
    run 'result: as in a sequential run' $tasks halo --size 20 --steps 10
    run 'result: as in a sequential run' $tasks dht --keys 1000
    run 'result: as in a sequential run' $tasks dht --keys 1000 --shared 1 --range 100 --window 7
done
here=$(cd "$(dirname "$0")/../.." && pwd)
for tasks in 1 2 3 5 8 '4 --nodes 2'; do
    run 'verified' "$tasks" kmeans "$here/examples/data/debian-packages.tsv" 6
    run 'verified' "$tasks" samplesort 20000
    run 'verified' "$tasks" compose 3
done
for tasks in 1 2 3; do
    run 'received in order' $tasks spread --messages 3000 --contexts 3
done
for tasks in 1 2 3 5 8; do
    run 'result: the published sums' $tasks ft
    run 'result: as in a sequential run' $tasks multigrid --size 16
done
for tasks in 2 3 '4 --nodes 2'; do
    run 'result: the published sums' "$tasks" ft --slabs 4 --thread 1
    run 'result: as in a sequential run' "$tasks" multigrid --size 16 --overlap 1 --thread 1
done
run 'verified' 2 samplesort 0
for bad in --help -1 1e6 99999999999999999999; do
    output=$("$build/examples/samplesort" $bad 2>&1)
    [[ $? = 1 && $output == 'Usage: '* ]] || {
        echo "FAILED: samplesort $bad: $output"
        failures=$((failures + 1))
    }
done
"$build/examples/spread" --messages 10x >/dev/null && {
    echo "FAILED: spread --messages 10x is accepted"
    failures=$((failures + 1))
}
table=$(mktemp) # with a column that is the same everywhere
trap 'rm -f "$table"' EXIT
for i in 1 2 3 4 5 6 7 8 9; do printf 'row%d\t%d\t0.1\t7\n' $i $i; done >"$table"
run 'verified' 2 kmeans "$table" 3
output=$("$build/examples/bfs" --kronecker 4 --names "$here" 2>&1)
[[ $? = 1 && $output == *'Is a directory'* ]] || {
    echo "FAILED: bfs --names DIRECTORY: $output"
    failures=$((failures + 1))
}
run 'result: the published sums' 2 ft W --slabs 3 --poll 2
run 'result: as in a sequential run' 8 multigrid --size 32 --overlap 1
run 'result: as in a sequential run' 3 halo --size 3 --steps 4
run 'result: exact' 3 accumulate --size 1

[ $failures = 0 ] || exit 1
