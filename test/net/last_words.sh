#!/bin/bash
# A task that has created its contexts anew sends much and dies; all of it is read before its death
# is reported.
#
# Run: timeout=60
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi PAMI_OFI_CREDITS=1024 PAMI_OFI_SEND_BUFFERS=1000
what='last words'
"$pamirun" -n 2 --nodes 2 --keep-going "$build/test/net/last_words" --die \
    >"$scratch/out" 2>"$scratch/err"
grep -q 'all came' "$scratch/out" || complain 'something did not come'
finish
