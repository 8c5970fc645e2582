#!/bin/bash
# What PAMI_STATS and PAMI_TRACE leave: whole lines of every task, and one file of valid JSON whose
# spans have ends, also of a process that ends without destroying anything; nothing of an earlier
# job; a warning where the file cannot be written. What is copied for other tasks is counted; a full
# heap says so.
# Run: timeout=120
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
pamirun=$BUILD/bin/pamirun
program=$BUILD/test/api/geometry_collective
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
    echo "FAILED: $*"
    exit 1
}

PAMI_STATS=1 "$pamirun" -n 3 "$program" >"$work/stats" 2>&1 || fail "with PAMI_STATS"
for task in 0 1 2; do
    grep -qE "^pami\[$task\] context 0: passes +[0-9]+\$" "$work/stats" || fail "task $task: none"
done
! grep -vE '^pami\[[0-2]\] context [0-9]+: [a-z].* +[0-9]+$' "$work/stats" || fail "broken lines"

# Whether one of two tasks has time to help the other is a matter of luck: four of five times.
jointly=no
for _ in {1..20}; do
    PAMI_STATS=1 PAMI_SHM_JOINT_COPY=on "$pamirun" -n 2 "$BUILD/test/api/joint" >"$work/joint" 2>&1 ||
        fail "with PAMI_SHM_JOINT_COPY"
    if grep -qE 'single copy: bytes for others +[1-9]' "$work/joint"; then
        jointly=yes
        break
    fi
done
[ $jointly = yes ] || fail "nothing was copied jointly"

# A heap without room says so, once, and one with room does not.
full='has no room for .* more: [0-9]+ bytes are taken, by [1-9][0-9]* blocks$'
PAMI_HEAP_BYTES=4M "$BUILD/test/api/mem" >"$work/heap" 2>&1 || fail "with PAMI_HEAP_BYTES"
[ "$(grep -cE "$full" "$work/heap")" = 1 ] || fail "a full heap says nothing, or too much"
"$pamirun" -n 2 "$BUILD/test/api/fence" >"$work/heap" 2>&1 || fail "fence"
! grep -q 'has no room' "$work/heap" || fail "a heap that is not full says so"

perl -MJSON::PP -e 1 2>/dev/null || { echo "SKIP: no JSON::PP"; exit 77; }
cat >"$work/look.pl" <<'END'
use strict;
use warnings;
use JSON::PP;

local $/;
my $events = decode_json(<STDIN>);
my ($jobs, %names, %sends, %dispatches, %open);

for my $event (@$events) {
    my $where = "$event->{pid}.$event->{tid}" if defined $event->{tid};
    if ($event->{ph} eq 'M') {
        $jobs++ if $event->{name} eq 'job';
        $names{$where}++ if $event->{name} eq 'thread_name';
        next;
    }
    $event->{ts} > 0 or die "no time";
    $names{$where} or die "no name for $where";
    $sends{$event->{pid}}++ if $event->{name} =~ /^send \d+$/;
    $dispatches{$event->{pid}}++ if $event->{name} =~ /^dispatch \d+$/ && $event->{dur} >= 0;
    my $id = "$event->{pid} " . ($event->{id2}{local} // '');
    push @{$open{$id}}, $event->{name} if $event->{ph} eq 'b';
    (pop @{$open{$id}} // '') eq $event->{name} or die "$id: end without begin"
        if $event->{ph} eq 'e';
}
$jobs == 1 or die "jobs: $jobs";
@{$open{$_}} == 0 or die "$_ has no end" for keys %open;
printf "contexts %d sends %d dispatches %d collectives %d\n", scalar(keys %names), scalar(keys %sends),
    scalar(keys %dispatches), scalar(keys %open);
END

trace=$work/trace.json
for job in first second; do
    PAMI_TRACE=$trace "$pamirun" -n 2 "$program" || fail "with PAMI_TRACE"
    found=$(perl "$work/look.pl" <"$trace") || fail "$job: the trace is not right"
    echo "$job: $found"
    case $found in
    "contexts 6 sends 2 dispatches 2 collectives "[1-9]*) ;;
    *) fail "$job: something is missing" ;;
    esac
done

# Few events are kept, and that is said.
rm "$trace"
PAMI_TRACE=$trace PAMI_TRACE_EVENTS=10 "$pamirun" -n 2 "$program" 2>"$work/text" ||
    fail "with few events"
grep -q 'events of context 0 are missing' "$work/text" || fail "nothing said of missing events"
perl -MJSON::PP -0777 -ne 'decode_json($_)' "$trace" || fail "few events: not JSON"

# Signals of the program come while its contexts wait for the file.
PAMI_TRACE=$trace "$pamirun" -n 4 "$BUILD/test/api/signals" 2>"$work/text" || fail "with signals"
[ ! -s "$work/text" ] || fail "with signals: $(head -n 1 "$work/text")"

PAMI_TRACE=$work/none/trace "$pamirun" -n 2 "$program" 2>"$work/text" ||
    fail "a trace that cannot be written ends the program"
grep -q 'PAMI_TRACE: .*: No such file' "$work/text" || fail "no word about the file"
