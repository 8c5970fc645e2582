#!/bin/bash
# The link between two hosts is cut until each task takes the other for dead, and mended: the program
# purges and resumes, and messages flow again, none of the old ones among them.
#
# Run: timeout=300
. "$(dirname "$0")/functions"

need_launcher hydra
hosts 2
export PAMI_PEER_TIMEOUT=2
what='a link that is mended'
cat >"$scratch/task" <<TASK
#!/bin/sh
exec "$build/test/net/resume" >"$scratch/task.\$PMI_RANK" 2>&1
TASK
chmod +x "$scratch/task"
export -f on hydra places
export scratch host_count
timeout -k 2 $((100 * factor)) bash -c 'hydra "$@"' hydra 2 "$scratch/task" \
    >"$scratch/out" 2>"$scratch/err" &
job=$!

# both WORD: both tasks say so, in time
both() {
    for _ in $(seq $((400 * factor))); do
        [ "$(grep -ls "$1" "$scratch"/task.? | wc -l)" != 2 ] || return 0
        sleep 0.1
    done
    complain "not both are $1"
    cat "$scratch"/task.?
    kill $job
    finish
}

both streaming
ip -n "$net-sw" link set port2 down
both gone
ip -n "$net-sw" link set port2 up
both back
wait $job
status=$?
[ $status = 0 ] || complain "status $status"
cat "$scratch"/task.?
finish
