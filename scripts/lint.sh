#!/bin/bash
# lint.sh FILE...: checks all C files given (and the scripts) against the rules of the house.
# Run by `make lint`, which builds the library first and sets the variables below.
#
# Every check prints what it found and the whole fails at the end, so that one run shows everything.
set -u
export LC_ALL=C.UTF-8

BUILD=${BUILD:-build}
CC=${CC:-gcc}
CXX=${CXX:-g++}
NM=${NM:-nm}
CLANG_FORMAT=${CLANG_FORMAT:-clang-format}
CPPCHECK=${CPPCHECK:-cppcheck}
HWLOC_CFLAGS=${HWLOC_CFLAGS:-}

LINES_MAX=600
FUNCTION_LINES_MAX=80
COLUMNS_MAX=100

files=("$@")
failures=0

# The files among "$@" of this run that lie in any of the given directories.
in_directories()
{
    local file directory
    for file in "${files[@]}"; do
        for directory in "$@"; do
            [[ $file == "$directory"/* ]] && echo "$file"
        done
    done
}

check_format()
{
    "$CLANG_FORMAT" --dry-run -Werror "${files[@]}" 2>&1 | grep -E '(error|warning):'
}

check_cppcheck()
{
    # Left to the compiler, which knows the formats and types better; or wrong about this system's
    # interfaces (readdir is safe on a stream of one's own, accept4 takes null pointers).
    local quiet=(missingIncludeSystem preprocessorErrorDirective unknownMacro internalAstError
        readdirCalled arrayIndexThenCheck wrongPrintfScanfArgNum invalidPrintfArgType_uint
        invalidPrintfArgType_sint)
    mkdir -p "$BUILD/cppcheck"
    # shellcheck disable=SC2046
    "$CPPCHECK" -q -j2 --cppcheck-build-dir="$BUILD/cppcheck" --enable=warning,portability \
        --std=c11 --library=posix --library=gnu --inline-suppr "${quiet[@]/#/--suppress=}" \
        -D__x86_64__ -D__GNUC__=12 -D__linux__ -D_GNU_SOURCE -Iinclude -Isrc \
        -D'accept4(a,b,c,d)=accept(a,b,c)' \
        --template='{file}:{line}: {severity}: {message} [{id}]' \
        $(in_directories src tools examples bench | grep '\.c$') 2>&1 | grep -v '^$'
}

# compiles COMPILER FLAGS... HEADER: says so when the header does not compile alone.
compiles()
{
    local header=${!#} errors
    errors=$(echo "#include \"$header\"" |
        "${@:1:$#-1}" -fsyntax-only -Wall -Wextra -Werror -Iinclude -I. - 2>&1) ||
        echo "$header: does not compile alone: $(grep -m 1 'error:' <<<"$errors")"
}

# Each header compiles alone: private ones as the library is compiled, public ones as strict C11
# and as C++17.  A header made to be included in the middle of something, with macros that its user
# defines, says "lint: not alone" in its head comment.
check_headers()
{
    local header
    while read -r header; do
        # shellcheck disable=SC2086
        grep -q 'lint: not alone' "$header" ||
            compiles $CC -x c -std=gnu11 -D_GNU_SOURCE -Isrc -Itest $HWLOC_CFLAGS "$header"
    done < <(in_directories src tools test bench examples | grep '\.h$' | grep -v '^bench/peer/')
    while read -r header; do
        # shellcheck disable=SC2086
        compiles $CC -x c -std=c11 -pedantic "$header"
        # shellcheck disable=SC2086
        compiles $CXX -x c++ -std=c++17 -pedantic "$header"
    done < <(in_directories include)
}

# Calls that a library must not make.  banned.h stops most of them from compiling.  One exit stands
# for that which the system would call by itself.
check_banned()
{
    local words='strcpy|strcat|sprintf|vsprintf|strtok|gets|alloca|abort|exit|system'
    in_directories src | grep -v '/banned\.h$' |
        xargs -r grep -nE "(^|[^A-Za-z0-9_>.])($words)[[:space:]]*\(" /dev/null |
        grep -vE '^[^:]*:[0-9]+:[[:space:]]*(\*|/\*)|^src/client/last_thread\.c:.*[^a-z]exit\(0\)'
}

check_size()
{
    awk -v lines="$LINES_MAX" -v body="$FUNCTION_LINES_MAX" -v columns="$COLUMNS_MAX" '
        function too_long()
        {
            # A public header is one document, however long.
            if (name !~ /^include\// && count > lines)
                print name ": " count " lines"
        }
        FNR == 1 { too_long() }
        FNR == 1 { name = FILENAME; inside = 0 }
        { count = FNR }
        length($0) > columns { print FILENAME ":" FNR ": " length($0) " columns" }
        /^\{/ { inside = FNR }
        /^\}/ {
            if (inside && FNR - inside - 1 > body)
                print FILENAME ":" inside ": function of " (FNR - inside - 1) " lines"
            inside = 0
        }
        END { too_long() }' "${files[@]}"
}

# A floor includes its own and lower ones only (doc/architecture.md).
check_layers()
{
    local file
    in_directories src | while read -r file; do
        awk -v file="$file" '
            BEGIN {
                floor["util"] = 0
                floor["type"] = floor["bootstrap"] = floor["workqueue"] = floor["device"] = 1
                floor["context"] = 2; floor["p2p"] = 3; floor["geometry"] = 4
                floor["coll"] = 5; floor["client"] = 6; floor["servers"] = 7
                split(file, part, "/"); own = part[2]
            }
            /^#include "[a-z0-9]+\// {
                split($0, quoted, "\""); split(quoted[2], other, "/")
                if (!(own in floor)) { print file ": unknown floor " own; exit }
                if (other[1] in floor && floor[other[1]] > floor[own])
                    print file ":" FNR ": " own " must not include " quoted[2]
            }' "$file"
    done
}

# The shared library exports the API; the static one has no other global names either.
check_symbols()
{
    if [ ! -e "$BUILD/lib/libpami.so" ] || [ ! -e "$BUILD/lib/libpami.a" ]; then
        echo "$BUILD/lib: the libraries could not be built"
        return
    fi
    "$NM" -D --defined-only "$BUILD"/lib/libpami.so |
        awk '$2 != "A" && $3 !~ /^PAMIX?_/ { print "libpami.so exports " $3 }'
    "$NM" -g --defined-only "$BUILD"/lib/libpami.a |
        awk 'NF == 3 && $3 !~ /^PAMIX?_/ { print "libpami.a has the global symbol " $3 }'
}

scripts()
{
    find .ci scripts test examples bench -type f \( -name '*.sh' -o -perm -u+x \) 2>/dev/null
}

check_scripts()
{
    local script
    scripts | while read -r script; do
        case $(head -n 1 "$script") in
        *bash*) bash -n "$script" 2>&1 ;;
        '#!'*/sh*) sh -n "$script" 2>&1 ;;
        *perl*) perl -c "$script" 2>&1 | grep -v 'syntax OK$' ;;
        *) echo "$script: no #! line that is known" ;;
        esac
    done
    if command -v shellcheck >/dev/null; then
        scripts | xargs grep -lE '^#!.*sh$' | xargs -r shellcheck -S error -f gcc
    fi
}

# No blanks at line ends, no tabs in C, no conflict marks, a newline at the end.
check_space()
{
    local texts=()
    mapfile -t texts < <(
        printf '%s\n' "${files[@]}"
        scripts
        ls Makefile configure.ac libpami.map ./*.md ./*.in doc/*.md src/util/options.def 2>/dev/null
    )
    grep -nE '[[:blank:]]+$' "${texts[@]}" | sed 's/:.*/&: blanks at the end of the line/' |
        cut -d: -f1,2,4
    grep -nP '\t' "${files[@]}" | cut -d: -f1,2 | sed 's/$/: tab/'
    grep -nE '^(<<<<<<<|>>>>>>>)( |$)' "${texts[@]}"
    local text
    for text in "${texts[@]}"; do
        [ -z "$(tail -c 1 "$text")" ] || echo "$text: no newline at the end"
    done
}

# What documents and comments call a file of this tree is one.
check_names()
{
    local file line name
    grep -noE '\<(src|test|tools|bench|examples|doc|scripts|include)/[a-z0-9_./-]+\.(c|cc|h|sh|md|def)\>' \
        Makefile ./*.md doc/*.md doc/man/* "${files[@]}" |
        while IFS=: read -r file line name; do
            [ -e "$name" ] || echo "${file#./}:$line: there is no $name"
        done
}

# The tables of tests and of algorithms in the documents have them all.
check_tables()
{
    local file name
    while read -r file name; do
        grep -q "\`$name\`" "$file" || echo "$file: does not list $name"
    done < <(
        # shellcheck disable=SC2012
        ls test/api/*.c test/api/*.sh | sed -E 's|.*/|test/api/README.md |; s|\.c$||'
        # shellcheck disable=SC2012
        ls test/sim/*.c | sed -E 's|.*/|doc/sim.md |; s|\.c$||'
    )
    # Rows in shared memory are told of elsewhere.
    grep -oE '\{PAMI_XFER_[A-Z_]+, "[^"]+"' src/coll/table.c | sed 's/.* "//; s/"//' | sort -u |
        grep -v '^Shared' | while read -r name; do
        grep -q "^| $name |" doc/algorithms.md || echo "doc/algorithms.md: does not list $name"
    done
}

for check in format size banned layers headers symbols scripts space names tables cppcheck; do
    found=$("check_$check")
    if [ -n "$found" ]; then
        printf 'lint: %s:\n%s\n' "$check" "$found"
        failures=$((failures + 1))
    fi
done
if [ "$failures" -ne 0 ]; then
    echo "lint: $failures checks failed"
    exit 1
fi
echo "lint: ${#files[@]} C files and $(scripts | wc -l) scripts are fine"
