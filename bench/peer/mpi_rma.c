/*
 * One-sided transfers of an MPI: see onesided.h for what is measured.
 *
 *     mpirun -n 2 mpi_rma [--min N] [--max N] [--step N] [--block-min N] [--ms N] [--plain]
 *
 * A window of MPI_Win_allocate (with --plain: MPI_Win_create over ordinary memory), locked for all
 * from start to end, MPI_Win_flush after each batch: the way that is fast everywhere.
 */
#include "mpi_job.h"
#include "onesided.h"

static struct {
    MPI_Win window;
    MPI_Datatype strided;
    size_t block;
} transport;

void transport_put(const void *source, size_t at, size_t bytes)
{
    MPI_OK(MPI_Put(source, (int)bytes, MPI_BYTE, 1, (MPI_Aint)at, (int)bytes, MPI_BYTE,
                   transport.window));
}

void transport_get(void *target, size_t at, size_t bytes)
{
    MPI_OK(MPI_Get(target, (int)bytes, MPI_BYTE, 1, (MPI_Aint)at, (int)bytes, MPI_BYTE,
                   transport.window));
}

void transport_put_strided(const void *source, size_t at, size_t block, size_t bytes)
{
    if (transport.block != block) {
        if (transport.block != 0) {
            MPI_OK(MPI_Type_free(&transport.strided));
        }
        MPI_OK(MPI_Type_vector((int)(bytes / block), (int)block, (int)(2 * block), MPI_BYTE,
                               &transport.strided));
        MPI_OK(MPI_Type_commit(&transport.strided));
        transport.block = block;
    }
    MPI_OK(MPI_Put(source, (int)bytes, MPI_BYTE, 1, (MPI_Aint)at, 1, transport.strided,
                   transport.window));
}

void transport_fetch_add(uint64_t *old, size_t at)
{
    static const uint64_t one = 1;

    MPI_OK(MPI_Fetch_and_op(&one, old, MPI_UINT64_T, 1, (MPI_Aint)at, MPI_SUM, transport.window));
}

void transport_flush(void)
{
    MPI_OK(MPI_Win_flush(1, transport.window));
}

/* The memory of a window is looked at with loads and stores between meetings. */
void transport_meet(void)
{
    MPI_OK(MPI_Win_sync(transport.window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_sync(transport.window));
}

int main(int argc, char **argv)
{
    struct mpi_job j;
    struct onesided o = {.atomics = true, .strided = true};
    bool plain = bench_flag(argc, argv, "--plain");

    mpi_job_open(&j, &argc, &argv, MPI_THREAD_SINGLE);
    if (j.size != 2) {
        bench_die("two processes are needed");
    }
    o.rank = j.rank;
    if (plain) {
        o.window = bench_alloc(ONESIDED_WINDOW);
        MPI_OK(MPI_Win_create(o.window, ONESIDED_WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                              &transport.window));
    } else {
        MPI_OK(MPI_Win_allocate(ONESIDED_WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &o.window,
                                &transport.window));
    }
    MPI_OK(MPI_Win_lock_all(0, transport.window));
    onesided_run(&o, argc, argv);
    MPI_OK(MPI_Win_unlock_all(transport.window));
    if (transport.block != 0) {
        MPI_OK(MPI_Type_free(&transport.strided));
    }
    MPI_OK(MPI_Win_free(&transport.window));
    MPI_OK(MPI_Finalize());
    return 0;
}
