#!/bin/bash
# Signals to pamirun reach the tasks; a second interrupt kills; a terminal's keys work; pamirun's own
# death is the tasks' death.
# Run: timeout=90
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

# begin TASKS SCRIPT: starts a job in the background, as a shell with job control would, and waits
# until every task has written "ready".
begin() {
    local tasks=$1
    what="$2"
    shift
    : >"$scratch/out"
    # A background process of a script has INT and QUIT ignored; a job of a terminal has not.
    env --default-signal=INT,QUIT "$pamirun" -n "$tasks" bash -c "$@" >"$scratch/out" 2>"$scratch/err" &
    job=$!
    await eval "[ \$(grep -c ready $scratch/out) = $tasks ]"
}

# end STATUS: waits for it.
end() {
    local status
    wait "$job"
    status=$?
    [ "$status" = "$1" ] || complain "status $status instead of $1"
}

loop='echo ready; while :; do sleep 0.02; done'

echo '# forwarded once, to every task'
for signal in HUP USR1 USR2 TERM QUIT INT; do
    begin 3 "trap 'echo got $signal; exit 0' $signal; $loop"
    kill -$signal "$job"
    end 0
    [ "$(grep -c "got $signal" "$scratch/out")" = 3 ] || complain "$signal did not reach all"
    lacks err pamirun:
done
for signal in HUP:129 INT:130 QUIT:131 TERM:143 USR1:138; do
    start=$(now)
    begin 3 "ulimit -c 0; echo ready; exec sleep 1000"
    kill -"${signal%:*}" "$job"
    end "${signal#*:}"
    within 3000 "$start"
done
begin 2 "trap 'echo got' USR1 HUP; $loop" # and no end of the job
kill -USR1 "$job"
await grep -q got "$scratch/out"
kill -HUP "$job"
await eval "[ \$(grep -c got $scratch/out) -ge 3 ]"
kill -TERM "$job"
end 143

echo '# to what the tasks have started, too'
begin 2 'bash -c "trap \"echo inner; sleep 0.1; exit\" TERM; echo ready; while :; do sleep 0.02; done" & wait; wait'
kill -TERM "$job"
end 143
[ "$(grep -c inner "$scratch/out")" = 2 ] || complain 'the inner process was not told once'
inner='trap "echo inner; sleep 0.1; exit" TERM; echo ready; while :; do sleep 0.02; done'
export inner # an orphan in a session of its own, whose leader lives
begin 1 'setsid bash -c "(bash -c \"\$inner\" &); sleep 1000; :" & wait'
kill -TERM "$job"
end 143
[ "$(grep -c inner "$scratch/out")" = 1 ] || complain 'the orphan was not told once'

echo '# who insists'
for second in INT TERM QUIT; do
    begin 3 "trap 'echo stays' INT TERM QUIT; $loop"
    kill -INT "$job"
    await eval "[ \$(grep -c stays $scratch/out) = 3 ]"
    start=$(now)
    kill -$second "$job"
    end $((128 + $(kill -l $second)))
    has err 'pamirun: killing the job'
    [ "$(grep -c stays "$scratch/out")" = 3 ] || complain 'they were asked again'
    within 3000 "$start"
done

echo '# stop and go on'
begin 2 "$loop"
tasks=$(ps -o pid= --ppid "$job")
stopped() {
    local pid
    for pid; do
        grep -q ') T' "/proc/$pid/stat" || return 1
    done
}
kill -TSTP "$job"
await stopped "$job" $tasks
kill -CONT "$job"
await eval "! stopped $job"
for pid in $tasks; do
    await eval "! stopped $pid"
done
kill -TERM "$job"
end 143

echo '# ignored when pamirun was started so'
: >"$scratch/out"
(
    trap '' HUP
    exec "$pamirun" -n 2 bash -c 'echo ready; sleep 0.5; echo finished' >"$scratch/out" 2>"$scratch/err"
) &
job=$!
await eval "[ \$(grep -c ready $scratch/out) = 2 ]"
kill -HUP $job
end 0
[ "$(grep -c finished "$scratch/out")" = 2 ] || complain 'HUP was not ignored'
run 0 env --ignore-signal=CHLD "$pamirun" -n 2 true
run 3 env --ignore-signal=CHLD "$pamirun" -n 2 sh -c 'exit 3'
run 0 env --block-signal=USR1 "$pamirun" grep SigBlk /proc/self/status
is out "$(printf 'SigBlk:\t0000000000000200')"
run 0 "$pamirun" sh -c 'grep -E "Sig(Blk|Ign)" /proc/self/status'
is out "$(sh -c 'grep -E "Sig(Blk|Ign)" /proc/self/status')"

echo '# killed itself'
begin 5 "trap '' TERM INT HUP; $loop"
tasks=$(ps -o pid= --ppid "$job")
[ "$(echo $tasks | wc -w)" = 5 ] || complain 'no tasks'
kill -KILL "$job"
wait "$job" 2>/dev/null
await gone $tasks

echo '# a terminal'
if ! command -v script >/dev/null; then
    echo '  (not tried: no script)'
    finish
fi
# type KEYS COMMAND: in a terminal; the keys are typed when the tasks are ready
type_keys() {
    local keys=$1
    what=$2
    rm -f "$scratch/ready"
    {
        await test -e "$scratch/ready"
        sleep 0.2
        printf "$keys"
        sleep 1
    } | timeout -k 2 $((20 * factor)) script -qefc "$2" /dev/null >"$scratch/out" 2>"$scratch/err"
    status=$?
}
export scratch pamirun
type_keys '\003' '"$pamirun" -n 2 bash -c "touch $scratch/ready; exec sleep 1000"'
[ $status = 130 ] || complain "Ctrl-C: status $status"
type_keys 'some words\n\004' 'touch $scratch/ready; "$pamirun" -n 2 --stdin 1 sh -c "read a; echo \$PMI_RANK \$a"; exit 0'
has out '1 some words'
type_keys '\034' '"$pamirun" -n 2 bash -c "ulimit -c 0; touch $scratch/ready; exec sleep 1000"'
[ $status = 131 ] || complain "Ctrl-\\: status $status"
type_keys '' 'touch $scratch/ready; "$pamirun" -n 2 sh -c "test -t 1 && echo terminal"'
[ "$(grep -c terminal "$scratch/out")" = 2 ] || complain 'output is no terminal'
type_keys '' 'touch $scratch/ready; "$pamirun" --stdin none sh -c "read a || echo nothing"'
has out nothing

echo "# a shell with job control"
what="background, then foreground"
# shown COUNT EXPRESSION: the terminal has shown that many lines that end so
shown() {
    [ "$(tr -d "\\r" <"$scratch/out" | grep -c "$2\$")" = "$1" ]
}
echo "PS1='ready '" >"$scratch/rc"
: >"$scratch/out"
{
    await grep -q ready "$scratch/out"
    echo "$pamirun -n 2 cat &"
    await grep -q "\[1\] " "$scratch/out"
    echo fg
    await shown 1 "pamirun -n 2 cat" # and has given the terminal away
    echo typed words
    await shown 2 "typed words"
    printf "\\004"
    await eval "[ \$(grep -c ready $scratch/out) = 3 ]"
    echo exit
} 2>/dev/null | timeout -k 2 $((20 * factor)) script -qefc "bash --rcfile $scratch/rc -i" /dev/null \
    >"$scratch/out" 2>"$scratch/err"
shown 2 "typed words" || complain "no echo of what was typed"

finish
