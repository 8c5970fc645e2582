#!/bin/bash
# The same over the loopback interface, between pretended nodes: all cases of test/net/loopback.sh.
#
# Run: timeout=1800
exec bash "$(dirname "$0")/../net/loopback.sh" all
