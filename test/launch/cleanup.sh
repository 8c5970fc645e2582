#!/bin/bash
# After pamirun has ended nothing is left of the job: no task, no child of a task, whatever process
# group or session it moved to; and nothing that is not of the job is touched.
# Run: timeout=90
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

# The processes that a job has written to the file; waits until there are as many.
pids() {
    await eval "[ \$(wc -l <$scratch/pids) = $1 ]"
    cat "$scratch/pids"
}

# check STATUS COUNT SCRIPT: runs it in 3 tasks; all processes it notes are gone afterwards.
check() {
    local status=$1 count=$2 pid
    shift 2
    : >"$scratch/pids"
    run "$status" "$pamirun" -n 3 "${@:2}" bash -c "$1"
    [ "$(wc -l <"$scratch/pids")" = "$count" ] || complain "not $count processes"
    for pid in $(cat "$scratch/pids"); do
        gone "$pid" || complain "process $pid is still there"
    done
}
export pids=$scratch/pids

child='sleep 1000 & echo $! >>$pids'
ignoring='bash -c "trap \"\" TERM HUP INT; echo \$\$ >>$pids; while :; do sleep 0.05; done" &'
session='setsid bash -c "echo \$\$ >>$pids; exec sleep 1000" &'
daemon='setsid bash -c "trap \"\" TERM; bash -c \"echo \\\$\\\$ >>$pids; while :; do sleep 0.05; done\" & exit" &'
settle='until [ $(wc -l <$pids) -ge 3 ]; do sleep 0.02; done'

echo '# the tasks end well'
check 0 3 "$child"
check 0 3 "$ignoring $settle"
check 0 3 "$session $settle"
check 0 3 "$daemon $settle"
start=$(now)
run 0 "$pamirun" -n 3 bash -c 'sleep 1000 & exit 0'
within 5000 "$start"

echo '# a task fails'
check 5 3 "$child; [ \$PMI_RANK = 0 ] && $settle && exit 5; sleep 1000"
check 5 3 "$ignoring $settle; [ \$PMI_RANK = 0 ] && $settle && exit 5; sleep 1000"
check 5 3 "$session $settle; [ \$PMI_RANK = 0 ] && $settle && exit 5; sleep 1000"
check 5 3 "$daemon $settle; [ \$PMI_RANK = 0 ] && $settle && exit 5; sleep 1000"
check 124 6 "$session $child; sleep 1000" --timeout $((5 * factor))

echo '# a filter may finish what it has'
run 0 "$pamirun" -n 2 bash -c 'exec > >(sleep 0.3; sed s/^/filtered-/); echo word'
[ "$(grep -c filtered-word "$scratch/out")" = 2 ] || complain 'the last lines are lost'
run 0 "$pamirun" -n 2 --tag bash -c 'exec > >(sleep 0.3; sed s/^/filtered-/); echo word'
[ "$(grep -c '] filtered-word' "$scratch/out")" = 2 ] || complain 'the last lines are lost'

echo '# pamirun is ended'
for signal in TERM INT; do
    : >"$scratch/pids"
    env --default-signal=INT "$pamirun" -n 2 bash -c "$session $child; wait" >"$scratch/out" 2>"$scratch/err" &
    job=$!
    list=$(pids 4)
    kill -$signal $job
    wait $job
    gone $list || complain "$signal: something is left"
done
: >"$scratch/pids"
"$pamirun" -n 3 bash -c 'echo $$ >>$pids; trap "" TERM HUP; while :; do sleep 0.05; done' >"$scratch/out" 2>"$scratch/err" &
job=$!
list=$(pids 3)
kill -KILL $job
wait $job 2>/dev/null
await gone $list

echo '# what was there before'
sleep 1000 &
before=$!
run 0 bash -c 'sleep 1000 & echo $! >'"$scratch/own"'; exec "$@"' - "$pamirun" -n 2 bash -c 'sleep 1000 & exit 0'
gone $before && complain 'an unrelated process was ended'
own=$(cat "$scratch/own")
gone "$own" && complain "a process that pamirun's process had started before was ended"
kill $before "$own"
wait $before 2>/dev/null

# So many that the job's own are not among the first ones.
for count in 80 300; do
    run 0 bash -c 'for i in $(seq "$1"); do sleep 1000 & echo $!; done >"$2"; exec "${@:3}"' - $count \
        "$scratch/own" "$pamirun" -n 2 bash -c 'sleep 1000 & exit 0'
    for own in $(cat "$scratch/own"); do
        gone "$own" && complain "one of $count processes from before was ended"
        kill "$own"
    done
done

echo '# descriptors'
# Its own socket, and nothing else that pamirun has opened for itself or for other tasks.
open=$(ls -1 /proc/self/fd | wc -l)
for options in "" --tag "--stdin none"; do
    run 0 "$pamirun" -n 5 $options ls -1 /proc/self/fd
    [ "$(wc -l <"$scratch/out")" = $((5 * (open + 1))) ] || complain "not $((open + 1)) each"
done

finish
