#!/bin/bash
# The link between two hosts is cut in the middle of traffic: everything that is under way ends with
# an error on both sides, within about the peer timeout.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

hosts 2
export PAMI_PEER_TIMEOUT=3
what='a cut link'
start_apart pamirun 2 "$build/test/net/stream" --limit 20
all streaming
sleep 0.5
lost ip -n "$net-sw" link set port2 down
ip -n "$net-sw" link set port2 up
finish
