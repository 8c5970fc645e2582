#!/bin/bash
# A task dies, in every way, and the job goes on: the others notice in time, what they had to do with
# it ends once and for all, and among themselves they work as before.
#
# The argument chooses ways by the first word of their names.
#
# Run: args="kill" timeout=120
# Run: args="exit quick abort fault term" timeout=120
# Run: args="leave stop all before" timeout=120

. "$(dirname "$0")/functions"

# chosen SET CLEAR WORD...: like ways, of those whose names start with one of the words
chosen() {
    local set=$1 clear=$2 name
    shift 2
    for name in $(ways "$set" "$clear"); do
        [[ " ${*:-${name%%-*}} " != *" ${name%%-*} "* ]] || echo "$name"
    done
}

# repeat WAY TIMES DONE: with as many seeds, 3 or 4 tasks; the victim is the last one or the first
repeat() {
    local seed first
    for ((seed = 1; seed <= $2; seed++)); do
        first=
        [ $((seed % 3)) != 0 ] || first=--victim-first
        job "$(status_of "$1")" "$3" -n $((3 + seed % 2)) --keep-going -- \
            --way "$1" --seed $seed $first
    done
}

for way in $(chosen 0 $((LEAVES | RETURNS | EVERYBODY | START | ENDLESS)) "$@"); do
    case $way in
    kill-anywhere | kill-between-sends | kill-in-flood) repeat "$way" 20 2 ;;
    exit-in-advance | exit-sending) repeat "$way" 10 2 ;;
    *) repeat "$way" 4 2 ;;
    esac
done
for way in $(chosen $LEAVES 0 "$@"); do
    repeat "$way" 2 2
done
for way in $(chosen $RETURNS 0 "$@"); do
    repeat "$way" 3 3
done
for way in $(chosen $EVERYBODY 0 "$@"); do
    repeat "$way" 6 3
done

# Who seldom advances must not notice late.
for way in $(chosen 0 0 "$@"); do
    case $way in
    kill-in-remote | leave) job "$(status_of $way)" 2 -n 3 --keep-going -- --way $way --slow 1000 ;;
    esac
done

finish
