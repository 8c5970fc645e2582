#!/bin/bash
# Open MPI's mpirun over two hosts: nodes as it counts them, also when both have one name; cards and
# fences across.
# Run: timeout=300
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"
. "$(dirname "$0")/openmpi_functions"
. "$(dirname "$0")/hosts_functions"

job=$(realpath "$build/test/unit/bootstrap_job")
over=("$scratch/agent" nodeA "${mpirun[@]}" --mca plm_rsh_agent "$scratch/agent"
    --mca oob_tcp_if_include 10.77.0.0/24 --host nodeA:2,nodeB:2)
run_any "${over[@]}" -n 2 true
[ -s "$scratch/err" ] && { echo 'skip: mpirun does not start anything over there'; exit 77; }

places() {
    [ "$(sort "$scratch/out" | tr '\n' ';')" = "$1" ] || complain "places are not $1"
}

PAMI_LOG=info run 0 "${over[@]}" -x PAMI_LOG -n 4 "$job" --print
lacks err 'comparing hosts' # which asks about each task
places 'task 0/4 node 0/2 local 0 1;task 1/4 node 0/2 local 0 1;task 2/4 node 1/2 local 2 3;task 3/4 node 1/2 local 2 3;'
run 0 "${over[@]}" --map-by node -n 4 "$job" --print
places 'task 0/4 node 0/2 local 0 2;task 1/4 node 1/2 local 1 3;task 2/4 node 0/2 local 0 2;task 3/4 node 1/2 local 1 3;'
run 0 "${over[@]}" -n 4 "$job"
is out ''
run 0 "${over[@]}" -n 4 "$job" --fences 20
ends 7 "${over[@]}" -n 4 "$job" --abort 7

# Two hosts of one name: the list of local peers is wrong then, the numbers of nodes are not.
SAME_NAME=1 run 0 "${over[@]}" -n 4 "$job" --print
[ "$(grep -c 'node ./2 local' "$scratch/out")" = 4 ] || complain 'not two nodes'

messages "$scratch/agent" nodeA timeout --foreground -k 1 $((60 * factor)) mpirun.openmpi --oversubscribe \
    --mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.77.0.0/24 \
    --host nodeA:2,nodeB:2 -n 4

# An orphan: the daemon of the other host dies, and its tasks with it.
what='daemon killed'
printf '#!/bin/sh\nexec "%s" --linger 2>>"%s/err"\n' "$job" "$scratch" >"$scratch/linger"
chmod +x "$scratch/linger"
"${over[@]}" -n 4 "$scratch/linger" >"$scratch/out" 2>/dev/null &
launcher=$!
if await test_lines 4 '^pid '; then
    daemon=
    for pid in $(sed -n 's/^pid //p' "$scratch/out"); do
        parent=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$pid/stat")
        [ "$(cat "/proc/$parent/comm")" = orted ] && daemon=$parent
    done
    [ -n "$daemon" ] && kill -KILL "$daemon"
    # shellcheck disable=SC2046
    await gone $(sed -n 's/^pid //p' "$scratch/out")
fi
wait "$launcher" 2>/dev/null
finish
