#!/bin/bash
# The test runner itself: what passes, what fails, what is cleaned up; and what is not there to run.
# Run: timeout=60
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
shm=/dev/shm/tap-test-$$
trap 'rm -rf "$work" "$shm"' EXIT
mkdir -p "$work/test/self" "$work/bin"
cd "$work"
unset TEST_FACTOR TEST_WRAP TEST_VERBOSE TEST_UNTIL

# A launcher that only shows how it was called.
printf '#!/bin/sh\necho launcher "$@"\n' >bin/pamirun
chmod +x bin/pamirun
export BUILD="$work" PAMIRUN="$work/bin/pamirun" TAP_SHM="$shm"

cat >test/self/cases.sh <<'END'
# Run: args="pass"
# Run: args="fail"
# Run: args="skip"
# Run: args="hang" timeout=1
# Run: args="child"
# Run: args="daemon"
# Run: args="shm"
# Run: args="signal"
# Run: args="env" env="ONE=1 TWO=2"
echo "this is $1"
case $1 in
fail) printf 'FAILED: false x\n  nothing but x\n'; exit 3 ;;
skip) echo "SKIP: no network here"; exit 77 ;;
hang) trap '' TERM; sleep 100 ;;
child) sleep 101 & ;;
daemon) setsid sleep 102 & sleep 0.2 ;;
shm) : >"$TAP_SHM" ;;
signal) kill -9 $$ ;;
env) [ "$ONE$TWO$LC_ALL" = 12C ] && case ${TMPDIR-} in *\ *) false ;; esac ;;
esac
END
printf '/*\n * Run: tasks=1,4 nodes=1,2,8 args="-x" timeout=7\n */\n' >test/self/matrix.c
printf '/* Run: tasks=many */\n' >test/self/wrong.c
printf '#!/bin/sh\nexit 0\n' >test/self/plain
printf '/* no run line */\n' >test/self/plain.c
chmod +x test/self/plain

status=0
mkdir "a blank"
LC_ALL=nowhere TMPDIR="$work/a blank" TEST_REASONS=$work/reasons \
    "$top/test/tap" test/self/cases.sh >out 2>&1 || status=$?
cat out
[ "$status" -eq 1 ]

expect()
{
    grep -qE "$1" "${2:-out}" || { echo "FAILED: nothing like: $1"; exit 1; }
}

expect '^1\.\.9$'
expect '^ok 1 - self/cases pass \([0-9.]+ s\)$'
expect '^not ok 2 - self/cases fail'
expect '^# this is fail$'
expect '^# \*\*\* ended with status 3$'
expect '^self/cases fail: ended with status 3; nothing but x: false x$' reasons
expect '^self/cases signal: ended by signal 9; no word' reasons
expect '^ok 3 - .* # SKIP no network here$'
expect '^not ok 4 - .*hang'
expect '^# \*\*\* exceeded its time limit of 1 s$'
expect '^not ok 5 - .*child'
expect '^# \*\*\* left behind: process .*: sleep 101'
expect '^not ok 6 - .*daemon'
expect '^# \*\*\* left behind: process .*: sleep 102'
expect '^not ok 7 - .*shm'
expect "^# \*\*\* left behind: $shm$"
expect '^not ok 8 - .*signal'
expect '^# \*\*\* ended by signal 9$'
expect '^ok 9 - self/cases ONE=1 TWO=2 env '
for environment in /proc/[0-9]*/environ; do
    case $(readlink "${environment%environ}exe" || true) in
    */sleep) ;;
    *) continue ;;
    esac
    if tr '\0' '\n' <"$environment" 2>/dev/null | grep -q "^TAP_SHM=$shm$"; then
        echo "FAILED: ${environment%/environ} lives on"
        exit 1
    fi
done

TEST_VERBOSE=1 "$top/test/tap" test/self/matrix.c >out 2>&1
cat out
expect '^1\.\.3$'
expect '^ok 1 - self/matrix tasks=1 nodes=1 -x '
expect '^ok 3 - self/matrix tasks=4 nodes=2 -x '
expect "^# launcher -n 4 --nodes 2 --timeout 7 $work/test/self/matrix -x$"

"$top/test/tap" "$work/test/self/plain" >out
expect '^ok 1 - self/plain \('
"$top/test/tap" test/self/plain.c >out
expect '^ok 1 - self/plain \('
if "$top/test/tap" test/self/wrong.c >out 2>&1; then
    exit 1
fi
expect '^not ok 1 '
expect 'cannot understand: tasks=many'

TEST_UNTIL=1 "$top/test/tap" test/self/plain.c >out
expect '^1\.\.0 # SKIP out of time$'

# A socket that another user opens meanwhile is not left behind by a case.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$work"
    cp "$top/test/tap" runner
    mkfifo -m 666 begun opened
    printf 'echo >begun\nread -r line <opened\n' >test/self/other.sh
    perl -MSocket -e 'open my $begun, "<", "begun"; <$begun>;
        socket my $socket, AF_UNIX, SOCK_DGRAM, 0;
        bind $socket, pack_sockaddr_un("\0pami-other-$$") or die;
        open my $opened, ">", "opened"; print $opened "yes\n"; close $opened; sleep 40' &
    setpriv --reuid=65534 --clear-groups ./runner test/self/other.sh >out 2>&1 || true
    kill $!
    cat out
    expect '^ok 1 - self/other '
fi

# What is named and is no test is an error, also among others and where it is a directory.
for names in test/unit/none.c test/unit/coll_arithmetic 'test/build/tap.sh test/build'; do
    if make -n -C "$top" check TEST="$names" >out 2>&1; then
        echo "FAILED: make check TEST=$names"
        exit 1
    fi
    expect 'there is no test test/'
done
