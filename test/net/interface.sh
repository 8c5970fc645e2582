#!/bin/bash
# Which interface is taken where there are several: not one without a cable, nor, where there is
# another, one with an address that its host has given itself. Where two hosts have the same address,
# as behind bridges for containers, they do not reach one another, and are told why.
# Run: timeout=60

. "$(dirname "$0")/functions"

need_module
need_alone true

# add NAME ADDRESS up|down: the other end of its cable
# shellcheck disable=SC2016
add='add() {
    ip link add "$1" type veth peer name "other-$1" && ip addr add "$2" dev "$1" &&
        ip link set "$1" up && ip link set "other-$1" "$3" || exit 77
}'

# taken ADDRESS INTERFACES...: this one is, of those
taken() {
    what="$*"
    # shellcheck disable=SC2086
    $alone sh -c "ip link set lo up; $add; $2; sleep 0.1; exec \"\$0\" --devices" \
        "$build/bin/pami_info" >"$scratch/out" 2>"$scratch/err" </dev/null
    [ $? != 77 ] || skip 'no veth interfaces here'
    grep -q "interface $1\$" "$scratch/out" || complain "$1 is not taken"
}

taken 10.78.1.1 'add one 10.78.1.1/24 up; add two 10.78.2.1/24 up'
taken 10.78.2.1 'add one 10.78.1.1/24 down; add two 10.78.2.1/24 up'
taken 10.78.2.1 'add one 169.254.95.120/24 up; add two 10.78.2.1/24 up'
taken 169.254.95.120 'add one 169.254.95.120/24 up'
taken 10.78.1.1 'add one 10.78.1.1/24 down'
taken 10.78.1.1 'PAMI_OFI_INTERFACE=one; export PAMI_OFI_INTERFACE
    add one 10.78.1.1/24 down; add two 10.78.2.1/24 up'

# shellcheck disable=SC2086
run 1 env PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=one "$pamirun" -n 2 --nodes 2 $alone \
    sh -c "ip link set lo up; $add; add one 10.78.1.1/24 up; sleep 0.1; exec \"\$0\"" \
    "$build/examples/hello"
grep -q "its address is what this task's is, too (PAMI_OFI_INTERFACE)" "$scratch/err" ||
    complain 'nobody says that two hosts have one address'
finish
