#!/bin/bash
# A task of another node is stopped in the middle of traffic for much longer than the peer timeout,
# and goes on: whoever does not run is not dead, nothing has failed, and all messages arrive.
#
# Run: timeout=120
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=1
what='a stopped task'
cat >"$scratch/task" <<TASK
#!/bin/sh
[ "\$PMI_RANK" = 0 ] || echo \$\$ >"$scratch/pid"
exec "$build/test/net/stream" --until "$scratch/stop" --limit 40
TASK
chmod +x "$scratch/task"
"$pamirun" -n 2 --nodes 2 "$scratch/task" >"$scratch/out" 2>"$scratch/err" &
job=$!
for _ in $(seq $((400 * factor))); do
    [ "$(grep -cs streaming "$scratch/out")" != 2 ] || break
    sleep 0.1
done
[ "$(grep -cs streaming "$scratch/out")" = 2 ] || complain 'nothing is streaming'
kill -STOP "$(cat "$scratch/pid")"
sleep 4
kill -CONT "$(cat "$scratch/pid")"
sleep 1
touch "$scratch/stop"
wait $job
status=$?
[ $status = 0 ] || complain "status $status"
[ "$(grep -c ', 0 operations failed, 0 are open' "$scratch/out")" = 2 ] || complain 'something failed'
finish
