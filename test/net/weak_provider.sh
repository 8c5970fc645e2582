#!/bin/bash
# Providers that can do less than those which run here: a layer before libfabric
# (test/lib/weak_fabric.c) takes abilities away, and aborts who uses them all the same. Nothing is
# missing, and all comes in order, where messages overtake one another, where there are nothing but
# messages, where hardly anything can be injected or waited for, and where nobody says that a write
# has been delivered.
#
# Run: timeout=400
. "$(dirname "$0")/functions"

use_layer weak_fabric
export PAMI_OFI_INTERFACE=lo

# weakly WORDS PROGRAM...: two tasks over such a provider; the sums of what it saw are in messages,
# injected, late, remote, vague
weakly() {
    layered "$@"
    messages=$(seen messages) injected=$(seen injected) late=$(seen late)
    remote=$(seen remote) vague=$(seen vague)
}

streams() {
    weakly "$1" "$build/test/net/stream" --end 1 --limit 60
    grep -q ' messages came, 0 operations failed' "$scratch/out" || complain 'not all arrived'
    [ "$messages" -gt 0 ] || complain 'there were no messages'
}

# chosen WORDS TEXT: which provider is taken, and what it lacks
chosen() {
    run 0 env LD_PRELOAD="$build/test/lib/$layer.so" WEAK_FABRIC="$1" "$build/bin/pami_info" --devices
    grep -q "chosen: .*$2\$" "$scratch/out" || complain "not 'chosen: ...$2'"
}

chosen disorder ', without order'
chosen messages ', messages only'
least=disorder,messages,inject=16,contexts
for words in disorder $least; do
    streams $words
    for program in api/order api/immediate_flood api/send_sizes api/fence net/remote; do
        weakly $words "$build/test/$program"
        [ "$late" -gt 0 ] || complain 'nothing was overtaken'
    done
    [ $words = disorder ] || [ "$remote" = 0 ] || complain "$remote remote accesses"
    # Contexts come and go in the middle of that.
    weakly $words "$build/test/net/churn"
    [ "$late" -gt 0 ] || complain 'nothing was overtaken'
done
[ "$injected" = 0 ] || complain "$injected messages were injected"
for words in blind contexts inject=64; do
    streams $words
done
# Packets do what writes cannot.
weakly vague "$build/test/net/remote"
[ "$vague" -gt 0 ] && [ "$remote" -gt 0 ] || complain "$vague writes were refused, $remote accesses"
finish
