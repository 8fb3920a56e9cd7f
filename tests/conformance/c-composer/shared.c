// The steps that both probes have.
#include "../c/arguments.c"
#include "../c/common.c"
#include "../c/ends.c"
