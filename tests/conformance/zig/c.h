// What of C the probe uses: the SDK, and what a C library has.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <windlass.h>
