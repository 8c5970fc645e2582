#!/bin/sh
# What `make demo` runs: breadth-first search by active messages, over a real graph and a generated
# one, each search compared with a sequential one. Takes a few seconds; fails when anything fails.
#
# Usage: [BUILD=DIR] scripts/demo.sh
#   BUILD  where the library, pamirun and the examples were built (default: build)
set -u
cd "$(dirname "$0")/.." || exit 1

build=${BUILD:-build}
pamirun=$build/bin/pamirun
bfs=$build/examples/bfs
data=examples/data/debian-science
for program in "$pamirun" "$bfs"; do
    if [ ! -x "$program" ]; then
        echo "demo: $program is not there; build it first (make all)" >&2
        exit 1
    fi
done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
: > "$work/results"

# run TITLE PAMIRUN-OPTIONS... -- BFS-OPTIONS...
# Shows the command and its output, and keeps the line that it prints for scripts.
run()
{
    title=$1
    shift
    launch=''
    while [ "$1" != -- ]; do
        launch="$launch $1"
        shift
    done
    shift
    printf '\n== %s\n$ pamirun%s bfs %s\n' "$title" "$launch" "$*"
    # The status of a pipe's left side has to travel through a file in plain sh.
    # shellcheck disable=SC2086 # the options of pamirun are words
    { "$pamirun" --timeout 120 $launch "$bfs" "$@"; echo $? > "$work/status"; } |
        tee "$work/output" | grep -v '^result:'
    grep '^result:' "$work/output" >> "$work/results"
    status=$(cat "$work/status")
    if [ "$status" -ne 0 ]; then
        echo "demo: failed with status $status: $title" >&2
        exit 1
    fi
}

echo "Breadth-first search by active messages. The graph is distributed over the tasks; every"
echo "visit of a vertex is sent to the task that owns it, many of them in one message. Each search"
echo "is validated against a sequential one."

run "Debian packages that depend on each other, 4 tasks: how far is everything from libc6?" \
    -n 4 -- --file "$data.edges" --names "$data.names" --root libc6 --roots 8
run "The same with the tasks spread over 2 pretended nodes" \
    -n 4 --nodes 2 -- --file "$data.edges" --names "$data.names" --root libc6 --roots 8
run "A Kronecker graph as in the Graph500 benchmark: 262,144 vertices, 4 million edges" \
    -n 4 -- --kronecker 18:16 --roots 8

printf '\n'
awk '
    BEGIN {
        form = "%-22s %5s %5s %9s %9s %5s %13s  %s\n"
        printf form, "graph", "tasks", "nodes", "vertices", "edges", "roots", "median MTEPS",
            "validated"
    }
    {
        for (i = 2; i < NF; i += 2)
            field[$i] = $(i + 1)
        printf form, field["graph"], field["tasks"], field["nodes"], field["vertices"],
            field["edges"], field["roots"], field["median_mteps"], field["validated"]
        bad += field["validated"] != "yes"
    }
    END { exit bad > 0 || NR != 3 }
' "$work/results"
