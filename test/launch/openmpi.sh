#!/bin/bash
# Open MPI's mpirun starts programs that use PMIx: who is who, cards, fences, how jobs end.
# Run: timeout=300
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"
. "$(dirname "$0")/openmpi_functions"

job=$build/test/unit/bootstrap_job
for tasks in 1 2 5; do # the last one is more than the slots, which PMIx calls the universe's size
    run 0 "${mpirun[@]}" -n $tasks "$job"
    is out ''
    run 0 "${mpirun[@]}" -n $tasks "$job" --print
    [ "$(grep -c "^task ./$tasks node 0/1 local 0" "$scratch/out")" = $tasks ] || complain places
done
run 0 "${mpirun[@]}" -n 4 "$job" --fences 50
has out '50 fences of 4 tasks'
run 0 "${mpirun[@]}" -n 2 "$job" --signals
# Bound and not, which changes what PMIx has to say.
run 0 "${mpirun[@]}" --bind-to none -n 2 "$job"
run 0 "${mpirun[@]}" --bind-to core:overload-allowed -n 2 "$job"
# Two programs in one job.
run 0 "${mpirun[@]}" -n 1 "$job" --print : -n 2 "$job" --print
[ "$(grep -c '^task ./3 ' "$scratch/out")" = 3 ] || complain 'two programs are not one job'

# Messages.
run 0 "${mpirun[@]}" -n 3 "$build/test/api/order"
run 0 "${mpirun[@]}" -n 2 "$build/test/api/client_several"

# A pamirun inside a job of mpirun's is a job of its own.
run 0 "${mpirun[@]}" -n 2 "$pamirun" -n 3 "$job" --print
[ "$(grep -c '^task 2/3 ' "$scratch/out")" = 2 ] || complain 'nested jobs'

# Without libpmix each is a job of its own, and says why.
run 0 "${mpirun[@]}" -x PAMI_PMIX_LIBRARY=/nonexistent/libpmix.so -n 2 "$job" --print
[ "$(grep -c 'task 0/1 node 0/1 local 0' "$scratch/out")" = 2 ] || complain 'not two jobs of one'
has err 'libpmix cannot be opened'
run 0 "${mpirun[@]}" -x PAMI_BOOTSTRAP=single -n 2 "$job" --print
[ "$(grep -c 'task 0/1 node 0/1 local 0' "$scratch/out")" = 2 ] || complain 'not two jobs of one'

# What a launcher that has gone has left in the environment.
run 0 env PMIX_NAMESPACE=gone PMIX_RANK=0 "$job" --print
has out 'task 0/1 '
has err 'PMIx_Init'
has err 'running as one task'
run 0 env PMIX_NAMESPACE=gone PMIX_RANK=0 PAMI_BOOTSTRAP=single "$job"
is err ''
run 1 env PMIX_NAMESPACE=gone PMIX_RANK=0 PAMI_BOOTSTRAP=pmix "$job"
has err 'PMIx_Init'

# Ends.
ends 7 "${mpirun[@]}" -n 3 "$job" --abort 7
has err 'told to'
ends 137 "${mpirun[@]}" -n 3 "$job" --die 9
ends 3 "${mpirun[@]}" -n 3 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exit 3; exec "$0" --linger' "$job"
# With recovery survivors go on, and their fence comes to an end.
ends any "${mpirun[@]}" --mca orte_enable_recovery 1 -x JOB_GOES_ON=1 -x PAMI_BOOTSTRAP_TIMEOUT=3 \
    -n 3 "$job" --die 9
[ "$(grep -c 'survives' "$scratch/out")" = 2 ] || complain 'not two survivors'

# Who kills mpirun kills the job. Its pipes go with it, hence the file.
# The first process of a namespace, as each task is in a container, no signal of its own ends.
for own in '' 'unshare -pf --mount-proc'; do
    [ -z "$own" ] || $own true 2>/dev/null || continue
    what="mpirun killed $own"
    : >"$scratch/err"
    # shellcheck disable=SC2016
    "${mpirun[@]}" -n 3 sh -c 'echo "task $$"; exec $2 "$0" --linger 2>>"$1"' "$job" \
        "$scratch/err" "$own" >"$scratch/out" &
    launcher=$!
    await test_lines 3 '^pid '
    pids=$(sed -n 's/^task //p' "$scratch/out")
    kill_tree KILL "$launcher"
    # shellcheck disable=SC2086
    await gone $pids
    has err 'PAMI_END_WITH_LAUNCHER'
    wait "$launcher" 2>/dev/null
done
finish
