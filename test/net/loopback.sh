#!/bin/bash
# The programs of test/api that have cases on several nodes, over the ofi device instead of shared
# memory: between pretended nodes on the loopback interface.
#
# Run: timeout=600
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi
here=$(dirname "$0")/../api
cases=0

# key LINE NAME: the value of NAME= in a Run line
key() {
    sed -nE "s/.*[ *]$2=(\"([^\"]*)\"|([^ \"]*)).*/\2\3/p" <<<"$1"
}

for source in "$here"/*.c; do
    program=$build/test/api/$(basename "$source" .c)
    [ -x "$program" ] || continue
    while read -r line; do
        IFS=, read -ra tasks <<<"$(key "$line" tasks)"
        IFS=, read -ra nodes <<<"$(key "$line" nodes)"
        read -ra arguments <<<"$(key "$line" args)"
        read -ra settings <<<"$(key "$line" env)"
        for t in "${tasks[@]}"; do
            for n in "${nodes[@]}"; do
                [ "$n" -gt 1 ] && [ "$n" -le "$t" ] || continue
                timeout --foreground -k 2 $((60 * factor)) env "${settings[@]}" "$pamirun" -n "$t" \
                    --nodes "$n" "$program" "${arguments[@]}" \
                    >"$scratch/out" 2>"$scratch/err" </dev/null
                status=$?
                what="$(basename "$program") tasks=$t nodes=$n $(key "$line" args)"
                [ $status = 0 ] || [ $status = 77 ] || complain "status $status"
                cases=$((cases + 1))
            done
        done
    done < <(grep -hE '^ \* Run:.*nodes=' "$source")
done
what=loopback
[ $cases -gt 20 ] || complain "only $cases cases"
finish
