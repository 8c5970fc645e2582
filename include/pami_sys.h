/* Forwards to the header proper, so that both <pami_sys.h> and <pami/pami_sys.h> work. */
#include "pami/pami_sys.h"
