#!/bin/bash
# The link between two hosts is cut in the middle of traffic: everything that is under way ends with
# an error on both sides, within about the peer timeout.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

need_launcher hydra
hosts 2
export PAMI_PEER_TIMEOUT=3
what='a cut link'
# The launcher's own connection is cut as well, so the tasks are on their own: their output goes to
# files, and the job is ended afterwards.
cat >"$scratch/task" <<TASK
#!/bin/sh
exec "$build/test/net/stream" --limit 20 >"$scratch/task.\$PMI_RANK" 2>&1
TASK
chmod +x "$scratch/task"
export -f on hydra places
export scratch host_count
timeout -k 2 100 bash -c 'hydra "$@"' hydra 2 "$scratch/task" >"$scratch/out" 2>"$scratch/err" &
job=$!
for _ in $(seq 600); do
    [ "$(grep -ls streaming "$scratch"/task.? | wc -l)" = 2 ] && break
    sleep 0.1
done
[ "$(grep -ls streaming "$scratch"/task.? | wc -l)" = 2 ] || complain 'nothing is streaming'
sleep 0.5
start=$(now)
ip -n "$net-sw" link set port2 down
for _ in $(seq $((300 * factor))); do
    [ "$(grep -ls 'gone after\|nothing for' "$scratch"/task.? | wc -l)" = 2 ] && break
    sleep 0.1
done
passed=$(($(now) - start))
cat "$scratch"/task.?
for i in 0 1; do
    grep -q "^task $i: gone after" "$scratch/task.$i" || complain "task $i does not notice"
    grep -q 'do not end' "$scratch/task.$i" && complain "task $i: later operations do not end"
done
[ $passed -lt $((15000 * factor)) ] || complain "took $passed ms"
ip -n "$net-sw" link set port2 up
kill $job 2>/dev/null
wait $job 2>/dev/null
finish
