// The layers of a vector file in terms of the engine's codec. Throws std::invalid_argument on what does not
// fit.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "base/bytes.h"

namespace mrc::bindings {

namespace nb = nanobind;

std::vector<uint8_t> encode_layer(const std::string& layer, const nb::dict& fields);
nb::dict decode_layer(const std::string& layer, base::ByteView bytes);
// Facts a decoder must also produce about these bytes; the keys that vectors call "derived".
nb::dict derive_layer(const std::string& layer, const nb::dict& fields, base::ByteView bytes);
// Reference 2.17 in order: {"result": "ok" | "drop" | "nack", ...}.
nb::dict classify_layer(const std::string& layer, base::ByteView bytes, const nb::dict& context);
// Arithmetic of reliability/ and cc/ chosen by the names of `fields` (layer CALC).
nb::dict calculate(const nb::dict& fields);

}  // namespace mrc::bindings
