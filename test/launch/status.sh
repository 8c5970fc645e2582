#!/bin/bash
# The status of a job, the messages about failed tasks, and that all others are ended promptly.
# Run: timeout=90
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

# fail_one STATUS TASKS TASK ACTION: one task does something, all others sleep.
fail_one() {
    run "$1" "$pamirun" -n "$2" bash -c \
        "if [ \$PMI_RANK = $3 ]; then sleep 0.1; $4; fi; exec sleep 1000"
}

echo '# good ends'
run 0 "$pamirun" -n 5 true
is err ''
run 0 "$pamirun" -n 3 sh -c 'sleep 0.$PMI_RANK'
run 0 "$pamirun" -n 2 sh -c '[ $PMI_RANK = 0 ] || sleep 0.3' # the other one is not ended
for tasks in 1 2 3 5 13 64; do
    run 0 "$pamirun" -n $tasks echo x
    [ "$(wc -l <"$scratch/out")" = $tasks ] || complain "not $tasks lines"
done
run 0 "$pamirun" -n 256 true

echo '# statuses'
for status in 1 5 77 255; do
    start=$(now)
    fail_one $status 4 2 "exit $status"
    has err "pamirun: task 2 (pid "
    has err ") ended with status $status"
    [ "$(wc -l <"$scratch/err")" = 1 ] || complain 'more than one message'
    within 3000 "$start"
done
for signal in 9:Killed 11:Segmentation 15:Terminated 6:Aborted 8:Floating; do
    start=$(now)
    fail_one $((128 + ${signal%:*})) 3 1 "ulimit -c 0; kill -${signal%:*} \$BASHPID"
    has err "task 1 (pid "
    has err "was killed by signal ${signal%:*} (${signal#*:}"
    within 3000 "$start"
done

echo '# the worst of all'
run 9 "$pamirun" -n 4 --keep-going bash -c 'sleep 0.$((4 - PMI_RANK)); exit $((PMI_RANK * 3))'
[ "$(grep -c 'ended with status' "$scratch/err")" = 3 ] || complain 'not all failures told'
run 137 "$pamirun" -n 3 --keep-going bash -c '[ $PMI_RANK != 1 ] || kill -9 $$; exit 3'
start=$(now)
run 4 "$pamirun" -n 2 --keep-going bash -c '[ $PMI_RANK = 1 ] && sleep 0.5 && echo late; exit 4'
is out late

echo '# programs that cannot be run'
run 127 "$pamirun" -n 3 no-such-program-here
has err 'pamirun: no-such-program-here: No such file'
[ "$(wc -l <"$scratch/err")" = 1 ] || complain 'more than one message'
run 127 "$pamirun" ./no/such/program
run 126 "$pamirun" /
has err 'Permission denied'
touch "$scratch/plain"
run 126 "$pamirun" "$scratch/plain"
printf 'exit 5\n' >"$scratch/script" && chmod +x "$scratch/script" # without #!, as shells do
run 5 "$pamirun" "$scratch/script"

echo '# time limit'
start=$(now)
run 124 "$pamirun" -n 3 --timeout 0.3 sleep 1000
has err 'time limit of 0.3 s'
within 3000 "$start"
run 0 "$pamirun" --timeout 0 true
run 0 "$pamirun" --timeout 100 true
run 3 "$pamirun" --timeout 10 sh -c 'exit 3'
start=$(now)
run 124 "$pamirun" -n 2 --timeout 0.2 bash -c 'trap "" TERM INT; while :; do sleep 0.05; done'
within 4000 "$start"
run 124 "$pamirun" --timeout 0.2 --keep-going sleep 1000

echo '# tasks that will not end: asked, then made to'
start=$(now)
run 7 "$pamirun" -n 3 bash -c 'if [ $PMI_RANK = 1 ]; then sleep 0.2; exit 7; fi; trap "" TERM; while :; do sleep 0.05; done'
within 4000 "$start"
run 7 "$pamirun" -n 2 bash -c '[ $PMI_RANK = 1 ] && until [ -e '"$scratch/trapped"' ]; do sleep 0.02; done && exit 7
    trap "echo asked; exit 99" TERM; touch '"$scratch/trapped"'; while :; do sleep 0.05; done'
is out asked
start=$(now)
run 7 "$pamirun" -n 2 bash -c '[ $PMI_RANK = 1 ] && sleep 0.3 && exit 7; kill -STOP $$; sleep 1000'
within 3000 "$start"

echo '# abort by PMI'
raw=$build/test/launch/pmi_raw
init='cmd=init pmi_version=1 pmi_subversion=1'
for code in 1:1 7:7 200:200 256:255 -1:255 0:0 x:1; do
    start=$(now)
    run "${code#*:}" "$pamirun" -n 3 sh -c \
        "if [ \$PMI_RANK = 2 ]; then exec $raw '$init' '<' 'cmd=abort exitcode=${code%:*}' '!'; fi; exec sleep 1000"
    has err 'task 2 (pid '
    has err 'has aborted the job'
    within 3000 "$start"
done
run 7 "$pamirun" "$raw" 'cmd=abort exitcode=7' # and ends before it is ended, with another status
run 9 "$pamirun" -n 2 --keep-going sh -c "if [ \$PMI_RANK = 0 ]; then exec $raw 'cmd=abort exitcode=9'; fi; exec sleep 1000"

echo '# abort by a program'
for keep in '' --keep-going; do
    start=$(now)
    run 7 "$pamirun" -n 3 $keep "$build/test/launch/abort" 7
    has err 'ending the job with status 7: told to'
    has err 'has aborted the job with status 7'
    within 3000 "$start"
done

echo '# broken sessions'
for line in hello 'key=1' 'cmd' '=1' '' 'cmd=get_maxes' "$(printf '\001')" "cmd=init $(printf '%9000s' x)"; do
    start=$(now)
    run 1 "$pamirun" -n 3 sh -c 'if [ $PMI_RANK = 1 ]; then exec "$0" "$1" "<" "!"; fi; exec sleep 1000' "$raw" "$line"
    has err 'task 1 (pid '
    has err 'does not keep to the PMI protocol'
    is out "$(grep -a '^cmd=protocol_error rc=-1' "$scratch/out")"
    within 3000 "$start"
done
run 1 "$pamirun" -n 2 "$raw" "$init" '<' cmd=barrier_in cmd=barrier_in '!'

echo '# a fence that cannot complete'
task=$build/test/unit/bootstrap_job
for when in 0 0.3; do
    start=$(now)
    run 1 "$pamirun" -n 3 sh -c "if [ \$PMI_RANK = 1 ]; then sleep $when; exit 0; fi; exec $task"
    has err 'the fence cannot complete: task_1_has_left_the_job'
    within 3000 "$start"
done
run 0 "$pamirun" -n 1 "$raw" "$init" '<' '.'
is out 'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0'
run 0 "$pamirun" -n 2 sh -c "if [ \$PMI_RANK = 0 ]; then exec $raw '$init' '<' cmd=barrier_in; fi; sleep 0.2; exec $raw '$init' '<' cmd=barrier_in '<'"
has out 'cmd=barrier_out rc=0'
run 0 "$pamirun" -n 3 --keep-going sh -c "if [ \$PMI_RANK = 1 ]; then exit 0; fi; exec $raw '$init' '<' cmd=barrier_in '<'"
[ "$(grep -c 'cmd=barrier_out rc=-1 msg=task_1_has_left_the_job' "$scratch/out")" = 2 ] || complain 'waiters not told'
run 3 "$pamirun" -n 3 --keep-going sh -c \
    "if [ \$PMI_RANK = 2 ]; then exit 3; fi; sleep 0.3; exec $raw '$init' '<' cmd=get_my_kvsname '<'"
has out 'cmd=my_kvsname'

echo '# one program after another in the same task'
run 0 "$pamirun" -n 3 sh -c "$task && $task && $task --print"

finish
