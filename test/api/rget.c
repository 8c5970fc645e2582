/*
 * PAMI_Rget and PAMI_Rget_typed: every size, alignment, kind of memory and layout, through
 * memory regions that came in a message, at offsets, on any context. Ranges that leave a region and
 * regions that are none are refused or end with an error; the target is not touched elsewhere.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=2,5 nodes=2
 * Run: tasks=2 args="large"
 * Run: tasks=2 nodes=2 args="large"
 * Run: tasks=2,3 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_CHUNK_BYTES=1K PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_YIELD=always"
 */
#include "rma_regions.h"

int main(int argc, char **argv)
{
    regions_start("rget", false, argc, argv);
    return regions_run(argc, argv);
}
