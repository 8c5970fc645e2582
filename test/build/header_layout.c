/*
 * The binary interface: sizes and member positions of every public structure on LP64, the value
 * of every enumerator, and the bit positions of hints and metadata, as numbers written down once.
 * Programs compiled against another PAMI header of this platform depend on each of them. Almost
 * everything is checked by compiling; bit-fields need a look at memory. Compiled as C++ by
 * header_layout.cc.
 *
 * Run: timeout=20
 */
#include <pami/pami.h>
#include <pami/pami_ext_hfi.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, member, offset)                                                                   \
    _Static_assert(offsetof(type, member) == (offset), #type "." #member)
#define VALUE(name, value) _Static_assert((name) == (value), #name)

SIZE(pami_client_t, 8);
SIZE(pami_context_t, 8);
SIZE(pami_type_t, 8);
SIZE(pami_geometry_t, 8);
SIZE(pami_extension_t, 8);
SIZE(pami_algorithm_t, 8);
SIZE(pami_task_t, 4);
SIZE(pami_endpoint_t, 4);
SIZE(pami_user_config_t, 16);
AT(pami_user_config_t, value, 8);
SIZE(pami_work_t, 64);
SIZE(pami_memregion_t, 64);
_Static_assert(PAMI_WORK_SIZE_STATIC == 64 && PAMI_CLIENT_MEMREGION_SIZE_STATIC == 64, "static");
_Static_assert(PAMI_REQUEST_NQUADS == 512, "PAMI_REQUEST_NQUADS");
SIZE(xfer_p, 8);

/* Enumerations. */
SIZE(pami_result_t, 4);
VALUE(PAMI_SUCCESS, 0);
VALUE(PAMI_NERROR, -1);
VALUE(PAMI_ERROR, 1);
VALUE(PAMI_INVAL, 2);
VALUE(PAMI_UNIMPL, 3);
VALUE(PAMI_EAGAIN, 4);
VALUE(PAMI_ENOMEM, 5);
VALUE(PAMI_SHUTDOWN, 6);
VALUE(PAMI_CHECK_ERRNO, 7);
VALUE(PAMI_OTHER, 8);
VALUE(PAMI_RESULT_EXT, 1000);

SIZE(pami_attribute_name_t, 4);
VALUE(PAMI_CLIENT_CLOCK_MHZ, 100);
VALUE(PAMI_CLIENT_CONST_CONTEXTS, 101);
VALUE(PAMI_CLIENT_HWTHREADS_AVAILABLE, 102);
VALUE(PAMI_CLIENT_MEMREGION_SIZE, 103);
VALUE(PAMI_CLIENT_MEM_SIZE, 104);
VALUE(PAMI_CLIENT_NUM_TASKS, 105);
VALUE(PAMI_CLIENT_NUM_LOCAL_TASKS, 106);
VALUE(PAMI_CLIENT_LOCAL_TASKS, 107);
VALUE(PAMI_CLIENT_NUM_CONTEXTS, 108);
VALUE(PAMI_CLIENT_PROCESSOR_NAME, 109);
VALUE(PAMI_CLIENT_TASK_ID, 110);
VALUE(PAMI_CLIENT_WTIMEBASE_MHZ, 111);
VALUE(PAMI_CLIENT_WTICK, 112);
VALUE(PAMI_CLIENT_NONCONTIG, 113);
VALUE(PAMI_CLIENT_MEMORY_OPTIMIZE, 114);
VALUE(PAMI_CONTEXT_DISPATCH_ID_MAX, 200);
VALUE(PAMI_DISPATCH_RECV_IMMEDIATE_MAX, 300);
VALUE(PAMI_DISPATCH_SEND_IMMEDIATE_MAX, 301);
VALUE(PAMI_DISPATCH_ATOM_SIZE_MAX, 302);
VALUE(PAMI_GEOMETRY_OPTIMIZE, 400);
VALUE(PAMI_GEOMETRY_NONCONTIG, 401);
VALUE(PAMI_GEOMETRY_MEMORY_OPTIMIZE, 402);
VALUE(PAMI_TYPE_DATA_SIZE, 500);
VALUE(PAMI_TYPE_DATA_EXTENT, 501);
VALUE(PAMI_TYPE_ATOM_SIZE, 502);
VALUE(PAMI_ATTRIBUTE_NAME_EXT, 1000);

SIZE(pami_hint_t, 4);
VALUE(PAMI_HINT_DEFAULT, 0);
VALUE(PAMI_HINT_ENABLE, 1);
VALUE(PAMI_HINT_DISABLE, 2);
VALUE(PAMI_HINT_INVALID, 3);

SIZE(pami_atomic_t, 4);
VALUE(PAMI_ATOMIC_FETCH, 1);
VALUE(PAMI_ATOMIC_COMPARE, 2);
VALUE(PAMI_ATOMIC_SET, 4);
VALUE(PAMI_ATOMIC_ADD, 8);
VALUE(PAMI_ATOMIC_OR, 12);
VALUE(PAMI_ATOMIC_AND, 16);
VALUE(PAMI_ATOMIC_XOR, 20);
VALUE(PAMI_ATOMIC_FETCH_SET, 5);
VALUE(PAMI_ATOMIC_FETCH_ADD, 9);
VALUE(PAMI_ATOMIC_FETCH_OR, 13);
VALUE(PAMI_ATOMIC_FETCH_AND, 17);
VALUE(PAMI_ATOMIC_FETCH_XOR, 21);
VALUE(PAMI_ATOMIC_COMPARE_SET, 6);
VALUE(PAMI_ATOMIC_COMPARE_ADD, 10);
VALUE(PAMI_ATOMIC_COMPARE_OR, 14);
VALUE(PAMI_ATOMIC_COMPARE_AND, 18);
VALUE(PAMI_ATOMIC_COMPARE_XOR, 22);
VALUE(PAMI_ATOMIC_FETCH_COMPARE_SET, 7);
VALUE(PAMI_ATOMIC_FETCH_COMPARE_ADD, 11);
VALUE(PAMI_ATOMIC_FETCH_COMPARE_OR, 15);
VALUE(PAMI_ATOMIC_FETCH_COMPARE_AND, 19);
VALUE(PAMI_ATOMIC_FETCH_COMPARE_XOR, 23);

SIZE(pami_xfer_type_t, 4);
VALUE(PAMI_XFER_BROADCAST, 0);
VALUE(PAMI_XFER_ALLREDUCE, 1);
VALUE(PAMI_XFER_REDUCE, 2);
VALUE(PAMI_XFER_ALLGATHER, 3);
VALUE(PAMI_XFER_ALLGATHERV, 4);
VALUE(PAMI_XFER_ALLGATHERV_INT, 5);
VALUE(PAMI_XFER_SCATTER, 6);
VALUE(PAMI_XFER_SCATTERV, 7);
VALUE(PAMI_XFER_SCATTERV_INT, 8);
VALUE(PAMI_XFER_GATHER, 9);
VALUE(PAMI_XFER_GATHERV, 10);
VALUE(PAMI_XFER_GATHERV_INT, 11);
VALUE(PAMI_XFER_BARRIER, 12);
VALUE(PAMI_XFER_ALLTOALL, 13);
VALUE(PAMI_XFER_ALLTOALLV, 14);
VALUE(PAMI_XFER_ALLTOALLV_INT, 15);
VALUE(PAMI_XFER_SCAN, 16);
VALUE(PAMI_XFER_REDUCE_SCATTER, 17);
VALUE(PAMI_XFER_AMBROADCAST, 18);
VALUE(PAMI_XFER_AMSCATTER, 19);
VALUE(PAMI_XFER_AMGATHER, 20);
VALUE(PAMI_XFER_AMREDUCE, 21);
VALUE(PAMI_XFER_COUNT, 22);
VALUE(PAMI_XFER_TYPE_EXT, 1000);

/* Attributes, hints, metadata. */
SIZE(pami_attribute_value_t, 8);
SIZE(pami_configuration_t, 16);
AT(pami_configuration_t, name, 0);
AT(pami_configuration_t, value, 8);
SIZE(pami_dispatch_hint_t, 4);
SIZE(pami_send_hint_t, 4);
SIZE(pami_collective_hint_t, 4);
SIZE(pami_dispatch_callback_function, 8);
SIZE(metadata_result_t, 4);
SIZE(pami_metadata_t, 80);
AT(pami_metadata_t, name, 0);
AT(pami_metadata_t, version, 8);
AT(pami_metadata_t, check_fn, 16);
AT(pami_metadata_t, range_lo, 24);
AT(pami_metadata_t, range_hi, 32);
AT(pami_metadata_t, send_min_align, 40);
AT(pami_metadata_t, recv_min_align, 44);
AT(pami_metadata_t, check_correct, 48);
AT(pami_metadata_t, check_perf, 52);
AT(pami_metadata_t, range_lo_perf, 56);
AT(pami_metadata_t, range_hi_perf, 64);
AT(pami_metadata_t, min_align_perf, 72);

/* Active messages. */
SIZE(pami_send_immediate_t, 48);
AT(pami_send_immediate_t, header, 0);
AT(pami_send_immediate_t, data, 16);
AT(pami_send_immediate_t, dispatch, 32);
AT(pami_send_immediate_t, hints, 40);
AT(pami_send_immediate_t, dest, 44);
SIZE(pami_send_event_t, 24);
AT(pami_send_event_t, cookie, 0);
AT(pami_send_event_t, local_fn, 8);
AT(pami_send_event_t, remote_fn, 16);
SIZE(pami_send_t, 72);
AT(pami_send_t, events, 48);
SIZE(pami_send_typed_t, 104);
AT(pami_send_typed_t, events, 48);
AT(pami_send_typed_t, typed, 72);
AT(pami_send_typed_t, typed.offset, 80);
AT(pami_send_typed_t, typed.data_fn, 88);
AT(pami_send_typed_t, typed.data_cookie, 96);
SIZE(pami_recv_t, 56);
AT(pami_recv_t, cookie, 0);
AT(pami_recv_t, local_fn, 8);
AT(pami_recv_t, addr, 16);
AT(pami_recv_t, type, 24);
AT(pami_recv_t, offset, 32);
AT(pami_recv_t, data_fn, 40);
AT(pami_recv_t, data_cookie, 48);

/* One-sided transfers. */
SIZE(pami_rma_t, 32);
AT(pami_rma_t, dest, 0);
AT(pami_rma_t, hints, 4);
AT(pami_rma_t, bytes, 8);
AT(pami_rma_t, cookie, 16);
AT(pami_rma_t, done_fn, 24);
SIZE(pami_rma_addr_t, 16);
AT(pami_rma_addr_t, remote, 8);
SIZE(pami_rma_typed_t, 16);
AT(pami_rma_typed_t, remote, 8);
SIZE(pami_rma_put_t, 8);
SIZE(pami_rma_mr_t, 16);
AT(pami_rma_mr_t, offset, 8);
SIZE(pami_rdma_t, 32);
AT(pami_rdma_t, remote, 16);
SIZE(pami_put_simple_t, 56);
AT(pami_put_simple_t, addr, 32);
AT(pami_put_simple_t, put, 48);
SIZE(pami_put_typed_t, 72);
AT(pami_put_typed_t, type, 48);
AT(pami_put_typed_t, put, 64);
SIZE(pami_get_simple_t, 48);
AT(pami_get_simple_t, addr, 32);
SIZE(pami_get_typed_t, 64);
AT(pami_get_typed_t, type, 48);
SIZE(pami_rput_simple_t, 72);
AT(pami_rput_simple_t, rdma, 32);
AT(pami_rput_simple_t, put, 64);
SIZE(pami_rput_typed_t, 88);
AT(pami_rput_typed_t, type, 64);
AT(pami_rput_typed_t, put, 80);
SIZE(pami_rget_simple_t, 64);
AT(pami_rget_simple_t, rdma, 32);
SIZE(pami_rget_typed_t, 80);
AT(pami_rget_typed_t, type, 64);
SIZE(pami_rmw_t, 72);
AT(pami_rmw_t, dest, 0);
AT(pami_rmw_t, hints, 4);
AT(pami_rmw_t, cookie, 8);
AT(pami_rmw_t, done_fn, 16);
AT(pami_rmw_t, local, 24);
AT(pami_rmw_t, remote, 32);
AT(pami_rmw_t, value, 40);
AT(pami_rmw_t, test, 48);
AT(pami_rmw_t, operation, 56);
AT(pami_rmw_t, type, 64);

/* Collectives. */
SIZE(pami_geometry_range_t, 8);
AT(pami_geometry_range_t, hi, 4);
SIZE(pami_collective_t, 80);
SIZE(pami_xfer_t, 112);
SIZE(struct pami_xfer_t, 112);
AT(pami_xfer_t, cb_done, 0);
AT(pami_xfer_t, cookie, 8);
AT(pami_xfer_t, algorithm, 16);
AT(pami_xfer_t, options, 24);
AT(pami_xfer_t, cmd, 32);

#define BUFFERS(type, base)                                                                        \
    AT(type, sndbuf, base);                                                                        \
    AT(type, stype, (base) + 8);                                                                   \
    AT(type, rcvbuf, (base) + 24);                                                                 \
    AT(type, rtype, (base) + 32)
#define REDUCTION(type, base)                                                                      \
    BUFFERS(type, base);                                                                           \
    AT(type, stypecount, (base) + 16);                                                             \
    AT(type, op, (base) + 48);                                                                     \
    AT(type, data_cookie, (base) + 56)
#define VECTOR_RECEIVE(type, base)                                                                 \
    BUFFERS(type, base);                                                                           \
    AT(type, stypecount, (base) + 16);                                                             \
    AT(type, rtypecounts, (base) + 40);                                                            \
    AT(type, rdispls, (base) + 48)
#define VECTOR_SEND(type, base)                                                                    \
    AT(type, sndbuf, base);                                                                        \
    AT(type, stype, (base) + 8);                                                                   \
    AT(type, stypecounts, (base) + 16);                                                            \
    AT(type, sdispls, (base) + 24);                                                                \
    AT(type, rcvbuf, (base) + 32);                                                                 \
    AT(type, rtype, (base) + 40)

SIZE(pami_broadcast_t, 32);
AT(pami_broadcast_t, root, 0);
AT(pami_broadcast_t, buf, 8);
AT(pami_broadcast_t, type, 16);
AT(pami_broadcast_t, typecount, 24);
SIZE(pami_allreduce_t, 72);
REDUCTION(pami_allreduce_t, 0);
AT(pami_allreduce_t, rtypecount, 40);
AT(pami_allreduce_t, commutative, 64);
SIZE(pami_reduce_t, 80);
AT(pami_reduce_t, root, 0);
REDUCTION(pami_reduce_t, 8);
AT(pami_reduce_t, rtypecount, 48);
AT(pami_reduce_t, commutative, 72);
SIZE(pami_scan_t, 72);
REDUCTION(pami_scan_t, 0);
AT(pami_scan_t, rtypecount, 40);
AT(pami_scan_t, exclusive, 64);
SIZE(pami_reduce_scatter_t, 72);
REDUCTION(pami_reduce_scatter_t, 0);
AT(pami_reduce_scatter_t, rcounts, 40);
AT(pami_reduce_scatter_t, commutative, 64);
SIZE(pami_allgather_t, 48);
BUFFERS(pami_allgather_t, 0);
AT(pami_allgather_t, rtypecount, 40);
SIZE(pami_alltoall_t, 48);
BUFFERS(pami_alltoall_t, 0);
AT(pami_alltoall_t, rtypecount, 40);
SIZE(pami_gather_t, 56);
AT(pami_gather_t, root, 0);
BUFFERS(pami_gather_t, 8);
AT(pami_gather_t, rtypecount, 48);
SIZE(pami_scatter_t, 56);
AT(pami_scatter_t, root, 0);
BUFFERS(pami_scatter_t, 8);
AT(pami_scatter_t, rtypecount, 48);
SIZE(pami_allgatherv_t, 56);
VECTOR_RECEIVE(pami_allgatherv_t, 0);
SIZE(pami_allgatherv_int_t, 56);
VECTOR_RECEIVE(pami_allgatherv_int_t, 0);
SIZE(pami_gatherv_t, 64);
AT(pami_gatherv_t, root, 0);
VECTOR_RECEIVE(pami_gatherv_t, 8);
SIZE(pami_gatherv_int_t, 64);
AT(pami_gatherv_int_t, root, 0);
VECTOR_RECEIVE(pami_gatherv_int_t, 8);
SIZE(pami_scatterv_t, 64);
AT(pami_scatterv_t, root, 0);
VECTOR_SEND(pami_scatterv_t, 8);
AT(pami_scatterv_t, rtypecount, 56);
SIZE(pami_scatterv_int_t, 64);
AT(pami_scatterv_int_t, root, 0);
VECTOR_SEND(pami_scatterv_int_t, 8);
AT(pami_scatterv_int_t, rtypecount, 56);
SIZE(pami_alltoallv_t, 64);
VECTOR_SEND(pami_alltoallv_t, 0);
AT(pami_alltoallv_t, rtypecounts, 48);
AT(pami_alltoallv_t, rdispls, 56);
SIZE(pami_alltoallv_int_t, 64);
VECTOR_SEND(pami_alltoallv_int_t, 0);
AT(pami_alltoallv_int_t, rtypecounts, 48);
AT(pami_alltoallv_int_t, rdispls, 56);
SIZE(pami_ambroadcast_t, 48);
AT(pami_ambroadcast_t, user_header, 8);
AT(pami_ambroadcast_t, headerlen, 16);
AT(pami_ambroadcast_t, sndbuf, 24);
AT(pami_ambroadcast_t, stype, 32);
AT(pami_ambroadcast_t, stypecount, 40);
SIZE(pami_amscatter_t, 48);
AT(pami_amscatter_t, headers, 8);
AT(pami_amscatter_t, headerlen, 16);
AT(pami_amscatter_t, sndbuf, 24);
AT(pami_amscatter_t, stype, 32);
AT(pami_amscatter_t, stypecount, 40);
SIZE(pami_amgather_t, 48);
AT(pami_amgather_t, headers, 8);
AT(pami_amgather_t, headerlen, 16);
AT(pami_amgather_t, rcvbuf, 24);
AT(pami_amgather_t, rtype, 32);
AT(pami_amgather_t, rtypecount, 40);
SIZE(pami_amreduce_t, 64);
AT(pami_amreduce_t, user_header, 8);
AT(pami_amreduce_t, headerlen, 16);
AT(pami_amreduce_t, rcvbuf, 24);
AT(pami_amreduce_t, rtype, 32);
AT(pami_amreduce_t, rtypecount, 40);
AT(pami_amreduce_t, data_cookie, 48);
AT(pami_amreduce_t, commutative, 56);
#ifdef __cplusplus
SIZE(pami_barrier_t, 1);
#else
SIZE(pami_barrier_t, 0);
#endif

/* pami_ext_hfi.h. */
SIZE(hfi_remote_update_info_t, 24);
AT(hfi_remote_update_info_t, op, 4);
AT(hfi_remote_update_info_t, dest_buf, 8);
AT(hfi_remote_update_info_t, atomic_operand, 16);
SIZE(hfi_pkt_counter_t, 56);

static int failures;

/* Where the most significant byte comes first, so does the most significant bit. */
static unsigned bits_of(unsigned word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    unsigned bits = 0;

    for (int i = 0; i < 32; i++)
        bits |= (word >> i & 1u) << (31 - i);
    return bits;
#else
    return word;
#endif
}

/* `mask` counts bits from the first member on. */
static void expect_mask(const char *what, const void *object, unsigned mask)
{
    unsigned word;

    memcpy(&word, object, sizeof word);
    word = bits_of(word);
    if (word != mask) {
        printf("%s: bits 0x%x, expected 0x%x\n", what, word, mask);
        failures++;
    }
}

/* Set one member to all ones, by taking 1 from 0, and look at the word. */
#define MASK(type, member, mask)                                                                   \
    do {                                                                                           \
        type object;                                                                               \
        memset(&object, 0, sizeof object);                                                         \
        object.member--;                                                                           \
        expect_mask(#type "." #member, &object, mask);                                             \
    } while (0)

#define CHECK(member, mask)                                                                        \
    do {                                                                                           \
        metadata_result_t object;                                                                  \
        object.bitmask = 0;                                                                        \
        object.check.member = 1;                                                                   \
        expect_mask("metadata_result_t." #member, &object, mask);                                  \
    } while (0)

#define CORRECT(member, mask)                                                                      \
    do {                                                                                           \
        pami_metadata_t object;                                                                    \
        memset(&object, 0, sizeof object);                                                         \
        object.check_correct.values.member--;                                                      \
        expect_mask("pami_metadata_t." #member, &object.check_correct.bitmask_correct, mask);      \
    } while (0)

static void check_hints(void)
{
    MASK(pami_dispatch_hint_t, multicontext, 0x3);
    MASK(pami_dispatch_hint_t, long_header, 0xC);
    MASK(pami_dispatch_hint_t, recv_contiguous, 0x30);
    MASK(pami_dispatch_hint_t, recv_copy, 0xC0);
    MASK(pami_dispatch_hint_t, recv_immediate, 0x300);
    MASK(pami_dispatch_hint_t, consistency, 0xC00);
    MASK(pami_dispatch_hint_t, buffer_registered, 0x3000);
    MASK(pami_dispatch_hint_t, remote_async_progress, 0xC000);
    MASK(pami_dispatch_hint_t, use_rdma, 0x30000);
    MASK(pami_dispatch_hint_t, use_shmem, 0xC0000);
    MASK(pami_dispatch_hint_t, queue_immediate, 0x300000);
    MASK(pami_send_hint_t, reserved0, 0xFFF);
    MASK(pami_send_hint_t, buffer_registered, 0x3000);
    MASK(pami_send_hint_t, remote_async_progress, 0xC000);
    MASK(pami_send_hint_t, use_rdma, 0x30000);
    MASK(pami_send_hint_t, use_shmem, 0xC0000);
    MASK(pami_send_hint_t, reserved1, 0x300000);
    MASK(pami_collective_hint_t, multicontext, 0x3);
    MASK(pami_collective_hint_t, reserved0, 0x3FFFFC);
}

static void check_metadata(void)
{
    CHECK(unspecified, 0x1);
    CHECK(range, 0x2);
    CHECK(align_send_buffer, 0x4);
    CHECK(align_recv_buffer, 0x8);
    CHECK(datatype_op, 0x10);
    CHECK(contiguous_send, 0x20);
    CHECK(contiguous_recv, 0x40);
    CHECK(continuous_send, 0x80);
    CHECK(continuous_recv, 0x100);
    CHECK(nonlocal, 0x200);
    CORRECT(checkrequired, 0x1);
    CORRECT(nonlocal, 0x2);
    CORRECT(rangeminmax, 0x4);
    CORRECT(sendminalign, 0x8);
    CORRECT(recvminalign, 0x10);
    CORRECT(alldtop, 0x20);
    CORRECT(contigsflags, 0x40);
    CORRECT(contigrflags, 0x80);
    CORRECT(continsflags, 0x100);
    CORRECT(continrflags, 0x200);
    CORRECT(blocking, 0x400);
    CORRECT(inplace, 0x800);
    CORRECT(asyncflowctl, 0x1000);
    CORRECT(oneatatime, 0x2000);
    CORRECT(global_order, 0x3C000);
}

int main(void)
{
    pami_metadata_t metadata;

    check_hints();
    check_metadata();
    memset(&metadata, 0, sizeof metadata);
    metadata.check_perf.values.hw_accel = 1;
    expect_mask("hw_accel", &metadata.check_perf.bitmask_perf, 1);
    return failures != 0;
}
