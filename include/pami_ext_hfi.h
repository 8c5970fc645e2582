/* Forwards to the header proper, so that both <pami_ext_hfi.h> and <pami/pami_ext_hfi.h> work. */
#include "pami/pami_ext_hfi.h"
