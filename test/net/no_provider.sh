#!/bin/bash
# Nodes that no network joins: each task says why, and which option or variable was at fault, and
# sends to another node end with an error.
# Run: timeout=60
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

need_module
limit=20
export PAMI_NETWORK=ofi

# told TEXT VARIABLE=VALUE...
told() {
    local text=$1 task
    shift
    run 0 env "$@" "$pamirun" -n 2 --nodes 2 "$build/test/api/time"
    for task in 0 1; do
        grep -F "pami[$task]: warn: " "$scratch/err" | grep -qF "cannot be opened: $text" ||
            complain "no '$text' by task $task"
    done
    # Task 1 sends, and its error ends task 0.
    run 1 env "$@" "$pamirun" -n 2 --nodes 2 "$build/examples/hello"
    grep -qF 'no device reaches task 0' "$scratch/err" || complain 'the send is no error'
}

told 'no usable libfabric provider on 127.0.0.1, FI_PROVIDER=nonsense: ' FI_PROVIDER=nonsense
told 'no usable libfabric provider on 127.0.0.1, PAMI_OFI_PROVIDER=nonsense: ' \
    PAMI_OFI_PROVIDER=nonsense
told 'no usable libfabric provider on 127.0.0.1, PAMI_OFI_DOMAIN=nonsense: ' \
    PAMI_OFI_DOMAIN=nonsense
told "PAMI_OFI_INTERFACE: no interface that is up has the name or address 'nonsense'" \
    PAMI_OFI_INTERFACE=nonsense
told /nonsense/pami-ofi.so PAMI_MODULE_DIR=/nonsense
if unshare -n true 2>/dev/null; then
    run 1 unshare -n "$pamirun" -n 2 --nodes 2 "$build/examples/hello"
    grep -qF 'cannot be opened: no network interface is up' "$scratch/err" ||
        complain 'no interface, and nobody says so'
fi
finish
