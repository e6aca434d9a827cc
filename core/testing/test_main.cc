// main() of every test binary.
#include "testing/check.h"

MRC_TEST_MAIN()
