#!/bin/bash
# What src/bootstrap/pmix_abi.h declares is what PMIx's own headers say, where they are installed.
# Run: timeout=60
# shellcheck disable=SC2034,SC2086,SC2154 # variables of "functions"; a compiler may have arguments

. "$(dirname "$0")/functions"

flags=$("${PKG_CONFIG:-pkg-config}" --cflags pmix 2>/dev/null) ||
    { echo 'skip: the headers of PMIx (libpmix-dev) are not installed'; exit 77; }
{
    echo '#include <pmix.h>'
    echo '#include <stddef.h>'
    echo '#include "bootstrap/pmix_abi.h"'
    sed -n 's/^ *PMIX_ABI_\(\(ERR\|OPERATION\|EVENT\)_*[A-Z_]*\|SUCCESS\) = .*/\1/p' \
        src/bootstrap/pmix_abi.h | while read -r name; do
        # Some versions lack ERR_LOST_CONNECTION_TO_SERVER.
        printf '#ifdef PMIX_%s\n_Static_assert(PMIX_%s == PMIX_ABI_%s, "%s");\n#endif\n' \
            "$name" "$name" "$name" "$name"
    done
    for name in BOOL STRING SIZE INT INT32 INT64 UINT UINT16 UINT32 UINT64 PROC_RANK \
        RANK_WILDCARD GLOBAL; do
        echo "_Static_assert((PMIX_$name) == (PMIX_ABI_$name), \"$name\");"
    done
    for name in proc value info; do
        echo "_Static_assert(sizeof(pmix_${name}_t) == sizeof(struct pmix_abi_$name), \"$name\");"
    done
    for member in proc:nspace proc:rank value:type value:data info:key info:flags info:value; do
        t=${member%:*} m=${member#*:}
        echo "_Static_assert(offsetof(pmix_${t}_t, $m) == offsetof(struct pmix_abi_$t, $m), \"$member\");"
    done
    while read -r macro text; do
        echo "_Static_assert(__builtin_strcmp($macro, \"$text\") == 0, \"$macro\");"
    done <<'END'
PMIX_JOB_SIZE pmix.job.size
PMIX_NODE_LIST pmix.nlist
PMIX_HOSTNAME pmix.hname
PMIX_OPTIONAL pmix.optional
PMIX_NODE_INFO pmix.node.info
PMIX_LOCAL_PEERS pmix.lpeers
PMIX_COLLECT_DATA pmix.collect
PMIX_IMMEDIATE pmix.immediate
PMIX_EVENT_AFFECTED_PROC pmix.evproc
END
    echo 'int main(void) { return 0; }'
} >"$scratch/abi.c"
# shellcheck disable=SC2086
run 0 ${CC:-gcc} -std=gnu11 -Isrc $flags -c -o "$scratch/abi.o" "$scratch/abi.c"
[ "$(grep -c _Static_assert "$scratch/abi.c")" -ge 40 ] || complain 'hardly anything was compared'

# A call that wedges servers is not made.
what='events of our own'
! grep -qa PMIx_Notify_event "$build/lib/libpami.so" || complain 'PMIx_Notify_event is used'
finish
