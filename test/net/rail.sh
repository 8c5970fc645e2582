#!/bin/bash
# Of two hosts only the connections of an extra endpoint (PAMI_OFI_RAILS) are cut: packets go on, but
# large data does not. What is under way ends with an error on both sides, within about the peer
# timeout, and one of them says why.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

hosts 2 --cut "$scratch/keep"
export PAMI_PEER_TIMEOUT=2 PAMI_LOG=info PAMI_OFI_RAILS=2
what='a silent rail'
start_apart pamirun 2 "$build/test/net/stream" --limit 40 --large "$scratch/large"

all streaming
# The rails have not been used: the connections that there are go on, and no other one does.
for host in 1 2; do
    on $host cat /proc/net/tcp
done | awk '$4 == "0A" { print $2 }' | sed 's/.*://' | sort -u >"$scratch/listening"
on 1 cat /proc/net/tcp | awk '$4 == "01" { print $2; print $3 }' | sed 's/.*://' | sort -u |
    grep -vxFf "$scratch/listening" | while read -r port; do
        echo $((16#$port))
    done >"$scratch/ports"
: >"$scratch/large"
sleep 2
lost mv "$scratch/ports" "$scratch/keep"
grep -q 'a rail, for reads and writes' "$scratch"/task.? || complain 'nobody says why'
finish
