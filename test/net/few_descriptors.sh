#!/bin/bash
# Tasks that may open too few descriptors end, whatever it is that cannot be opened, and say why.
# Where it is the other one that cannot accept a connection, only silence tells. Where they may have
# more than they have asked for, they take that.
# Run: timeout=200

. "$(dirname "$0")/functions"

need_module
limit=60
export PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=1
worked=0
told=0
for ((few = 12; few < 100 && worked < 3; few += 3)); do
    what="$few descriptors"
    timeout --foreground -k 2 $((limit * factor)) "$pamirun" -n 3 --nodes 3 sh -c "ulimit -n $few && exec \"\$0\"" \
        "$build/test/api/coll_calls" >"$scratch/out" 2>"$scratch/err"
    case $? in
    0) worked=$((worked + 1)) ;;
    124) complain 'does not end' ;;
    *)
        grep -qE 'Too many open files|cannot be made|cannot open|has gone' "$scratch/err" ||
            complain 'does not say why'
        ! grep -q 'error: .*Too many open files' "$scratch/err" || told=$((told + 1))
        ;;
    esac
done
[ $worked = 3 ] || complain 'not enough for 3 tasks'
[ $told -gt 0 ] || complain 'nobody lacked descriptors'
[ "$(ulimit -Hn)" != unlimited ] && [ "$(ulimit -Hn)" -lt 1024 ] ||
    run 0 "$pamirun" -n 3 --nodes 3 sh -c "ulimit -Sn 24 && exec \"\$0\"" \
        "$build/test/api/coll_calls"
finish
