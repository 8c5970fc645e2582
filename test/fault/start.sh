#!/bin/bash
# A task dies or is late while the others start up: creating a client fails in time and says why,
# or works.
#
# Run: timeout=120

. "$(dirname "$0")/functions"

export PAMI_BOOTSTRAP_TIMEOUT=10

for way in $(ways $START 0); do
    times=2
    [ "$way" != in-client ] || times=25
    for ((seed = 1; seed <= times; seed++)); do
        first=
        [ $((seed % 2)) = 0 ] || first=--victim-first
        job "$(status_of "$way")" 2 -n 3 --keep-going -- --way "$way" --seed $seed $first
        ! grep 'task [0-9]*: *$' "$scratch/err" || complain 'an error without a text'
    done
    # Without --keep-going a death ends the job, and a task that just leaves does not.
    status=$(status_of "$way")
    [ "$status" = 0 ] && job 0 2 -n 3 -- --way "$way" || job "$status" 0 -n 3 -- --way "$way"
done

# Where files may not be as large as the segment that is an error with a text, not a signal.
what="limited files"
(ulimit -f 1000 && "$pamirun" -n 2 "$build/examples/hello") >"$scratch/out" 2>"$scratch/err"
[ $? = 1 ] && grep -q "cannot make a segment of .*File too large" "$scratch/err" ||
    complain "a segment larger than files may be"
# Said by the library as well, as the program may be ended before it does.
grep -q "error: device shm: cannot make a segment of .*ulimit -f" "$scratch/err" ||
    complain "the cause is not said"

# Nobody has left where one is late.
what="a late task"
PAMI_BOOTSTRAP_TIMEOUT=1 "$pamirun" -n 3 sh -c '[ "$PMI_RANK" != 2 ] || sleep 30; exec "$1"' - \
    "$build/examples/hello" >"$scratch/out" 2>"$scratch/err"
[ $? = 1 ] && grep -q "no answer to .* within 1 s" "$scratch/err" &&
    grep -q "did not meet during start-up: Connection timed out" "$scratch/err" ||
    complain "a wrong cause"

what="a segment larger than the address space"
PAMI_SHM_RING_SLOTS=1048576 PAMI_SHM_CHUNKS=1048576 PAMI_SHM_CHUNK_BYTES=16M \
    "$pamirun" -n 2 "$build/examples/hello" >"$scratch/out" 2>"$scratch/err"
[ $? = 1 ] && grep -q "cannot map a segment of .*PAMI_SHM_CHUNKS" "$scratch/err" ||
    complain "no address space"

finish
