#!/bin/bash
# Communication servers as pamirun sees them: they are no tasks, live as long as the job and no
# longer, whatever ends it, and their end is none of the job. They wait for the first program, and
# serve no other one.
# Run: timeout=120
# shellcheck disable=SC2016,SC2034,SC2154 # for the tasks to expand; variables of "functions"

. "$(dirname "$0")/functions"

# server_pids PARENT COUNT: the servers that it has, once there are so many.
list() {
    local stat
    for stat in /proc/[0-9]*/stat; do
        sed -n "s/^\([0-9]*\) (pami_server) [A-Z] $1 .*/\1/p" "$stat" 2>/dev/null
    done
}
are() {
    [ "$(list "$1" | wc -l)" = "$2" ]
}
server_pids() {
    await are "$1" "$2"
    list "$1"
}

echo '# no tasks'
run 0 "$pamirun" -n 2 --servers 2 bash -c 'echo $PMI_RANK'
[ "$(sort "$scratch/out" | tr "\n" " ")" = "0 1 " ] || complain "not tasks 0 and 1"
run 3 "$pamirun" -n 2 --servers 1 bash -c 'exit 3'
run 0 "$pamirun" -n 1 --servers 1 "$pamirun" -n 1 bash -c 'echo "<$PMI_SERVERS>"'
is out '<>'
run 0 "$pamirun" -n 2 --servers 0 bash -c 'echo "$PMI_SIZE"'
is out "$(printf '2\n2')"
run 2 "$pamirun" --servers x true
has err '--servers'
run 2 "$pamirun" --servers -1 true
has err "'-1' is not a number from 0 to 4096"
run 2 "$pamirun" -n 2 --nodes 2 --servers 2048 true
has err 'together they are 4096 at most'
run 2 "$build/bin/pami_server"
has err 'pamirun --servers'
run 0 "$build/bin/pami_server" --help
has out 'pamirun --servers'
run 0 "$build/bin/pami_server" --version
has out 'pami_server (libpami)'

echo '# they end with the job'
start=$(now)
run 124 "$pamirun" -n 1 --servers 2 --timeout 0.5 sleep 1000
within 5000 "$start"
for signal in TERM KILL; do
    what="pamirun that gets $signal"
    "$pamirun" -n 1 --servers 2 sleep 1000 2>"$scratch/err" &
    job=$!
    pids=$(server_pids "$job" 2)
    kill -"$signal" "$job"
    for pid in $pids; do
        await gone "$pid"
    done
    wait "$job" 2>/dev/null
done

echo '# and the job does not end with them'
run 0 "$pamirun" -n 1 --servers 2 bash -c '
    until [ $(grep -l "^[0-9]* (pami_server) [A-Z] $PPID " /proc/[0-9]*/stat 2>/dev/null |
        wc -l) = 2 ]; do sleep 0.05; done
    for stat in $(grep -l "^[0-9]* (pami_server) [A-Z] $PPID " /proc/[0-9]*/stat 2>/dev/null); do
        kill -9 $(cut -d" " -f1 $stat)
    done
    while grep -q "^[0-9]* (pami_server) [A-Z] $PPID " /proc/[0-9]*/stat 2>/dev/null; do
        sleep 0.05
    done
    echo went on'
is out 'went on'
has err 'server 0'
has err 'server 1'
has err 'killed by signal 9'

echo '# programs that come late, or one after another'
sort="$build/examples/samplesort 1000"
run 0 env PAMI_BOOTSTRAP_TIMEOUT=3 "$pamirun" -n 2 --servers 1 sh -c "sleep 4; exec $sort"
for nodes in 1 2; do
    run 0 env PAMI_BOOTSTRAP_TIMEOUT=8 "$pamirun" -n 2 --nodes $nodes --servers 2 \
        sh -c "$build/test/api/servers_beside 0 1 && $sort && $sort"
done
# What is no client waits for nobody and leaves the servers to the first one.
run 0 env PAMI_BOOTSTRAP_TIMEOUT=8 "$pamirun" -n 2 --servers 1 "$build/bin/pami_info" --devices
has out 'servers of this job wait for its first client'
lacks err 'server 0'
run 0 env PAMI_BOOTSTRAP_TIMEOUT=8 "$pamirun" -n 2 --servers 2 \
    sh -c "$build/bin/pami_info --devices && $build/test/api/servers_beside 0 1 && $sort"
lacks err 'server 0'

echo '# a server that ends too early'
run 1 "$pamirun" -n 2 --servers 1 bash -c '
    list() { grep -l "^[0-9]* (pami_server) [A-Z] $PPID " /proc/[0-9]*/stat 2>/dev/null; }
    if [ $PMI_RANK = 0 ]; then
        until list; do sleep 0.05; done
        kill -9 $(cut -d" " -f1 $(list))
    fi
    exec '"$sort"
has err 'server 0'
has err 'communication_server_0_has_ended'
finish
