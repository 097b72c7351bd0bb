// SPDX-License-Identifier: Apache-2.0
#include "config_describer.hpp"

#include "config_fields.hpp"

namespace moegen {

void ConfigDescriber::add(const Field& field, Allowed allowed, nlohmann::json standard, bool is_section) {
  fields_.push_back({prefix_ + "/" + std::string(field.name), field.doc, std::move(allowed), std::move(standard),
                     field.derived, field.required, is_section});
}

void ConfigDescriber::format(const Field& field, int supported) {
  const std::array<std::int64_t, 1> values = {supported};
  add(field, allowed_integers(values), supported);
}

void ConfigDescriber::number(const Field& field, double value, const Interval& interval, bool null_is_default) {
  Allowed allowed = allowed_number(interval);
  add(field, null_is_default ? or_null(std::move(allowed)) : std::move(allowed), value);
}

void ConfigDescriber::expression(const Field& field, const Field& inputs, const std::optional<ExpressionConfig>&) {
  add(field, allowed_expression(), nullptr);
  add(inputs, allowed_inputs(), nlohmann::json::object());
}

const std::vector<FieldInfo>& all_fields() {
  static const std::vector<FieldInfo> fields = [] {
    ConfigDescriber describer;
    const ConfigFields defaults;
    visit_config(describer, defaults);
    return describer.take();
  }();
  return fields;
}

}  // namespace moegen
