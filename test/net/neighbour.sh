#!/bin/bash
# Of a host with two tasks one alone is cut off from the network of the provider, and another task
# of the same host goes on. Who has lost it ends the connections that came from it, and no others.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

hosts 2 --cut "$scratch/keep"
export PAMI_PEER_TIMEOUT=4 PAMI_LOG=info
what='a silent task with a neighbour'

# established HOST TASK: "own port, other port" of its connections
established() {
    local pid
    pid=$(sed -n 's/^process \([0-9]*\) is streaming/\1/p' "$scratch/task.$2")
    on "$1" "ss -Htnp state established" | grep "pid=$pid," |
        sed -nE 's/.*:([0-9]+) +[0-9.]*:([0-9]+) .*/\1 \2/p'
}

start_apart pamirun 3 "$build/test/net/stream" --limit 40 --stay "$scratch/end"
all streaming
sed -n 's|.*find this task at .*/\([0-9]*\)$|\1|p' "$scratch"/task.? >"$scratch/receptions"
cp "$scratch/receptions" "$scratch/ports"
established 1 1 | cut -d' ' -f1 >>"$scratch/ports"
established 2 2 >"$scratch/before"
established 1 0 | grep -vwFf "$scratch/receptions" >"$scratch/made"
[ "$(wc -l <"$scratch/receptions")" = 3 ] && [ -s "$scratch/made" ] ||
    complain 'the connections are not what they should be'
sleep 0.5
mv "$scratch/ports" "$scratch/keep"
tasks=2 all 'gone after\|nothing for'
cat "$scratch"/task.?
sleep 0.5
established 2 2 >"$scratch/after"
while read -r own other; do
    grep -qx "$other $own" "$scratch/before" || complain "task 2 knows nothing of $own $other"
    ! grep -qx "$other $own" "$scratch/after" || complain "connection $own $other lives"
done <"$scratch/made"
! grep -q 'failed$' "$scratch/task.1" || complain 'the neighbour has lost something'
touch "$scratch/end"
wait $job
finish
