/* Forwards to the header proper, so that both <pamix.h> and <pami/pamix.h> work. */
#include "pami/pamix.h"
