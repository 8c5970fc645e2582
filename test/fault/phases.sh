#!/bin/bash
# A member or a leader is killed in every phase of a collective; see phases.c. The phases that there
# are must all have been met.
#
# Run: args="shared" timeout=300
# Run: args="relays" timeout=300
# Run: args="trees" timeout=300
# Run: args="nodes" timeout=300
# Run: args="messages" timeout=300
# Run: args="copies" timeout=300
# Run: args="joint" timeout=300
# Run: args="direct" timeout=300

. "$(dirname "$0")/functions"
dying=$build/test/fault/phases
wanted=() # phases that the jobs of a case must meet
tasks=16
most=2

# PAMI_XFER_*, in pami_sys.h
broadcast=0 allreduce=1 reduce=2 allgather=3 scatter=6 gather=9 barrier=12 alltoall=13 scan=16
reduce_scatter=17 gatherv=10 alltoallv=14

# every NODES OPTION...: as many jobs as the phases need, and no more than `most`, the last of which
# has the last phases. How many there are differs a little from job to job.
every() {
    local nodes=$1 from=1 stores=1 jobs_before=$jobs victims last
    victims=$((tasks - 2 * nodes - 1))
    shift
    while [ $from -le $((stores + 1)) ] && [ $((jobs - jobs_before)) -lt "$most" ]; do
        job 137 $((2 * nodes)) -n $tasks --nodes "$nodes" --keep-going -- \
            --nodes "$nodes" --from $from "$@"
        stores=$(sed -n 's/^stores //p' "$scratch/out")
        grep '^phase ' "$scratch/out" >>"$scratch/phases"
        [ -n "$stores" ] || return
        from=$((from + victims))
        last=$((stores + 4 - victims))
        [ $((jobs - jobs_before)) -lt $((most - 1)) ] || [ $from -ge $last ] || from=$last
    done
}

# missing NAME...: those before whose stores nobody was killed
missing() {
    local name
    for name in "$@"; do
        grep -qx "phase $name" "$scratch/phases" || echo "$name"
    done
}

shared() {
    local type
    # What leads the arena is the root as well.
    for type in $barrier $broadcast $allreduce $reduce $scatter $alltoall $scan; do
        every 1 --row Shared --type "$type" --rank 0
        every 1 --row Shared --type "$type" --rank 1 --calm --late
    done
    for type in $broadcast $allreduce $gather $reduce_scatter; do
        every 1 --row Shared --type "$type" --words 4000 --rank 0 --calm
        every 1 --row Shared --type "$type" --words 20000 --rank 1 --late
    done
    for type in $barrier $allreduce; do
        every 1 --row Shared --type "$type" --rank 1 --late
        every 1 --row Shared --type "$type" --rank 1 --calm
        every 1 --row Shared --type "$type" --rank 1 --cold --late
    done
    every 1 --row Shared --type $barrier --rank 0 --cold
    every 1 --row Shared --type $allreduce --rank 2 --twice --words 4000
    wanted=(arrive release post result done fill complete)
}

# First, in the middle, last, and a root that is neither.
relays() {
    local type rank
    export PAMI_COLL_SHARED_RELAY=64
    for type in $allreduce $reduce; do
        for rank in 0 1 2; do
            every 1 --row Shared --type "$type" --words 20000 --rank $rank --late
        done
        every 1 --row Shared --type "$type" --words 4000 --rank 1 --root 2 --calm
    done
    wanted=(post done complete)
}

# On top of a tree, below it, in the middle, and a root at the end.
trees() {
    local type
    for type in $barrier $broadcast $allreduce $reduce; do
        every 1 --row SharedTree --type "$type" --rank 0
        every 1 --row SharedTree --type "$type" --rank 1 --calm --late
        every 1 --row SharedTree --type "$type" --rank 1 --cold --late
    done
    export PAMI_COLL_SHARED_RADIX=1
    for type in $barrier $broadcast $allreduce $reduce; do
        every 1 --row SharedTree --type "$type" --rank 1
        every 1 --row SharedTree --type "$type" --words 20000 --rank 1 --root 2 --calm --late
    done
    wanted=(post result done fill complete)
}

nodes() {
    local type
    for type in $barrier $broadcast $allreduce $allgather; do
        every 2 --row Hierarchical --type "$type" --rank 0
        every 2 --row Hierarchical --type "$type" --rank 1 --late
    done
    every 2 --row HierarchicalAggregated --type $allreduce --rank 0
    every 2 --row HierarchicalAggregated --type $barrier --rank 1 --late
    every 2 --row HierarchicalAggregated --type $reduce --words 3000 --rank 0 --cold
    every 2 --row HierarchicalAggregated --type $allreduce --words 3000 --rank 1 --twice
    export PAMI_COLL_SEGMENT=4096
    every 2 --row PipelinedHierarchical --type $broadcast --words 3000 --rank 0
    every 2 --row PipelinedHierarchical --type $allreduce --words 3000 --rank 1 --late
    every 2 --row MultiLeader --type $reduce --words 3000 --rank 1
    every 2 --row LastSpeaks --type $barrier --rank 1
    every 2 --row LastSpeaks --type $allreduce --rank 0 --late
    every 2 --row LastSpeaks --type $alltoall --rank 1 --late
    for type in $gather $gatherv $alltoallv; do
        every 2 --row Direct --type "$type" --words 3000 --rank 1
    done
    wanted=(post done fill send complete)
}

messages() {
    every 1 --row Binomial --type $broadcast --words 1000 --rank 0
    every 1 --row Binomial --type $broadcast --words 1000 --rank 1
    every 1 --row RecursiveDoubling --type $allreduce --rank 1
    every 1 --row Dissemination --type $barrier --rank 1
    every 1 --row Pairwise --type $alltoall --rank 1
    every 1 --row Aggregated --type $allreduce --rank 0
    every 1 --row Aggregated --type $barrier --rank 1 --late
    every 2 --row Aggregated --type $reduce --rank 1 --words 3000
    wanted=(send complete)
}

# Messages whose receiver reads the memory of the sender: either of them dies in the middle.
copies() {
    local rank
    export PAMI_RNDV_BYTES=1K PAMI_SHM_SINGLE_COPY=on
    for rank in 0 1; do
        every 1 --row PullHalvedBinomial --type $broadcast --words 20000 --rank $rank
        every 1 --row Ring --type $allgather --words 5000 --rank $rank --late
    done
    every 1 --row PullHalvedBinomial --type $broadcast --words 20000 --rank 0 --cold --by-other
    every 1 --row Flat --type $gather --words 20000 --root 1 --rank 2 --cold --by-other
    every 1 --row Ring --type $allgather --words 5000 --rank 1 --cold --by-other
    wanted=(send "read of memory" complete)
}

# The same, made by both of them.
joint() {
    local rank
    export PAMI_RNDV_BYTES=1K PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=on
    for rank in 0 1; do
        every 1 --row PullHalvedBinomial --type $broadcast --words 20000 --rank $rank
        every 1 --row Ring --type $allgather --words 9000 --rank $rank --late
    done
    every 1 --row Flat --type $gather --words 20000 --root 1 --rank 2 --cold --by-other
    wanted=(send complete)
}

# Members that write to one another's memory.
direct() {
    local type rank
    export PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=on
    for rank in 0 1; do
        every 1 --row Shared --type $allreduce --words 40000 --rank $rank --calm
        every 1 --row Shared --type $allreduce --words 40000 --rank $rank --calm --late --cold
        for type in $allgather $alltoall; do
            every 1 --row Shared --type "$type" --words 40000 --rank $rank --calm --late
        done
    done
    every 1 --row Shared --type $alltoall --words 40000 --rank 1 --calm --cold --by-other
    wanted=(post "segment of the result" done complete)
}

# Who is the last to arrive, and so does what others do not, is a matter of luck.
for _ in 1 2 3; do
    "$@"
    rest=$(missing "${wanted[@]}")
    [ -n "$rest" ] || break
done
[ -z "$rest" ] || {
    echo "FAILED: nobody died in these phases:" $rest
    failures=$((failures + 1))
}
sort "$scratch/phases" | uniq -c
finish
