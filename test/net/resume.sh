#!/bin/bash
# The link between two hosts is cut until each task takes the other for dead, and mended: the program
# purges and resumes, and messages flow again, none of the old ones among them.
#
# Run: timeout=300
. "$(dirname "$0")/functions"

hosts 2
export PAMI_PEER_TIMEOUT=2
what='a link that is mended'
start_apart pamirun 2 "$build/test/net/resume"

all streaming
ip -n "$net-sw" link set port2 down
all gone
ip -n "$net-sw" link set port2 up
all back
wait $job
status=$?
[ $status = 0 ] || complain "status $status"
cat "$scratch"/task.?
finish
