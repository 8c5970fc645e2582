#!/bin/bash
# MPICH's mpiexec.hydra over two hosts: nodes by its map, cards and fences across, ends.
# Run: timeout=300
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"
hydra=$(command -v mpiexec.hydra) || { echo 'skip: no mpiexec.hydra'; exit 77; }
. "$(dirname "$0")/hosts_functions"

job=$(realpath "$build/test/unit/bootstrap_job")
over=("$scratch/agent" nodeA "$hydra" -launcher ssh -launcher-exec "$scratch/agent"
    -hosts nodeA:2,nodeB:2)

places() {
    [ "$(sort "$scratch/out" | tr '\n' ';')" = "$1" ] || complain "places are not $1"
}

run 0 "${over[@]}" -n 4 "$job" --print
places 'task 0/4 node 0/2 local 0 1;task 1/4 node 0/2 local 0 1;task 2/4 node 1/2 local 2 3;task 3/4 node 1/2 local 2 3;'
# More tasks than the map's blocks: it starts again.
run 0 "${over[@]}" -n 6 "$job" --print
has out 'task 4/6 node 0/2 local 0 1 4 5'
run 0 "${over[@]}" -n 4 "$job"
is out ''
run 0 "${over[@]}" -n 4 "$job" --fences 20
# Other ways to name the agent.
run 0 "$scratch/agent" nodeA "$hydra" -launcher rsh -launcher-exec "$scratch/agent" -hosts nodeA:2,nodeB:2 \
    -n 4 "$job"
HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$scratch/agent run 0 "$scratch/agent" nodeA "$hydra" \
    -hosts nodeA:2,nodeB:2 -n 4 "$job"
messages "${over[@]}" -n 4
run 7 "${over[@]}" -n 4 "$job" --abort 7
start=$(now)
what='a task dies'
timeout --foreground -k 2 $((20 * factor)) "${over[@]}" -n 4 "$job" --die 9 >"$scratch/out" 2>"$scratch/err"
status=$? # 9, or 255 when a proxy trips over the end
[ $status = 9 ] || [ $status = 255 ] || complain "status $status"
within 5000 "$start"
# Other nodes only get SIGUSR1, which ends who does not expect it.
start=$(now)
what='no clean-up'
timeout --foreground -k 2 $((20 * factor)) "${over[@]}" -disable-auto-cleanup -n 4 "$job" --die 9 \
    >"$scratch/out" 2>"$scratch/err"
[ $? != 124 ] || complain 'does not end'
within 10000 "$start"
# Who ignores it survives; hydra ends those of the same node most times, but not always, and loses some
# of what the others say when the first of them ends. Fences do not end by themselves.
printf '#!/bin/sh\ntrap "" USR1\nexec "%s" --die 9 >>"%s"\n' "$job" "$scratch/said" >"$scratch/ignores"
chmod +x "$scratch/ignores"
start=$(now)
what='no clean-up, the signal ignored'
JOB_GOES_ON=1 PAMI_BOOTSTRAP_TIMEOUT=6 timeout --foreground -k 2 $((40 * factor)) "${over[@]}" -disable-auto-cleanup \
    -n 4 "$scratch/ignores" >"$scratch/out" 2>"$scratch/err"
[ $? != 124 ] || complain 'does not end'
has said 'task 0 survives'
has said 'task 1 survives'
within 20000 "$start"
finish
