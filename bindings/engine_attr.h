// Queue pair attributes between Python dicts and the engine's structs. Keys are the member names of
// engine::QpAttr, times end in _ns. Unknown keys and wrong types are errors of the caller: nb::value_error /
// nb::type_error.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/types.h"

namespace mrc::bindings {

engine::QpAttr qp_attr_from(const nanobind::dict& d);
nanobind::dict to_dict(const engine::QpAttr& a);
engine::QpInit qp_init_from(const nanobind::dict& d);
cc::CcConfig cc_config_from(const nanobind::dict& d);
ev::TableConfig table_config_from(const nanobind::dict& d);
nanobind::dict to_dict(const cc::CcConfig& c);

nanobind::dict to_dict(const engine::QpStats& s);
nanobind::dict to_dict(const engine::EndpointStats& s);
nanobind::dict to_dict(const engine::PathStats& s);
nanobind::dict to_dict(const engine::Event& e);

// Reads typed members of a dict and knows which were asked for.
class DictReader {
 public:
  DictReader(const nanobind::dict& d, const char* what) : dict_(d), what_(what) {}

  // True when the key is there and not None.
  template <typename T>
  bool read(const char* key, T& into) {
    asked_.push_back(key);
    if (!dict_.contains(key)) return false;
    const nanobind::object value = dict_[key];
    if (value.is_none()) return false;
    if (!nanobind::try_cast<T>(value, into)) {
      throw nanobind::value_error(
          (std::string(what_) + ": " + key + " has a wrong type or is out of range").c_str());
    }
    return true;
  }
  template <typename T>
  void read(const char* key, std::optional<T>& into) {
    T value{};
    if (read(key, value)) into = std::move(value);
  }
  void read(const char* key, base::Duration& into) { read(key, into.ns); }
  void read(const char* key, std::optional<base::Duration>& into) {
    base::Duration d;
    if (read(key, d.ns)) into = d;
  }
  // Throws for a key that nobody asked for.
  void finish() const {
    for (const auto& [k, v] : dict_) {
      const auto key = nanobind::cast<std::string>(k);
      if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
        throw nanobind::value_error((std::string(what_) + ": unknown member '" + key + "'").c_str());
      }
    }
  }

 private:
  const nanobind::dict& dict_;
  const char* what_;
  std::vector<std::string> asked_;
};

}  // namespace mrc::bindings
