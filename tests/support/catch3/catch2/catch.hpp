// Catch2 from version 3 on, under the header's name of version 2: what the tests use has the same names.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;
