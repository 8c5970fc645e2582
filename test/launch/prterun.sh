#!/bin/bash
# PRRTE's prterun starts programs that use PMIx, where it is installed.
# Run: timeout=60
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

command -v prterun >/dev/null || { echo 'skip: no prterun'; exit 77; }
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
prterun=(timeout --foreground -k 1 $((15 * factor)) prterun --map-by :oversubscribe)
"${prterun[@]}" -n 2 true >/dev/null 2>&1 || { echo 'skip: prterun cannot start two tasks here'; exit 77; }
job=$build/test/unit/bootstrap_job
for tasks in 1 2 5; do
    run 0 "${prterun[@]}" -n $tasks "$job"
    run 0 "${prterun[@]}" -n $tasks "$job" --print
    [ "$(grep -c "^task ./$tasks node 0/1 local 0" "$scratch/out")" = $tasks ] || complain places
done
run 0 "${prterun[@]}" -n 3 "$build/test/api/order"
run 7 "${prterun[@]}" -n 3 "$job" --abort 7
finish
