#!/bin/bash
# Standard streams: passed through as they are, or with tags and whole lines; input for one task.
# Run: timeout=90
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

echo '# passed through'
run 0 "$pamirun" -n 1 sh -c 'printf "no newline"; echo error >&2'
is out 'no newline'
is err error
run 0 "$pamirun" -n 3 sh -c 'readlink /proc/self/fd/1'
is out "$(printf '%s\n' "$scratch/out" "$scratch/out" "$scratch/out")"
run 0 "$pamirun" --tag --no-tag echo x
is out x

echo '# tagged'
run 0 "$pamirun" -n 2 --tag sh -c 'echo out; echo error >&2; echo; printf rest'
[ "$(sort -s -k1,1 "$scratch/out")" = "$(printf '[0] out\n[0] \n[0] rest\n[1] out\n[1] \n[1] rest')" ] ||
    complain 'other lines'
[ "$(sort "$scratch/err")" = "$(printf '[0] error\n[1] error')" ] || complain 'other errors'
run 3 "$pamirun" --tag sh -c 'printf "last words"; exit 3'
is out '[0] last words'
has err 'ended with status 3'
run 137 "$pamirun" --tag sh -c 'printf "last words"; kill -9 $$'
is out '[0] last words'
run 0 "$pamirun" --tag sh -c 'printf "a\r\0b\n\n\n"'
[ "$(od -c "$scratch/out" | head -n 1)" = "$(printf '[0] a\r\0b\n[0] \n[0] \n' | od -c | head -n 1)" ] ||
    complain 'bytes changed'

echo '# whole lines, in order, none lost'
run 0 "$pamirun" -n 8 --tag sh -c 'i=0; while [ $i -lt 2000 ]; do echo "$PMI_RANK line $i"; i=$((i + 1)); done'
awk '{ if ($1 != "[" $2 "]" || $4 != next_line[$2]++ || NF != 4) bad++ }
     END { for (i = 0; i < 8; i++) if (next_line[i] != 2000) bad++; exit bad > 0 }' "$scratch/out" ||
    complain 'lines are mixed, lost or out of order'
# Pieces of lines, through one file for both streams and through a slow reader.
pieces='i=0; while [ $i -lt 60 ]; do printf "%s" "$PMI_RANK $i "; printf "%03000d" 0; echo " end"
        echo "$PMI_RANK $i error end" >&2; i=$((i + 1)); done'
what='both streams in one pipe'
"$pamirun" -n 4 --tag sh -c "$pieces" 2>&1 | { sleep 0.5; cat; } >"$scratch/out"
awk '{ if ($1 != "[" $2 "]" || $NF != "end" || NF != 5) bad++ } END { exit bad > 0 || NR != 480 }' "$scratch/out" ||
    complain 'lines are mixed or lost'
what='a slow reader'
"$pamirun" -n 3 --tag sh -c 'seq 1 200000' | { sleep 0.5; cat; } | sort | uniq -c | awk '$1 != 1' >"$scratch/out"
is out ''
"$pamirun" -n 3 --tag sh -c 'seq 1 200000' | { sleep 0.2; wc -l; } >"$scratch/out"
is out 600000
what='a long line'
"$pamirun" -n 2 --tag sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo' >"$scratch/out"
[ "$(tr -cd x <"$scratch/out" | wc -c)" = 6000000 ] || complain 'bytes lost'
[ "$(grep -vc '^\[[01]\] x*$' "$scratch/out")" = 0 ] || complain 'lines are mixed'

echo '# a reader that goes away, or never reads'
start=$(now)
what='head'
timeout $((10 * factor)) "$pamirun" -n 2 --tag sh -c 'yes' 2>/dev/null | head -n 3 >"$scratch/out"
[ "$(wc -l <"$scratch/out")" = 3 ] || complain 'not three lines'
within 5000 "$start"
mkfifo "$scratch/pipe"
# shellcheck disable=SC2217
sleep 1000 <"$scratch/pipe" &
reader=$!
for how in --tag --no-tag; do
    what="end of a job whose reader sleeps, $how"
    # shellcheck disable=SC2016 # for the task to expand
    env --default-signal=INT "$pamirun" -v -n 2 $how bash -c 'trap "" INT; yes & wait $!' \
        >"$scratch/pipe" 2>&1 &
    job=$!
    sleep 0.3
    start=$(now)
    kill -INT $job
    sleep 0.5
    kill -INT $job
    sleep 0.5
    [ $how = --no-tag ] || kill -INT $job # it waits for who reads the output of the tasks
    wait $job
    [ $? = 130 ] || complain "$how: wrong status"
    within 4000 "$start"
    start=$(now)
    what="a time limit, and a reader that sleeps, $how"
    "$pamirun" -n 2 --timeout 0.3 $how yes >"$scratch/pipe" 2>&1
    [ $? = 124 ] || complain "wrong status"
    within 4000 "$start"
done
kill $reader
wait $reader 2>/dev/null

echo '# nowhere to write'
what='a full disk'
"$pamirun" -n 1 --tag echo x >/dev/full 2>"$scratch/err"
[ $? = 125 ] || complain 'wrong status'
has err 'cannot write the output of the tasks: No space left on device'
for option in --help --version; do
    "$pamirun" $option >/dev/full 2>"$scratch/err"
    [ $? = 125 ] || complain 'wrong status'
    has err 'pamirun: cannot write: No space left on device'
done

echo '# many descriptors'
run 0 sh -c 'ulimit -S -n 64; exec "$0" -n 100 --tag sh -c "ulimit -n"' "$pamirun"
[ "$(sort -u "$scratch/out" | cut -d" " -f2 | sort -u)" = 64 ] || complain 'limit not given back'
[ "$(wc -l <"$scratch/out")" = 100 ] || complain 'not 100 tasks'

echo '# standard input'
for task in 0 2; do
    what="--stdin $task"
    seq 1 5 | timeout $((10 * factor)) "$pamirun" -n 3 --tag --stdin $task sh -c 'cat' >"$scratch/out" 2>"$scratch/err"
    is out "$(seq 1 5 | sed "s/^/[$task] /")"
done
what='--stdin none'
seq 1 5 | timeout $((10 * factor)) "$pamirun" -n 2 --stdin none cat >"$scratch/out" 2>"$scratch/err"
is out ''
what='default'
echo word | timeout $((10 * factor)) "$pamirun" -n 2 cat >"$scratch/out" 2>"$scratch/err"
is out word
what='closed streams'
timeout $((10 * factor)) "$pamirun" -n 2 "$build/test/unit/bootstrap_job" <&- >&- 2>&-
[ $? = 0 ] || complain 'fails'
timeout $((10 * factor)) "$pamirun" -n 2 --tag sh -c 'echo x' <&- >&-
[ $? = 0 ] || complain 'fails with --tag'

finish
