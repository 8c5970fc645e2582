#!/bin/bash
# Messages of all protocols over each libfabric provider that this machine has, and a thread that
# idles over it; and one of hardware is chosen before them although it can do less, and each of two
# adapters by half of the tasks.
#
# Run: timeout=400

# A killed task leaves the files of libfabric's shm provider behind: in a /dev/shm of our own.
if [ -z "${PRIVATE_SHM-}" ]; then
    for own in 'unshare --mount' 'unshare --user --map-root-user --mount'; do
        $own sh -c 'mount -t tmpfs none /dev/shm' 2>/dev/null || continue
        # shellcheck disable=SC2016
        PRIVATE_SHM=yes exec $own sh -c 'mount -t tmpfs none /dev/shm && exec bash "$0"' "$0"
    done
    PRIVATE_SHM=no
fi
. "$(dirname "$0")/functions"

# Of udp;ofi_rxd (1.17) connections stand still for good when datagrams are lost, as where a task gets
# no processor for long: over it what does not work is tried again.
works() {
    local try
    if [ "$provider" = 'udp;ofi_rxd' ]; then
        for try in 1 2; do
            timeout --foreground -k 2 $limit "$@" >"$scratch/out" 2>"$scratch/err" && return
            echo "# $provider: attempt $try failed"
        done
    fi
    run 0 "$@"
}

need_module
limit=90
export PAMI_NETWORK=ofi
tried=0
while read -r provider domain rest; do
    [ "$domain" = lo ] || [ "$domain" = shm ] || continue
    [ "$provider" != shm ] || [ "$PRIVATE_SHM" = yes ] || continue
    works env PAMI_OFI_PROVIDER="$provider" "$pamirun" -n 2 --nodes 2 "$build/test/net/stream" \
        --end 1 --limit 60
    grep -q ' messages came, 0 operations failed' "$scratch/out" || complain "$provider: ${rest:-}"
    # More buffers than some providers take.
    works env PAMI_OFI_PROVIDER="$provider" PAMI_OFI_RECEIVE_BUFFERS=64 "$pamirun" -n 2 --nodes 2 \
        "$build/test/api/send_sizes"
    # Tasks meet at starts of clients, with contexts that nobody advances then.
    works env PAMI_OFI_PROVIDER="$provider" "$pamirun" -n 2 --nodes 2 \
        "$build/test/api/client_several"
    # Some have nothing to wait by.
    works env PAMI_OFI_PROVIDER="$provider" TEST_FACTOR="$factor" "$pamirun" -n 2 --nodes 2 \
        "$build/test/net/idle"
    tried=$((tried + 1))
done < <(PAMI_OFI_INTERFACE=lo "$build/bin/pami_info" --devices |
    sed -n 's/^      \([a-z;_]* *[a-z0-9]* .*\)/\1/p' | sort -u)
strict=$build/test/lib/strict_fabric.so
if [ -e "$strict" ]; then
    run 0 env LD_PRELOAD="$strict" STRICT_FABRIC=opx PAMI_OFI_INTERFACE=lo \
        "$build/bin/pami_info" --devices
    grep -q '^ *opx .*chosen: hardware, without order$' "$scratch/out" || complain 'not opx'
    run 0 env LD_PRELOAD="$strict" STRICT_FABRIC=cxi PAMI_OFI_INTERFACE=lo "$pamirun" -n 4 \
        "$build/bin/pami_info" --devices
    for adapter in cxi0 cxi1; do
        [ "$(grep -c "^ *cxi  *$adapter  *chosen" "$scratch/out")" = 2 ] || complain "not $adapter"
    done
fi
[ $tried -gt 0 ] || skip 'libfabric has no provider here'
echo "$tried providers"
finish
