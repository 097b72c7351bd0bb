// SPDX-License-Identifier: Apache-2.0
#include "support/json_output.hpp"

#include "support/standard_output.hpp"

namespace moegen::cli {

void print_json(const Json& object) {
  print(object.dump(2, ' ', false, nlohmann::detail::error_handler_t::replace) + "\n");
}

}  // namespace moegen::cli
