#!/bin/bash
# Tasks on two and three hosts, which are network namespaces joined by a bridge: main programs of
# test/api, shared memory inside a host and the ofi device between them, started by pamirun,
# MPICH's mpiexec.hydra and Open MPI's mpirun. All programs: test/hosts.
#
#     namespaces.sh pamirun|hydra|openmpi HOSTS
#
# Run: args="pamirun 3" timeout=300
# Run: args="hydra 3" timeout=300
# Run: args="openmpi 2" timeout=300
. "$(dirname "$0")/functions"

use_launcher "$1"
hosts "$2"
cases=('order|4|||2' 'send_sizes|4|||' 'put|5|||' 'coll_basic|5|||' 'coll_threads|3|||')
# Others with the launchers that start faster.
[ "$launcher" = openmpi ] ||
    cases+=('threads|4|||' 'threads|4||PAMI_OFI_RECEIVE_BUFFERS=2|' 'coll_random|5|||'
        'send_events|4|||' 'flood|8|||' 'typed_send|3|||' 'early_context|4|||'
        'leave|4|||received' 'finish|4|||' 'client_query|6|||' 'rget|5|||' 'rmw|4|||' 'fence|5|||'
        'rma_threads|4|||' 'geometry_create|5|||' 'coll_nodes|8|||' 'am_collectives|4|||')
run_cases "${cases[@]}"

# What joins what.
export PAMI_LOG=info
what='who joins'
case_run "$scratch/" $((limit * factor)) 4 0 '' "$build/test/api/endpoint"
[ "$(cat "$scratch/status")" = 0 ] || complain "status $(cat "$scratch/status")"
grep -q "ofi: provider" "$scratch/err" || complain "not by the ofi device"
[ "$2" = 2 ] || grep -q "node 0 of 3, 2 local" "$scratch/err" ||
    complain "no two tasks on the first host"
finish
