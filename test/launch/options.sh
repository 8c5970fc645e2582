#!/bin/bash
# Every option of pamirun, and every way to get the command line wrong.
# Run: timeout=60
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

echo '# what a task sees'
run 0 "$pamirun" -n 3 --stdin none sh -c 'echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS'
[ "$(sort "$scratch/out")" = "$(printf '%s\n' '0/3 0/3' '1/3 1/3' '2/3 2/3')" ] || complain environment
run 0 "$pamirun" -np 2 echo x
[ "$(wc -l <"$scratch/out")" = 2 ] || complain '-np'
run 0 "$pamirun" echo one
is out one
run 0 "$pamirun" -- echo -n
run 0 "$pamirun" -n 1 printf '%s ' -n 5 --help
is out '-n 5 --help '
run 0 "$pamirun" sh -c 'test -S /proc/self/fd/$PMI_FD'

echo '# nodes'
run 0 "$pamirun" -n 5 --nodes 2 sh -c 'echo $PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS'
[ "$(sort "$scratch/out" | tr '\n' ',')" = '0 0/3,1 1/3,2 2/3,3 0/2,4 1/2,' ] || complain 'uneven nodes'
run 0 "$pamirun" -n 4 --nodes=4 sh -c 'echo $PMI_RANK $MPI_LOCALRANKID/$MPI_LOCALNRANKS'
[ "$(sort "$scratch/out" | tr '\n' ',')" = '0 0/1,1 0/1,2 0/1,3 0/1,' ] || complain 'one each'
run 0 "$pamirun" -n 7 --nodes 3 "$build/test/unit/bootstrap_job" --print
[ "$(sort "$scratch/out" | sed -n '4p;6p')" = "$(printf '%s\n' \
    'task 3/7 node 1/3 local 3 4' 'task 5/7 node 2/3 local 5 6')" ] || complain 'node map'

echo '# environment'
run 0 env A=1 B=2 "$pamirun" --env A=3 --env C=x=y --env A=4 sh -c 'echo $A $B $C'
is out '4 2 x=y'
run 0 "$pamirun" --env E= sh -c 'echo "${E-unset}"'
is out ''
run 0 env PMI_FD=99 PMI_RANK=7 PMI_SIZE=9 PMI_PORT=x PMI_ID=1 PMIX_NAMESPACE=n PMIX_RANK=3 PMIX_MCA_x=1 \
    HYDI_CONTROL_FD=5 "$pamirun" sh -c 'env | grep -E "^(PMI|HYD)" | sort | grep -v PMI_FD'
is out "$(printf '%s\n' PMIX_MCA_x=1 PMI_RANK=0 PMI_SIZE=1)"
run 0 env HWLOC_COMPONENTS= "$pamirun" --bind core sh -c 'echo "$HWLOC_COMPONENTS"'
is out ''
run 0 "$pamirun" sh -c 'env | grep ^PAMI_ | grep -vx "PAMIRUN=.*"; true'
is out "$(env | grep ^PAMI_ | grep -v ^PAMIRUN=)"

echo '# binding'
cores=$(nproc)
run 0 "$pamirun" -n 2 --bind none sh -c 'taskset -p $$ >/dev/null && nproc'
is out "$(printf '%s\n%s' "$cores" "$cores")"
run 0 "$pamirun" -n $((cores + 3)) --bind core sh -c 'grep Cpus_allowed_list /proc/self/status'
has err 'tasks share'
[ "$(grep -c 'tasks share' "$scratch/err")" = 1 ] || complain 'not said once'
[ "$(sort -u "$scratch/out" | wc -l)" -le "$cores" ] || complain 'more places than cores'
run 0 "$pamirun" -n 3 --bind numa true
run 0 taskset -c 0 "$pamirun" -n 2 --bind core sh -c 'grep Cpus_allowed_list /proc/self/status | tr -dc 0-9'
is out 00

echo '# verbose'
run 0 "$pamirun" -v -n 2 --bind core true
has err 'task 1: pid'
has err 'bound to processors'
has err 'ended'

echo '# no address space randomisation'
if "$pamirun" --no-aslr true 2>/dev/null; then
    run 0 "$pamirun" -n 2 --no-aslr sh -c 'cat /proc/$$/personality'
    is out "$(printf '%s\n' 00040000 00040000)"
    run 0 "$pamirun" -n 2 --no-aslr grep -m 1 stack /proc/self/maps
    [ "$(cut -d' ' -f1 "$scratch/out" | cut -d- -f2 | sort -u | wc -l)" = 1 ] || complain 'stacks differ'
fi
run 0 "$pamirun" sh -c 'cat /proc/$$/personality'
is out 00000000

echo '# a small stack, of which the environment takes a part'
if [ -z "${SANITIZE-}" ]; then # which needs more
    run 0 env -i PATH="$PATH" prlimit --stack=20480 "$pamirun" -n 2 --tag echo x
    [ "$(wc -l <"$scratch/out")" = 2 ] || complain 'a small stack'
fi

echo '# help and version'
run 0 "$pamirun" --help
for option in -n -np --nodes --bind --env --timeout --tag --no-tag --keep-going --no-aslr --stdin \
    --verbose --help --version; do
    has out " $option" || has out ", $option"
done
is err ''
run 0 "$pamirun" --version
has out libpami
run 0 "$pamirun" -n 2 --help

echo '# wrong command lines'
wrong() {
    local word=$1
    shift
    run 2 "$pamirun" "$@"
    has err "$word"
    has err pamirun:
    is out ''
}
wrong 'no program'
wrong 'no program' -n 2
wrong 'no program' --
for option in -n -np --nodes --bind --env --timeout --stdin; do
    wrong "$option needs an argument" "$option"
done
for bad in 0 -1 x 1x '' 5000 99999999999999999999 1.5; do
    wrong "-n: '$bad'" -n "$bad" true
    wrong "--nodes: '$bad'" --nodes "$bad" true
done
wrong '--nodes' -n 2 --nodes 3 true
wrong '--nodes' --nodes 2 true
wrong "--bind: 'socket'" --bind socket true
wrong "--bind: ''" --bind= true
wrong "--env: 'A'" --env A true
wrong "--env: '=x'" --env =x true
wrong "--env: 'PMI_RANK=1'" --env PMI_RANK=1 true
wrong "--timeout: 'soon'" --timeout soon true
wrong "--timeout: '-1'" --timeout -1 true
wrong "--timeout: 'inf'" --timeout inf true
wrong "--stdin: 'some'" --stdin some true
wrong '--stdin' --stdin 1 true
wrong '--stdin' -n 2 --stdin -1 true
wrong 'unknown option --frob' --frob true
wrong 'unknown option -x' -x true
wrong 'unknown option -n4' -n4 true
wrong '--tag takes no argument' --tag=yes true
wrong 'unknown option -' - true

finish
