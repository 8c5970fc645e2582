/*
 * Point-to-point protocols: the state that one context keeps, shared by the files of this folder.
 *
 *   register.c    dispatch ids and what their hints mean
 *   send.c        the public send calls: checks, the one-packet path, making operations
 *   send_later.c  short messages that found no room
 *   outgoing.c    operations on their way: packets, queues per peer, answers
 *   incoming.c    messages on their way in: dispatch, receive buffers, held messages
 *   receive.c     what is remembered of those that several packets bring
 *   hold.c        messages for ids that are not registered yet
 *   rendezvous.c  data that is pulled by the receiver or pushed on its request
 *   heap.c        what of this task's memory others reach by themselves
 *   message.c     messages of the library's own
 *   operation.c   the queue of a peer
 *   handle.c      names for what is to be answered
 *   rma*.c        one-sided transfers, see rma.h
 *   rmw.c         atomic operations
 *   fence.c       fences
 *   p2p.c         attaching to a context, peers that go, draining
 *
 * Protocols
 *   immediate     one packet, delivered from where it lies
 *   eager         one MESSAGE packet and as many STREAM packets as header and data need
 *   pull          MESSAGE names the data's address; the receiver copies it and answers ACK. Where
 *                 asking for data takes long, the first of it follows as STREAM packets meanwhile:
 *                 the lead. A receiver that has no place for that fetches everything.
 *   push          the receiver answers MESSAGE with CLEAR, then DATA packets follow
 * The wire order of one pair is the order of the send calls, because an operation that could not be
 * sent whole waits in its peer's queue and later ones wait behind it. Answers wait there as well.
 * Nobody waits inside a call; see doc/progress.md for who may wait for what.
 */
#ifndef LIBPAMI_P2P_P2P_H
#define LIBPAMI_P2P_P2P_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context/context.h"
#include "p2p/handle.h"
#include "p2p/operation.h"
#include "type/type.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/pool.h"
#include "util/probe.h"

/* No message and no transfer is larger: sums of sizes below this cannot overflow. */
#define MESSAGE_BYTES_MAX ((size_t)1 << 62)

/* Whether data is better pulled or pushed is found out for sizes below this, and for four times as
 * much by turns: each for itself. */
#define RACE_BYTES ((size_t)64 << 10)
#define RACE_SIZES 5u

/* How a message's data travels. */
enum message_mode {
    MESSAGE_STREAM,
    MESSAGE_PULL,
    MESSAGE_PUSH,
    MESSAGE_MODES
};

/* Meta of a MESSAGE packet; aux is the handle to answer to, 0: no answer wanted. */
struct message_meta {
    uint64_t data_bytes;
    uint64_t address; /* pull: where the data lies in the origin task */
    uint64_t lead;    /* pull: so many of its bytes follow in STREAM packets */
    uint32_t header_bytes;
    uint16_t mode;
    uint16_t immediate; /* deliver header and data together */
    /* Only there where the data is exposed for this message alone: pull. */
    struct exposure exposure;
};

#define MESSAGE_META_BYTES offsetof(struct message_meta, exposure)

/* Meta of a CLEAR packet; aux is the sender's handle. */
struct clear_meta {
    uint64_t receive; /* handle for the DATA packets */
    uint64_t offset;  /* data bytes that the receiver has already, from a pull that failed */
};

_Static_assert(MESSAGE_META_BYTES == 32 && sizeof(struct message_meta) == 48 &&
                   sizeof(struct clear_meta) == 16,
               "meta is counted in words");

struct peer {
    uint32_t endpoint;
    bool gone;                /* has left; opening a new path may bring it back */
    bool ended;               /* its memory has; what it sent before may still be delivered */
    struct path *path;        /* the usual one */
    struct path *packet_path; /* one that shares no memory, opened when asked for */
    struct list queue;        /* sends that still have packets to send, oldest first */
    struct list blocked;      /* link in p2p.blocked while the queue is not empty */
    struct receive *incoming; /* the message whose stream is under way */
    bool lead_unwanted;       /* ... was a lead, and the whole message is fetched */
    size_t pulled;            /* messages to it whose data it fetches */
    bool replied;             /* there was one since data of its was fetched */
    struct list receives;     /* all receives from this peer that are not finished */
    uint32_t markers;         /* of those, fences that wait */
    bool unfenced;            /* messages were sent that no fence has covered, ... */
    bool turned;              /* ... for the endpoint's next life: the one before is over */
    bool lost;                /* something of this epoch may never be complete */
    uint32_t epoch;           /* counts the fences */
    pami_result_t put_result; /* of the put whose packets come from there */
    bool refused;             /* it sent us messages that were not delivered */
    size_t puts;              /* one-sided writes to it that are not complete, waiting ones too */
    bool refuses_access;      /* cannot tell whether its memory may be touched */
    size_t puts_moving;       /* of those, begun and not by packets */
    struct list puts_abreast; /* struct rma: of puts_moving, those between regions */
    size_t puts_packets;      /* of those, begun and by packets: */
    struct list puts_sent;    /* struct rma: these */
    struct list puts_waiting; /* struct rma, in the order of the calls */
    size_t outstanding;       /* operations of this epoch that are not complete */
    struct list fences;       /* struct fence_wait of earlier epochs, oldest first */
    struct race *races; /* RACE_SIZES of them, as many for data in its heap, NULL until needed */
};

/* The source of a typed send. */
struct typed_source {
    struct type *type;
    struct type_cursor cursor;
    pami_data_function function;
    void *cookie;
};

/* A message that outlives its call, or a bare answer. */
struct send {
    struct operation op;
    uint8_t protocol; /* of its first packet: MESSAGE for all messages, or a bare answer */
    bool immediate;
    bool announced;    /* its MESSAGE packet has gone */
    bool pulled;       /* counts in peer->pulled */
    bool data_phase;   /* push: CLEAR has come, DATA packets go out */
    bool local_done;   /* local_fn is due already or has run */
    uint16_t mode;     /* enum message_mode */
    uint16_t dispatch; /* answers: the result they carry */
    uint32_t target;   /* of answers and DATA packets: the peer's handle */
    union {
        struct clear_meta clear; /* of a CLEAR */
        uint64_t old;            /* of an RMW_REPLY: what the word was */
    };
    const char *header;
    size_t header_bytes;
    const char *data;
    size_t data_bytes;
    size_t lead;              /* pull: data bytes that go along all the same */
    size_t sent;              /* bytes of header and data that are under way */
    struct exposure exposure; /* pull: of the data; id 0: all memory can be read anyway */
    struct typed_source *typed;
    char *copy; /* owned memory behind header, and data when that was copied */
    pami_send_event_t events;
};

/* A message on its way in that one packet did not complete, or that had to be held. */
struct receive {
    enum operation_kind kind;
    bool fence; /* a FENCE packet: waits for the receives before it */
    bool immediate;
    bool held;       /* in its dispatch row's list */
    bool dispatched; /* the user's function has been called */
    bool deferred;   /* waits for message_resume */
    bool put_back;   /* no memory for it: message_put_back */
    bool pushing;    /* CLEAR was sent */
    bool fetching;   /* an asynchronous get is under way */
    bool sinking;    /* `sink` is initialised */
    uint16_t mode;
    uint16_t dispatch;
    uint32_t handle; /* for DATA packets, 0 else */
    uint32_t answer; /* the sender's handle, 0: wants no answer */
    struct peer *peer;
    struct list link;  /* in peer->receives */
    struct list queue; /* in the row's held list, or in p2p.pulls */
    size_t header_bytes, header_got;
    size_t data_bytes, data_got;
    size_t lead, lead_got; /* pull: of the data before what is fetched, come in STREAM packets */
    uint64_t address;
    struct exposure exposure; /* pull: of the data there, id 0: of no need */
    uint64_t moved_said;      /* pull: what had moved when its sender was told last, ... */
    uint64_t say_at;          /* ... and when it may be told again, ns; 0: it has not begun */
    char *header;             /* owned, header_bytes long; NULL when header_bytes == 0 */
    char *buffer;             /* owned: data of a held or an immediate message */
    size_t counted;           /* bytes that count as held, of data, header and of this itself */
    char *target;             /* contiguous destination, NULL: through the sink, or discarded */
    bool discard;
    pami_result_t result; /* found out before its end, ... */
    char *text;           /* ... from error_copy, owned */
    pami_recv_t recv;
    struct type *type;
    struct type_sink sink;
    struct transfer transfer;
    char *bounce;
    size_t bounce_bytes;
    struct race *race; /* that it takes part in; NULL: none */
    uint32_t race_ticket;
    struct context *context;
};

struct p2p {
    struct context *context;
    struct u64map peers;
    struct peer *last; /* the peer last used */
    struct pool sends, receives;
    struct send *spare; /* for an answer, when there is no memory; NULL: see p2p_stop */
    struct handle_table handles;
    struct list blocked;       /* peers with a queue */
    struct list pulls;         /* receives that copy data */
    struct receive *collected; /* with header and data, is with its handler; NULL: none */
    struct list released;      /* dispatch rows whose held messages may be delivered */
    struct list copies;        /* one-sided transfers that go on by themselves */
    size_t copy_count;         /* of those */
    struct retry retry;        /* on the context's list while one of these has something to do */
    struct list moving;        /* one-sided transfers that the device is busy with */
    struct pool rmas, serves;
    struct rma_batch *batch; /* NULL until needed */
    int32_t pid;
    bool continuing;     /* inside rma.c's puts_continue */
    bool copies_refused; /* of this task's own memory by system calls, see rma_target.c */
    bool fencing;        /* between PAMI_Fence_begin and _end */
    bool lost;           /* as in peer, for one that has gone and never was a peer ... */
    uint32_t lost_to;    /* ... the last such */
    size_t rendezvous_bytes;
    bool rendezvous_chosen; /* by the user: devices are not asked for their opinion */
    size_t moved;           /* receives whose data a mover fetches */
    size_t exposed;         /* sends whose data is exposed */
    size_t held_bytes, hold_limit;
    struct list watches; /* of floors above: who goes */
    uint64_t packets;    /* sent for operations, to see whether they move */
    struct pool rmws;
    struct probe_range program, heap;    /* what is always writable; heap: once it is known */
    uint64_t probed_page, probed_moment; /* what was found writable, and when: rmw.c */
    bool draining;
    struct peer *owed_peer; /* is to have ... */
    uint32_t owed;          /* ... this answer, after the callback that runs; 0: no answer */
};

/* Before a function of the program that is no dispatch function runs within a pass: it may unmap
 * what rmw.c has found writable. */
static inline void p2p_distrust(struct p2p *p2p)
{
    p2p->probed_moment = 0;
}

/* Around a callback that the peer, or a packet's sender, is to have an answer for even if it never
 * returns. */
static inline void p2p_owe(struct p2p *p2p, struct peer *peer, uint32_t answer)
{
    p2p->owed_peer = peer;
    p2p->owed = answer;
}

/* False: as p2p_origin says NULL. */
bool p2p_owe_origin(struct p2p *p2p, const struct packet_header *head);
void p2p_answer_origin(struct p2p *p2p, const struct packet_header *head);

/* Data up to this goes along with the message. */
static inline size_t p2p_eager_bytes(const struct p2p *p2p, const struct path *path)
{
    return path->eager_bytes != 0 && !p2p->rendezvous_chosen ? path->eager_bytes
                                                             : p2p->rendezvous_bytes;
}

/* Tasks need not take turns: whoever is asked for something is running. */
static inline bool p2p_has_processors(const struct p2p *p2p)
{
    return p2p->context->core->yield != YIELD_SOON;
}

/* p2p.c */
int p2p_attach(struct context *context);
void p2p_detach(struct context *context);
struct peer *peer_open(struct p2p *p2p, uint32_t endpoint, unsigned how, int *error);
struct peer *peer_of_origin(struct p2p *p2p, uint32_t endpoint, int *error);
int peer_packet_path(struct p2p *p2p, struct peer *peer, struct path **path);
void p2p_retry_later(struct p2p *p2p);

/* Packets that want an answer are not read until there is memory for one. */
void p2p_stop(struct p2p *p2p);

/* Send what is under way and can still arrive; ends when nothing has moved for `seconds`. */
void p2p_drain(struct context **contexts, size_t count, double seconds);

/* NULL with *error set: no such endpoint, out of memory, gone for good (-EPIPE). */
static inline struct peer *peer_get_how(struct p2p *p2p, uint32_t endpoint, unsigned how,
                                        int *error)
{
    struct peer *peer = p2p->last;

    if (likely(peer != NULL && peer->endpoint == endpoint && !peer->gone))
        return peer;
    return peer_open(p2p, endpoint, how, error);
}

static inline struct peer *peer_get(struct p2p *p2p, uint32_t endpoint, int *error)
{
    return peer_get_how(p2p, endpoint, 0, error);
}

/* Why peer_get or peer_packet_path found none: `error` as a result, with a text. */
pami_result_t p2p_no_peer(const char *function, uint32_t endpoint, const struct p2p *p2p,
                          int error);

/* Endpoint of a context that its task may have. */
bool p2p_is_valid(const struct client_core *core, uint32_t endpoint);

/* rma.c */
int rma_progress(struct p2p *p2p);
void rma_peer_gone(struct p2p *p2p, struct peer *peer);
/* Some have not begun: they wait for others, perhaps only to be told that those have arrived. */
bool rma_puts_wait(const struct p2p *p2p);
void rma_drop_begun(struct p2p *p2p);
uint64_t rma_steps(const struct p2p *p2p); /* another number when one that is under way gets on */
void rma_peer_free(struct p2p *p2p, struct peer *peer);
void rma_finish(struct p2p *p2p);

/* rma_packets.c, rma_target.c, rma_ask.c */
protocol_handler rma_handle_put;
protocol_handler rma_handle_get;
protocol_handler rma_handle_reply;
protocol_handler rma_handle_ask;

/* memregion.c: no context of the client is left. */
void memregions_free(struct client_core *core);

/* fence.c */
protocol_handler fence_handle;
void fence_receives_left(struct p2p *p2p, struct peer *peer);
void fence_receives_drop(struct p2p *p2p, struct peer *peer);
void fence_operation_ended(struct p2p *p2p, struct peer *peer, uint32_t epoch,
                           pami_result_t result);
void fences_free(struct peer *peer);
/* Messages that no fence has covered may be lost: all, or those for a life that is over. */
void fence_messages_lost(struct peer *peer);
void fence_turn(struct peer *peer);
/* A call was accepted whose destination has gone: nothing of it will happen. */
void fence_refused(struct p2p *p2p, uint32_t endpoint);

/* An operation begins that is not complete at `peer` yet. Returns what operation_end wants. */
static inline uint32_t operation_begin(struct peer *peer)
{
    peer->outstanding++;
    return peer->epoch;
}

/* It is complete at the peer, or has failed for good. Errors of its own are no matter of fences;
 * PAMI_SHUTDOWN, or that the peer has gone: what became of it will never be known. */
static inline void operation_end(struct p2p *p2p, struct peer *peer, uint32_t epoch,
                                 pami_result_t result)
{
    if (unlikely(epoch != peer->epoch)) {
        fence_operation_ended(p2p, peer, epoch, result);
        return;
    }
    peer->outstanding--;
    if (unlikely(result != PAMI_SUCCESS))
        peer->lost = peer->lost || peer->gone || result == PAMI_SHUTDOWN;
}

/* rmw.c */
void rmw_attach(struct p2p *p2p);
protocol_handler rmw_handle;
protocol_handler rmw_handle_reply;

/* outgoing.c */
struct send *send_new(struct p2p *p2p, struct peer *peer);
void send_to_be_pulled(struct send *send);
bool send_expose(struct p2p *p2p, struct send *send);
void send_conceal(struct p2p *p2p, struct send *send);
bool send_is(const struct operation *operation);
/* Tells a peer that the context ends, as the end itself will. */
bool send_is_refusal(const struct operation *operation);
void send_free(struct p2p *p2p, struct send *send);
int peer_progress(struct p2p *p2p, struct peer *peer);
void p2p_answer(struct p2p *p2p, struct peer *peer, uint32_t handle, pami_result_t result);
/* The same for an atomic operation: what the word was before it. */
void p2p_answer_old(struct p2p *p2p, struct peer *peer, uint32_t handle, uint64_t old);
/* The result that a peer has answered `what` with; unless it is success, with a text. */
pami_result_t p2p_answered(const char *what, const struct peer *peer, unsigned answer);
/* False: no memory. */
bool p2p_clear(struct p2p *p2p, struct receive *receive);
void p2p_reset(struct p2p *p2p, struct peer *peer);
protocol_handler p2p_handle_ack;
protocol_handler p2p_handle_clear;

/* send_later.c */
/* Messages of up to so many bytes, header and data, of which nobody is told anything. */
#define SEND_LATER_BYTES 104u

static inline bool send_fits_later(const struct path *path, const pami_send_immediate_t *send)
{
    size_t total = send->header.iov_len + send->data.iov_len;

    return total <= SEND_LATER_BYTES && total <= path->packet_max && total >= send->data.iov_len;
}

/* Copied, and sent as soon as there is room, by `path`, where it fits. 0 or -ENOMEM. */
int send_later(struct p2p *p2p, struct peer *peer, struct path *path,
               const pami_send_immediate_t *send);
/* PAMI_Send_immediate of what might take the short cut, but for the queue. False: nothing done. */
bool send_behind(struct context *context, struct peer *peer, const struct dispatch *row,
                 const pami_send_immediate_t *send);

/* receive.c */
struct receive *receive_new(struct p2p *p2p, struct peer *peer, const struct packet_header *head,
                            const struct message_meta *meta, bool keep_header);
void receive_free(struct p2p *p2p, struct receive *receive);
/* The user, who has seen the dispatch, learns of the end. `answer`: what the sender is to have even
 * if the user's function never returns; 0: nothing. */
void receive_tell(struct p2p *p2p, struct peer *peer, const pami_recv_t *recv, uint32_t answer,
                  pami_result_t result);
/* Tell the user and the sender, and forget the message. */
void receive_finish(struct p2p *p2p, struct receive *receive, pami_result_t result);

/* incoming.c */
/* Where a packet is from. NULL: nothing is to be done about the packet; where there is no memory
 * for the peer it comes again. So a handler asks for it before it does anything. */
struct peer *p2p_origin(struct p2p *p2p, const struct packet_header *head);
protocol_handler p2p_handle_immediate;
protocol_handler p2p_handle_message;
protocol_handler p2p_handle_stream;
protocol_handler p2p_handle_reset;
void receive_deliver(struct p2p *p2p, struct receive *receive);
void receive_open(struct receive *receive);
void receive_take(struct receive *receive, const char *bytes, size_t count);
void receive_feed(struct p2p *p2p, struct receive *receive, const char *bytes, size_t count);

/* hold.c */
bool p2p_hold(struct p2p *p2p, struct receive *receive);
/* `bytes` more of it wait for its id; it does not wait any more. */
void receive_held_more(struct p2p *p2p, struct receive *receive, size_t bytes);
void receive_held_less(struct p2p *p2p, struct receive *receive);
int p2p_deliver_held(struct p2p *p2p);
void p2p_hold_again(struct p2p *p2p, struct receive *receive);
void p2p_release(struct p2p *p2p, struct dispatch *row);

static inline bool message_must_wait(const struct dispatch *row)
{
    return row == NULL || row->function == NULL || dispatch_has_held(row);
}

/* heap.c */
/* All of it is in this task's shared heap. */
bool p2p_in_heap(struct p2p *p2p, const void *address, size_t bytes);
/* The path's destination can probably read this memory of this task by a get. */
bool p2p_is_readable(struct p2p *p2p, const struct path *path, const void *address, size_t bytes);

/* rendezvous.c */
protocol_handler p2p_handle_data;
void rendezvous_lead(struct p2p *p2p, struct receive *receive, const char *bytes, size_t count);
void rendezvous_begin(struct p2p *p2p, struct receive *receive);
int rendezvous_progress(struct p2p *p2p);

#endif
