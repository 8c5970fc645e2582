#!/bin/bash
# Programs of test/api that have cases on several nodes, over the ofi device instead of shared memory:
# between pretended nodes on the loopback interface. `some` is one case of a program for each topic
# that namespaces.sh leaves out; test/hosts has all cases of all programs.
#
#     loopback.sh some|all [PROGRAMS]
#
# PROGRAMS is an extended regular expression, such as '^coll'.
#
# Run: args="some" timeout=400
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi
some='async_operations cancel charm client_several context_create coll_calls coll_compose coll_leave
    dispatch_hints early_dispatch gasnet geometry_collective get get_typed immediate_sizes late_task
    mem memregion nested put_typed recv_rules rma_faults rma_leave rma_nested self send_headers
    slow_receiver'

launch() {
    local tasks=$1 nodes=$2
    shift 2
    exec "$pamirun" -n "$tasks" --nodes "$nodes" "$@"
}

api=$(dirname "$0")/../api
if [ "${1:-some}" = all ]; then
    mapfile -t list < <(cases all "$api"/*.c | grep -E "${2:-.}")
else
    mapfile -t list < <(for program in $some; do cases one "$api/$program.c" | head -n 1; done)
fi
run_cases "${list[@]}"
what=loopback
[ $case_count -gt 20 ] || [ -n "${2-}" ] || complain "only $case_count cases"
finish
