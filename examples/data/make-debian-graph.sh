#!/bin/sh
# Makes the graph of "package A depends on package B" from the package index of a Debian system.
#
# Usage: make-debian-graph.sh [-i INDEX] [-s SECTION,SECTION...] [-o PREFIX]
#   -i INDEX     a file in the format of `apt-cache dumpavail` (default: ask apt-cache itself)
#   -s SECTIONS  the packages to start from (default: math,science); whatever they need,
#                directly or through others, belongs to the graph too
#   -o PREFIX    writes PREFIX.edges and PREFIX.names (default: debian-science beside this script)
#
# An edge comes from each clause of Depends and Pre-Depends; of the alternatives in a clause the
# first that is a package of the index counts. Vertices are numbered in the order of their names
# in the C locale, from 0, so line N+1 of the .names file is vertex N. Packages without any edge are
# left out.
# Needs sh, awk and sort, and the apt lists of the system (`apt-get update`) unless -i is given.
set -eu
LC_ALL=C
export LC_ALL

index='' sections=math,science prefix=$(dirname "$0")/debian-science
while getopts i:s:o: option; do
    case $option in
    i) index=$OPTARG ;;
    s) sections=$OPTARG ;;
    o) prefix=$OPTARG ;;
    *) sed -n '4,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The fields that matter, one "package section clause,clause,..." a line.
if [ -n "$index" ]; then cat "$index"; else apt-cache dumpavail; fi | awk '
    function finish() {
        if (package != "" && !(package in seen)) {
            seen[package] = 1
            gsub(/[ \t]/, "", depends)
            print package, section, depends
        }
        package = depends = ""; section = "none"
    }
    /^Package: /                   { finish(); package = $2 }
    /^Section: /                   { section = $2; sub(/.*\//, "", section) }
    /^(Pre-)?Depends: /            { sub(/^[^ ]* /, ""); depends = depends $0 "," }
    END                            { finish() }
' | sort > "$work/fields"

# The packages of the sections and all they need, as "package needed" with names.
awk -v sections="$sections" '
    BEGIN { n = split(sections, list, ","); for (i = 1; i <= n; i++) wanted[list[i]] = 1 }
    {
        known[$1] = 1; clauses[$1] = $3
        if ($2 in wanted && !($1 in reached)) { reached[$1] = 1; queue[++tail] = $1 }
    }
    END {
        for (head = 1; head <= tail; head++) {
            package = queue[head]
            n = split(clauses[package], clause, ",")
            for (i = 1; i <= n; i++) {
                m = split(clause[i], alternative, "|")
                for (j = 1; j <= m; j++) {
                    name = alternative[j]; sub(/[(:\[<].*/, "", name)
                    if (name in known) break
                }
                if (j > m || name == package || (package, name) in edge) continue
                edge[package, name] = 1
                print package, name
                if (!(name in reached)) { reached[name] = 1; queue[++tail] = name }
            }
        }
    }
' "$work/fields" > "$work/graph"

awk '{ print $1; print $2 }' "$work/graph" | sort -u > "$prefix.names"
awk 'NR == FNR { number[$1] = FNR - 1; next } { print number[$1], number[$2] }' \
    "$prefix.names" "$work/graph" | sort -k1,1n -k2,2n > "$work/edges"
vertices=$(wc -l < "$prefix.names")
edges=$(wc -l < "$work/edges")
# shellcheck disable=SC1091 # there at run time, or not at all
release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-unknown}" || echo unknown)
{
    echo "# Dependencies of Debian packages: a line \"u v\" says that package u needs package v."
    echo "# Packages of the sections $sections and everything these need."
    echo "# Debian $release, index of $(date -u +%Y-%m-%d); see README.md."
    echo "# $vertices vertices, $edges edges."
    cat "$work/edges"
} > "$prefix.edges"
echo "$prefix.edges: $vertices vertices, $edges edges"
