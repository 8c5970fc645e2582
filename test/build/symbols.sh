#!/bin/bash
# The libraries' global names: only PAMI_* and PAMIX_*, and every one of them declared in a public
# header.
# Run: timeout=20
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
NM=${NM:-nm}
status=0

if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: sanitizers add names of their own"
    exit 77
fi

# Exported for old binaries only.
old=PAMI_TYPE_LOGICAL
declared=$({
    echo "$old"
    sed 's|//.*||' "$top"/include/pami/*.h | grep -oE '\bPAMIX?_[A-Za-z0-9_]+'
} | sort -u)
exported=$("$NM" -D --defined-only "$BUILD/lib/libpami.so" |
    awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
static=$("$NM" -g --defined-only "$BUILD/lib/libpami.a" | awk 'NF == 3 { print $3 }' | sort -u)

foreign=$(grep -vE '^PAMIX?_' <<<"$exported"$'\n'"$static" | sort -u || true)
if [ -n "$foreign" ]; then
    echo "global names that are not ours:" $foreign
    status=1
fi
undeclared=$(comm -23 <(echo "$exported") <(echo "$declared"))
if [ -n "$undeclared" ]; then
    echo "exported without a declaration:" $undeclared
    status=1
fi
if [ "$exported" != "$static" ]; then
    echo "the shared and the static library differ:"
    diff <(echo "$exported") <(echo "$static") || true
    status=1
fi
exit $status
