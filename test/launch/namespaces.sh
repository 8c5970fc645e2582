#!/bin/bash
# Tasks that have namespaces of their own, as a container for each task gives them.
# Run: timeout=200
# shellcheck disable=SC2016,SC2034,SC2154 # for the tasks' shell; variables of "functions"

. "$(dirname "$0")/functions"

apart=
for options in -pf -rpf; do
    [ -n "$apart" ] || ! unshare $options true 2>/dev/null || apart=$options
done
if [ -z "$apart" ]; then
    echo "namespaces cannot be made here"
    exit 77
fi
limit=60

echo '# process ids mean something else, or nothing, to the others'
# Each task has another number in its namespace; addresses are the same in all of them.
inside='i=0; while [ $i -lt $((PMI_RANK * 5)) ]; do /bin/true; i=$((i + 1)); done; "$@"; exit $?'
for test in api/put api/get api/coll_calls api/send_sizes api/mem; do
    run 0 "$pamirun" -n 3 --no-aslr unshare $apart sh -c "$inside" sh "$build/test/$test"
done

echo '# ... and their ends are noticed'
run 0 "$pamirun" -n 3 unshare $apart sh -c "$inside" sh "$build/test/fault/coll_until"

echo '# no shared memory between network namespaces: an error at once, with the reason'
limit=20
run 1 "$pamirun" -n 2 unshare "${apart/pf/n}" "$build/examples/hello"
has err 'cannot join the segment of task 0: Connection refused; it has ended, or is in another'

echo '# a file system without /dev/null'
bare='mount -t tmpfs none /dev && exec "$@"'
run 125 unshare "${apart/pf/m}" sh -c "$bare" sh "$pamirun" -n 2 true
has err 'cannot give the tasks their input, /dev/null: No such file'

finish
