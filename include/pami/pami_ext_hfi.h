/*
 * pami_ext_hfi.h - types of the "EXT_hfi_extension" of IBM's host fabric interface.
 *
 * Some programs include this header unconditionally and then try to open the extension. Here
 * the types exist so that such programs compile; PAMI_Extension_open reports that the extension
 * itself is not available.
 */
#ifndef __pami_ext_hfi_h__
#define __pami_ext_hfi_h__

#include "pami.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long"

/* One remote atomic update: apply operation `op` with `atomic_operand` to the 64-bit word at
 * address `dest_buf` of task `dest`. */
typedef struct {
    unsigned dest;
    unsigned op;
    uint64_t dest_buf;
    uint64_t atomic_operand;
} hfi_remote_update_info_t;

/* Symbol "hfi_remote_update": start `count` updates described by info[0..count-1]. */
typedef pami_result_t (*hfi_remote_update_fn)(pami_context_t context, unsigned count,
                                              hfi_remote_update_info_t *info);

/* Packet counters of one context, each counted since the context was created. */
typedef struct {
    unsigned long long packets_sent;
    unsigned long long packets_received;
    unsigned long long packets_dropped_on_send;
    unsigned long long packets_dropped_on_receive;
    unsigned long long immediate_packets_sent;
    unsigned long long bytes_sent;
    unsigned long long bytes_received;
} hfi_pkt_counter_t;

/* Symbol "hfi_pkt_counters": read the counters of `context` into *counters. */
typedef pami_result_t (*hfi_pkt_counters_fn)(pami_context_t context, hfi_pkt_counter_t *counters);

#pragma GCC diagnostic pop

#ifdef __cplusplus
}
#endif

#endif /* __pami_ext_hfi_h__ */
