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
for test in api/put api/get api/coll_calls api/send_sizes api/mem api/last_thread; do
    run 0 "$pamirun" -n 3 --no-aslr unshare $apart sh -c "$inside" sh "$build/test/$test"
done

echo '# ... and their ends are noticed'
run 0 "$pamirun" -n 3 unshare $apart sh -c "$inside" sh "$build/test/fault/coll_until"

echo '# ... also where no /proc tells that numbers are of several namespaces'
# One's own number is another task's number elsewhere, or that of a process that soon ends.
hidden='mount -t tmpfs none /proc && exec "$@"'
for inner in "$inside" 'exec "$@"'; do
    [ -z "${SANITIZE-}" ] || continue # does not start without /proc
    for test in api/put fault/coll_until; do
        run 0 "$pamirun" -n 3 --env LD_LIBRARY_PATH="$build/lib" unshare ${apart}m sh -c "$hidden" \
            sh sh -c "$inner" sh "$build/test/$test"
    done
done

echo '# the whole job in a namespace, with the /proc of another one'
run 0 unshare $apart "$pamirun" -n 3 "$build/test/api/last_thread"
# pamirun is process 2 here: what /proc shows as children of a process 2 are none of its own.
beside='"$0" -n 2 sh -c "(setsid sleep 1000 &); sleep 0.5" & job=$!
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done
    wait $job; echo "status $?, $(jobs -r | wc -l) go on" >&2'
run 0 unshare $apart bash -c "$beside" "$pamirun"
has err 'status 0, 12 go on'
lacks err 'cannot be killed'

echo '# no shared memory between network namespaces: an error at once, with the reason'
limit=20
run 1 "$pamirun" -n 2 unshare "${apart/pf/n}" "$build/examples/hello"
has err 'cannot join the segment of task 0: Connection refused; it has ended, or is in another'

echo '# nor between users'
# Tasks of this user and of another one. Who is user 0 of a namespace of its own has no other one,
# and others may not get at the build.
if setpriv --reuid 12345 --clear-groups ldd "$build/examples/hello" 2>/dev/null |
    grep -q /libpami; then
    run 1 "$pamirun" -n 2 sh -c 'exec setpriv --reuid $((12345 * PMI_RANK)) --clear-groups "$@"' \
        sh "$build/examples/hello"
    has err "cannot join the segment of task 0: Operation not permitted; it is another user's"
fi

echo '# a file system without /dev/null'
bare='mount -t tmpfs none /dev && exec "$@"'
run 125 unshare "${apart/pf/m}" sh -c "$bare" sh "$pamirun" -n 2 true
has err 'cannot give the tasks their input, /dev/null: No such file'

finish
