/*
 * The PMI-1 server: what a job's tasks say to one another at start-up.
 *
 * Pure: bytes from tasks in, bytes for tasks out; knows no sockets and no processes, so that it can
 * be tested with any input.  Nothing a task sends can harm the server or another task's session:
 * text that is not PMI-1 makes the task `broken`, its further input is ignored and the owner told.
 */
#ifndef PAMIRUN_SERVER_H
#define PAMIRUN_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/pmi1_line.h"
#include "cards.h"

/* One task's session. */
struct peer {
    size_t have; /* bytes of an unfinished line in `line` */
    size_t answer_have, answer_room;
    char *answers; /* not yet sent */
    uint32_t era;  /* number of inits so far: programs that ran one after another */
    bool waiting;  /* in the barrier */
    bool excused;  /* no barrier waits for it any more */
    bool gone;     /* will say no more */
    bool broken;   /* said something that is not PMI-1 */
    bool spawning; /* inside mcmd=spawn ... endcmd */
    char line[PMI1_LINE_MAX];
};

/* What the owner of a server is told.  From inside these only server_sent may be called. */
struct server_events {
    void (*answer)(void *cookie, uint32_t task); /* there is something to send */
    void (*abort)(void *cookie, uint32_t task, int code);
    void (*broken)(void *cookie, uint32_t task, const char *why);
};

/*
 * The last of the peers may be communication servers, which take part in the start of the first
 * client only: one that puts a card whose name begins with SERVER_EXCUSE is excused from then on.
 *
 * Invariants: `waiting` counts the peers in the barrier, `excused` those that never are again; both
 * together are below tasks between calls; when a peer that does neither is gone, nobody waits.
 */
#define SERVER_EXCUSE "pami-serving-"

struct server {
    uint32_t tasks, waiting, excused;
    uint32_t helpers; /* from this one on they are communication servers; set by the owner */
    uint32_t gone;    /* the first task that has gone; tasks: none */
    struct peer *peers;
    struct cards cards, services;
    const struct server_events *events;
    void *cookie;
    char space[64]; /* the job's name */
};

/* 0 or -ENOMEM.  `map` is the text of PMI_process_mapping. */
int server_open(struct server *server, uint32_t tasks, const char *space, const char *map,
                const struct server_events *events, void *cookie);
void server_close(struct server *server);

/* Bytes from a task, cut anywhere. */
void server_input(struct server *server, uint32_t task, const char *bytes, size_t count);

/* The task has ended, or closed its socket: whoever waits for it in the barrier is told. */
void server_gone(struct server *server, uint32_t task);

/* Bytes of the answers sent. */
void server_sent(struct server *server, uint32_t task, size_t count);

/* Sets a card on behalf of the launcher. */
int server_card(struct server *server, const char *key, const char *value);

#endif
