/* Forwards to the header proper, so that both <pami.h> and <pami/pami.h> work. */
#include "pami/pami.h"
