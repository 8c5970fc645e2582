#!/bin/bash
# Tasks that disagree about what they have to agree on do not understand each other, and say why.
#
# Run: timeout=120
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi
cat >"$scratch/differ" <<'DIFFER'
#!/bin/sh
[ "$PMI_RANK" = 0 ] || export "$1"
shift
exec "$@"
DIFFER
chmod +x "$scratch/differ"

# disagree NAME=VALUE TEXT
disagree() {
    what="$1 of one task"
    timeout --foreground -k 2 $((30 * factor)) "$pamirun" -n 2 --nodes 2 "$scratch/differ" "$1" \
        "$build/test/net/stream" --limit 20 >"$scratch/out" 2>"$scratch/err"
    grep -q 'gone after' "$scratch/out" || complain 'does not end'
    grep -q "task [01] cannot be talked to: $2" "$scratch/err" || complain 'does not say why'
}

disagree PAMI_OFI_PACKET_BYTES=4096 'its PAMI_OFI_PACKET_BYTES is [0-9]*, and this task.s [0-9]*'
disagree PAMI_NUM_CONTEXTS=4 'its PAMI_NUM_CONTEXTS is [0-9]*, and this task.s [0-9]*'
disagree 'PAMI_OFI_PROVIDER=tcp;ofi_rxm' 'it uses the provider [^ ]* and this task [^ ]* (PAMI_OFI_PROVIDER)'
finish
