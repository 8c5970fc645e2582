/*
 * Handing a file descriptor to the other tasks of the host, over an abstract Unix socket.
 *
 * Both ends check that the other runs as the same user. Every wait has a time limit.
 */
#ifndef LIBPAMI_DEVICE_SHM_HANDOFF_H
#define LIBPAMI_DEVICE_SHM_HANDOFF_H

#include <stdint.h>

/* Listen under an abstract name. The socket, or negative errno (-EADDRINUSE: taken). */
int handoff_listen(const char *name);

/*
 * Give `fd` to members 1..members-1, each exactly once, and close the listening socket. Strangers
 * are sent away and counted as nothing. -ETIMEDOUT: *missing is one that did not come.
 */
int handoff_serve(int listener, int fd, uint32_t members, double seconds, uint32_t *missing);

/* Get the descriptor as member `self`. */
int handoff_fetch(const char *name, uint32_t self, double seconds, int *fd);

#endif
