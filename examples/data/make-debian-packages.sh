#!/bin/sh
# Makes a table of numbers about packages from the package index of a Debian system.
#
# Usage: make-debian-packages.sh [-i INDEX] [-s SECTION,SECTION...] [-o FILE]
#   -i INDEX     a file in the format of `apt-cache dumpavail` (default: ask apt-cache itself)
#   -s SECTIONS  the packages wanted (default: math,science)
#   -o FILE      default: debian-packages.tsv beside this script
#
# A row has the package's name, its size when installed (KiB), the size of its archive (bytes), the
# number of clauses of Depends and Pre-Depends, and the length of its version string. Rows are sorted
# by name in the C locale. Packages without a size are left out.
# Needs sh, awk and sort, and the apt lists of the system (`apt-get update`) unless -i is given.
set -eu
LC_ALL=C
export LC_ALL

index='' sections=math,science file=$(dirname "$0")/debian-packages.tsv
while getopts i:s:o: option; do
    case $option in
    i) index=$OPTARG ;;
    s) sections=$OPTARG ;;
    o) file=$OPTARG ;;
    *) sed -n '4,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

# shellcheck disable=SC1091 # there at run time, or not at all
release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-unknown}" || echo unknown)
{
    echo "# Debian packages of the sections $sections; see README.md."
    echo "# Debian $release, index of $(date -u +%Y-%m-%d)."
    echo "# name, installed KiB, archive bytes, clauses of dependencies, characters of the version"
    if [ -n "$index" ]; then cat "$index"; else apt-cache dumpavail; fi | awk -v sections="$sections" '
        BEGIN { n = split(sections, list, ","); for (i = 1; i <= n; i++) wanted[list[i]] = 1 }
        function finish() {
            if (package != "" && section in wanted && !(package in seen) && installed && size) {
                seen[package] = 1
                print package "\t" installed "\t" size "\t" clauses "\t" version
            }
            package = section = ""; installed = size = clauses = version = 0
        }
        /^Package: /           { finish(); package = $2 }
        /^Section: /           { section = $2; sub(/.*\//, "", section) }
        /^Installed-Size: /    { installed = $2 }
        /^Size: /              { size = $2 }
        /^Version: /           { version = length($2) }
        /^(Pre-)?Depends: /    { sub(/^[^ ]* /, ""); clauses += split($0, list, ",") }
        END                    { finish() }
    ' | sort
} > "$file"
echo "$file: $(grep -vc '^#' "$file") packages"
