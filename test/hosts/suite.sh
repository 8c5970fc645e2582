#!/bin/bash
# Every program of test/api that has cases on several nodes, with all its cases: on two and three
# hosts (network namespaces), by two launchers. Takes many minutes; `make check KIND=hosts`. A short
# one: test/net/namespaces.sh. Over the loopback interface: loopback.sh.
#
#     suite.sh pamirun|hydra|openmpi HOSTS [PROGRAMS]
#
# PROGRAMS is an extended regular expression, such as '^coll'.
#
# Run: args="hydra 2" timeout=1800
# Run: args="hydra 3" timeout=1800
# Run: args="openmpi 2" timeout=1800
# Run: args="openmpi 3" timeout=1800
. "$(dirname "$0")/../net/functions"

use_launcher "$1"
hosts "$2"
# No other host is reached by the loopback interface, which some cases name.
# For mpirun a task has failed that ends by _exit, as some of the first do; its libpmix ends the task
# by a signal where memory cannot be had, which the second one forbids, and has a thread that keeps
# the task alive, which the third one waits for the end of.
not='^$'
[ "$launcher" != openmpi ] || not='^leave[|].*[|]\(received\|inside\)$\|^\(ofi_memory\|last_thread\)[|]'
mapfile -t list < <(cases all "$(dirname "$0")"/../api/*.c | awk -F'|' -v hosts="$2" -v programs="${3:-.}" '
    $2 >= hosts && $1 ~ programs { nodes = $3; $3 = ""; line = $1 "|" $2 "||" $4 "|" $5; if (!seen[line]++) print line }' |
    grep -v -e "$not" -e PAMI_OFI_INTERFACE=lo)
run_cases "${list[@]}"
finish
