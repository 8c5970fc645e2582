#!/bin/bash
# A program built with MPICH, as it is, runs under pamirun.
# Run: timeout=120
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

mpicc=$(command -v mpicc.mpich) || { echo "skip: no MPICH compiler (mpicc.mpich)"; exit 77; }
cat >"$scratch/hello.c" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("hello from %d of %d, sum %d\n", rank, size, sum);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "abort") == 0 && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
END
run 0 "$mpicc" -o "$scratch/hello" "$scratch/hello.c"
[ $failures = 0 ] || { echo 'skip: MPICH cannot compile'; exit 77; }
for tasks in 1 2 3; do
    run 0 "$pamirun" -n $tasks "$scratch/hello"
    sum=$((tasks * (tasks - 1) / 2))
    [ "$(grep -c "^hello from [0-9]* of $tasks, sum $sum\$" "$scratch/out")" = $tasks ] ||
        complain 'wrong sums'
done
run 0 "$pamirun" -n 2 --nodes 2 "$scratch/hello"
run 7 "$pamirun" -n 2 "$scratch/hello" abort
has err 'task 1 (pid '
has err 'has aborted the job with status 7'
finish
