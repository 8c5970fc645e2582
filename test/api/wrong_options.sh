#!/bin/bash
# A value that makes no sense: for each option a warning, or an error of the call that needs it,
# which names the option; the program runs on with the default.
# Run: timeout=120

build=${BUILD:-build}
pamirun=${PAMIRUN:-build/bin/pamirun}
failures=0

complain() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# The names of those that the table says to be numbers or choices.
select='/^  PAMI_/{N;/\n +([a-z0-9]|power)/s/^  (\w+).*/\1/p}'

# Numbers and choices are looked at when a client is created.
tried=0
while read -r option; do
    tried=$((tried + 1))
    said=$(env "$option=-1x" "$pamirun" -n 2 --timeout 20 "$build/examples/hello" 2>&1) ||
        complain "$option: status $?: $said"
    [ "$(grep -c "warn: $option" <<<"$said")" = 1 ] || complain "$option: not said once: $said"
done < <("$build/bin/pami_info" --options | sed -nE "$select")
[ $tried -gt 40 ] || complain "only $tried options tried"

# Names and lists by those who use them.
async="$build/test/api/async_progress"
said=$(PAMI_ASYNC_CPUS=nonsense "$pamirun" -n 1 --timeout 20 "$async" 2>&1) &&
    complain 'PAMI_ASYNC_CPUS: no error'
grep -q "PAMI_ASYNC_CPUS: 'nonsense' is neither" <<<"$said" || complain "PAMI_ASYNC_CPUS: $said"
for option in PAMI_COLL_LEVELS PAMI_COLL_BROADCAST; do
    said=$(env "$option=nonsense" "$pamirun" -n 2 --timeout 20 "$build/test/api/coll_calls" 2>&1) ||
        complain "$option: status $?"
    [ "$(grep -c "warn: $option: 'nonsense' is" <<<"$said")" = 1 ] ||
        complain "$option: not said once: $said"
done
# Members on different nodes would not agree about these.
said=$(PAMI_COLL_LEVELS=node:1,package "$pamirun" -n 4 --nodes 3 --timeout 20 \
    "$build/test/api/coll_basic" 2>&1) || complain "node:1,package: status $?"
[ "$(grep -c "warn: PAMI_COLL_LEVELS: 'node:1,package' is" <<<"$said")" = 1 ] ||
    complain "node:1,package: not said once: $said"
[ $failures = 0 ]
