#!/bin/bash
# Messages of all protocols over each libfabric provider that this machine has.
#
# Run: timeout=240
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi
tried=0
while read -r provider domain rest; do
    [ "$domain" = lo ] || [ "$domain" = shm ] || continue
    PAMI_OFI_PROVIDER=$provider run 0 "$pamirun" -n 2 --nodes 2 "$build/test/net/stream" \
        --end 2 --limit 30
    grep -q ' messages came, 0 operations failed' "$scratch/out" || complain "$provider: ${rest:-}"
    tried=$((tried + 1))
done < <(PAMI_OFI_INTERFACE=lo "$build/bin/pami_info" --devices |
    sed -n 's/^      \([a-z;_]* *[a-z0-9]* .*\)/\1/p' | sort -u)
[ $tried -gt 0 ] || skip 'libfabric has no provider here'
echo "$tried providers"
finish
