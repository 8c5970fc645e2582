#!/bin/bash
# Tasks of a job over several hosts are lost in the middle of messages, one-sided transfers and
# collectives: a task is killed, a host is cut off. Everybody who lives has all of that end with
# errors that name a lost task, within the detection time, and goes on with the others. After a cut
# both sides find together again, many times, and nothing leaks.
#
#     outage.sh HOSTS
#
# Run: args="2" timeout=180
# Run: args="3" timeout=180
. "$(dirname "$0")/functions"

hosts "$1"
export PAMI_PEER_TIMEOUT=2
keep_going=--keep-going

# outage WHAT MS LIVES ARGUMENT...: the job, of four tasks; LIVES of them live on
outage() {
    local most=$2 lives=$3 start passed
    what=$1
    shift 3
    rm -f "$scratch"/task.*
    start=$(now)
    start_apart pamirun 4 "$build/test/net/outage" "$@"
    all streaming
    sleep 0.3
    echo "# streaming after $(($(now) - start)) ms"
    start=$(now)
    [ "$what" != cut ] || ip -n "$net-sw" link set "port$host_count" down
    tasks=$lives all '^lost'
    passed=$(($(now) - start))
    [ $passed -lt $((most * factor)) ] || complain "took $passed ms"
    [ "$what" != cut ] || ip -n "$net-sw" link set "port$host_count" up
    wait $job
    [ "$(grep -l '^done' "$scratch"/task.* | wc -l)" = "$lives" ] || {
        complain 'not all live on'
        tail -n 3 "$scratch"/task.*
    }
    echo "# $what: $passed ms"
    grep -h 'times:' "$scratch"/task.0
}

outage killed 4000 3 --lost 1 --die
# All tasks of the last host.
outage cut 8000 4 --lost $((4 - host_count)) --back
finish
