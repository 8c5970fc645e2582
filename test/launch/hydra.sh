#!/bin/bash
# MPICH's mpiexec.hydra starts programs that use our connection, inherited or to a port; a program
# exits without a word to the launcher of its own, and the job still ends well.
# Run: timeout=60
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

hydra=$(command -v mpiexec.hydra) || { echo 'skip: no mpiexec.hydra'; exit 77; }
export HYDRA_LAUNCHER=fork
job=$build/test/unit/bootstrap_job
for model in "$hydra" "$hydra -pmi-port"; do
    for tasks in 1 2 5; do
        # shellcheck disable=SC2086 # words
        run 0 $model -n $tasks "$job"
        is out ''
        # shellcheck disable=SC2086
        run 0 $model -n $tasks "$job" --print
        [ "$(grep -c "^task ./$tasks node 0/1 local 0" "$scratch/out")" = $tasks ] || complain places
    done
    # What a launcher further up has left in the environment.
    # shellcheck disable=SC2086
    run 0 env PMI_FD=99 PMI_PORT=gone:1 PMI_ID=7 $model -n 2 "$job" --print
    [ "$(grep -c "^task ./2 node 0/1 local 0" "$scratch/out")" = 2 ] || complain another
done
run 0 "$hydra" -n 4 "$job" --fences 50
has out '50 fences of 4 tasks'

# A pamirun inside a job of hydra's is a job of its own.
run 0 "$hydra" -n 2 "$pamirun" -n 3 "$job" --print
[ "$(grep -c '^task 2/3 ' "$scratch/out")" = 2 ] || complain 'nested jobs'
finish
