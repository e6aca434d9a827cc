#include "testing/check.h"

MRC_TEST_MAIN()
