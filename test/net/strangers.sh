#!/bin/bash
# A port scanner and a sender of garbage work on a job while its tasks exchange messages: they get
# nowhere, and the job does not notice. It listens on the address that it uses and on no other, and
# a task of another job, with another key, is a stranger like any.
#
# Run: timeout=240
. "$(dirname "$0")/functions"

hosts 1
export PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=10.77.0.1
limit=120

what='garbage while messages flow'
pamirun=$(realpath "$pamirun")
# Two jobs at once, so that the scanner finds both.
for i in 1 2; do
    on 1 "$pamirun -n 2 --nodes 2 $build/test/net/stream --until $scratch/stop --limit 60" \
        >"$scratch/job.$i" 2>&1 &
    jobs[i]=$!
done
for _ in $(seq $((600 * factor))); do
    [ "$(grep -s streaming "$scratch"/job.? | wc -l)" = 4 ] && break
    sleep 0.1
done
on 1 "ss -Hltn" >"$scratch/listeners"
timeout $((120 * factor)) bash -c "$(declare -f on); scratch=$scratch; on 1 $build/test/net/garbage 10.77.0.1 1" \
    >"$scratch/out" 2>"$scratch/err" || complain 'somebody took a stranger for one of the job'
touch "$scratch/stop"
for i in 1 2; do
    wait "${jobs[i]}" || complain "job $i: $(tail -n 5 "$scratch/job.$i")"
done
open=$(sed -n 's/ open ports//p' "$scratch/out")
[ "${open:-0}" -ge 4 ] || complain "only ${open:-no} open ports were found: was there a job at all?"
grep -v ' 10\.77\.0\.1:' "$scratch/listeners" && complain 'listens on other addresses'
finish
