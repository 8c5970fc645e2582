#!/bin/bash
# Tasks on two and three hosts, which are network namespaces joined by a bridge: the main programs
# of test/api, shared memory inside a host and the ofi device between them, started by MPICH's
# mpiexec.hydra.
#
# Run: timeout=600
. "$(dirname "$0")/functions"

command -v mpiexec.hydra >/dev/null || skip 'no mpiexec.hydra'
hosts 3
for count in 2 3; do
    host_count=$count
    for case in 'order 2' 'send_sizes' 'send_sizes large' 'send_events' 'send_headers' 'flood' \
        'recv_rules' 'typed_send' 'early_context' 'early_dispatch' 'nested' 'leave received' \
        'leave destroyed' 'threads' 'slow_receiver' 'finish' 'client_query'; do
        # shellcheck disable=SC2086
        set -- $case
        run_mpi 0 4 "$build/test/api/$1" "${@:2}"
    done
done
host_count=3

# What joins what.
export PAMI_LOG=info
run_mpi 0 4 "$build/test/api/endpoint"
grep -q "ofi: provider" "$scratch/err" || complain "not by the ofi device"
grep -q "node 0 of 3, 2 local" "$scratch/err" || complain "no two tasks on the first host"
finish
