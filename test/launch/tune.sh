#!/bin/bash
# pami_tune and the tables it writes: measuring, going on after an interruption, tables with lines
# that make no sense, one table for all tasks; pami_info --explain.
# Run: timeout=240
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

limit=90
tune=$build/bin/pami_tune
info=$build/bin/pami_info
program=("$build/examples/samplesort" 1000)
cd "$scratch" || exit 1

echo '# the command line'
run 0 "$tune" --help
has out 'Usage: pami_tune'
run 0 "$tune" --version
run 2 "$tune" --nonsense
has err "unknown argument '--nonsense'"
run 2 "$tune" -n 4,2
has err 'not ascending numbers'
run 2 "$tune" -n 2,
run 2 "$tune" -n -2
run 2 "$tune" --nodes 2,4
run 2 "$tune" --types barrier,nothing
has err "'nothing' is not a type"
run 2 "$tune" --bind everywhere
run 2 "$tune" -o
echo precious >kept
run 2 "$tune" --quick --types '' -o kept
has err 'nothing to measure'
run 2 "$tune" --quick -n 2 --nodes 3 -o kept
has err 'nothing to measure'
[ "$(cat kept)" = precious ] || complain 'a table has been replaced by nothing'
mkdir elsewhere
cp "$tune" elsewhere
printf '#!/bin/sh\nexit 3\n' >elsewhere/pamirun
chmod +x elsewhere/pamirun
run 1 elsewhere/pami_tune --quick -n 2 --types barrier,scan -o kept
has err 'barrier with 2 tasks ended with status 3'
has err 'nothing was measured'
[ "$(cat kept)" = precious ] || complain 'a table has been replaced by an empty one'
for option in '-n 4' '--types barrier' --again --built-in; do
    # shellcheck disable=SC2086 # two words
    run 2 "$tune" --servers $option
    has err "${option% *} means nothing with --servers"
done
run 2 "$pamirun" -n 1 "$tune"
has err 'starts its jobs itself'

echo '# a table'
run 0 "$tune" --quick -n 2 --types barrier,scan -o table -v
has out 'cell scan 2 8 '
has out 'table: '
[ ! -e table.part ] || complain 'the part is still there'
grep -qE '^barrier [A-Za-z0-9-]+ 0- 2-3 one' table || complain "$(cat table)"
grep -qE "^scan [A-Za-z]+ 0-.* 2-3 one" table || complain "$(cat table)"
run 0 env PAMI_COLL_TABLE=table "$pamirun" -n 2 "${program[@]}"
lacks err warn
run 0 "$tune" --quick -n 2 --types barrier --built-in -o def
grep -qE '^MEASURED\(BARRIER, "[A-Za-z0-9-]+", 0, CHOICE_BYTES_MAX, 2, 3, ONE\)$' def ||
    complain "$(cat def)"
run 1 "$tune" --quick -n 2 --types barrier -o /nowhere/at/all

echo '# what a table does not replace'
mkdir directory
mkfifo fifo
ln -s fifo to_fifo
ln -s nothing to_nothing
for kind in '' --servers; do
    for file in directory fifo to_fifo to_nothing; do
        run 2 "$tune" $kind --quick -o $file
        has err "-o "
    done
done
[ -p fifo ] || complain 'the pipe has been replaced'
[ -z "$(find . -name '*.part' -o -name '*.new')" ] || complain 'files beside it'
touch target
ln -s target link
run 0 "$tune" --quick -n 2 --types barrier -o link
[ -L link ] || complain 'the link has been replaced'
grep -q '^barrier' target || complain 'its target has not'

echo '# servers'
run 0 "$tune" --servers --quick -o servers.table -v
has out 'servers pay in '
grep -qE '^(# no: )?put 8-511 1-7 ' servers.table || complain "$(cat servers.table)"
printf '%s\n' 'put 8- 1- 1-' 'nonsense' >>servers.table
run 0 env PAMI_SERVERS_TABLE=servers.table "$pamirun" -n 2 "$build/test/api/servers" 1 1
has err 'makes no sense'
lacks err 'cannot be read'
run 0 env PAMI_SERVERS_TABLE=missing "$pamirun" -n 2 "$build/test/api/servers" 1 1
has err 'missing cannot be read: No such file or directory'

echo '# going on'
mkdir more.new # so that the table cannot be written, as if it had been interrupted before that
run 1 "$tune" --quick -n 2 --types barrier -o more
[ "$(tail -n 1 more.part)" = '1 done barrier 2' ] || complain "$(cat more.part)"
rmdir more.new
{
    head -n 1 more.part
    printf '%s\n' '1 cell barrier 2 0 Tree2 1.000 2.000' '1 done barrier 2' 'nonsense' \
        '1 cell scan 2 8 Linear 1.000 2.000' '1 cell allreduce 2 16384 Ring 1.000 2.000'
    printf '1 done allred'
} >part && mv part more.part
run 0 "$tune" --quick -n 2 --types barrier,scan -o more
has err '1 of 2 measurements are there already'
has out 'more: '
grep -qE '^barrier Tree2 0- 2-3 one  # 0 bytes, 2 tasks: 1.00 us instead of 2.00$' more ||
    complain "$(cat more)"
grep -q "^scan " more || complain "$(cat more)"
lacks err allreduce
mkdir more.new
run 1 "$tune" --quick -n 2 --types barrier -o more
rmdir more.new
run 0 env PAMI_NETWORK=ofi "$tune" --quick -n 2 --types barrier -o more # lines for nodes would differ
lacks err 'already'
has err 'more.part is of other settings'
echo 'pami_tune of another machine' >more.part
run 0 "$tune" --quick -n 2 --types barrier -o more
has err 'more.part is of other settings'
echo precious >more.part
run 1 "$tune" --quick -n 2 --types barrier -o more
has err 'more.part: is in the way'
[ "$(cat more.part)" = precious ] || complain 'a file that is no part has been replaced'

echo '# one table for all, whoever has it'
cat >ring <<'END'
# comment
allreduce Ring 0- 2-
allreduce Rign 0- 2-
alltoall Pairwise 0-4K 2-
END
counts() # what ran, of all tasks
{
    sed -n 's/.*collectives: \(all[a-z]* [RP][a-z]*\).*/\1/p' "$scratch/err" | sort | uniq -c |
        tr -s ' \n' ' '
}
all=" 3 allreduce Ring 3 alltoall Pairwise "
run 0 env PAMI_STATS=1 PAMI_COLL_TABLE=ring "$pamirun" -n 3 "${program[@]}"
[ "$(counts)" = "$all" ] || complain "$(counts)"
has err "PAMI_COLL_TABLE: ring:3: 'Rign' is not an algorithm of allreduce; did you mean Ring?"
[ "$(grep -c 'ring:3:' "$scratch/err")" = 1 ] || complain 'not said once'
run 0 env PAMI_STATS=1 "$pamirun" -n 3 sh -c \
    '[ $PMI_RANK != 0 ] || export PAMI_COLL_TABLE=ring; exec "$@"' sh "${program[@]}"
[ "$(counts)" = "$all" ] || complain "task 0 only: $(counts)"
run 0 env PAMI_STATS=1 PAMI_COLL_TABLE=ring "$pamirun" -n 3 --nodes 2 sh -c \
    '[ $PMI_RANK != 0 ] || unset PAMI_COLL_TABLE; exec "$@"' sh "${program[@]}"
counts | grep -qE 'Ring|Pairwise' && complain "without task 0: $(counts)"
run 0 env PAMI_COLL_TABLE=missing "$pamirun" -n 3 "${program[@]}"
has err 'missing cannot be read: No such file or directory; using what is built in'
[ "$(grep -c 'cannot be read' "$scratch/err")" = 1 ] || complain 'not said once'
run 0 env PAMI_COLL_TABLE=. "${program[@]}"
has err 'not a regular file'
for i in $(seq 3000); do echo "allreduce RecursiveDoubling $((i + 1000000)) 2-100 several"; done >long
run 0 env PAMI_COLL_TABLE=long "$pamirun" -n 3 "${program[@]}"
has err 'too many lines: from line'

echo '# why'
run 0 env PAMI_COLL_TABLE=ring "$info" --algorithms --explain allreduce:8:16 --explain=alltoall:8K:4
has out 'allreduce, 8 bytes, 16 members on 1 node:'
has out 'table, line 2            Ring                     TAKEN'
has out 'table, line 4            Pairwise                 no: up to 4096 bytes'
lacks out 'TAKEN: In each step'
run 0 "$info" --explain allreduce:64K:16:4
has out 'Shared                   no: needs members on one node'
run 0 env PAMI_COLL_REDUCE=Shared PAMI_COLL_SHARED_BYTES=1M "$info" --explain reduce:8:16
has out 'PAMI_COLL_SHARED_BYTES allows 1048576, so over messages:'
list=$(seq -s , -f 'Ring:%g-' 1000 1020)
run 0 env PAMI_COLL_ALLREDUCE="$list" "$info" --options
has out " $list "
run 1 "$info" --explain allredcue:8:16
has err 'did you mean allreduce?'
run 2 "$info" --explain

finish
