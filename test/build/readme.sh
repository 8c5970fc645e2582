#!/bin/bash
# The program in README.md compiles as it stands and prints what README.md says.
# Run: timeout=60
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: the program would have to be built with sanitizers, too"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$top/README.md" >"$work/hello.c"
[ -s "$work/hello.c" ] || { echo "FAILED: README.md has no program"; exit 1; }
export PKG_CONFIG_PATH="$BUILD/lib/pkgconfig"
# shellcheck disable=SC2046
${CC:-gcc} -Wall -Werror "$work/hello.c" $("${PKG_CONFIG:-pkg-config}" --cflags --libs pami) \
    -Wl,-rpath,"$BUILD/lib" -o "$work/hello"
"$PAMIRUN" -n 3 "$work/hello" >"$work/output"
sort "$work/output"
[ "$(sort "$work/output")" = "task 0 heard: hello from task 1
task 0 heard: hello from task 2" ]
