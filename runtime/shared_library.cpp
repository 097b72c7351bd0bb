// SPDX-License-Identifier: Apache-2.0
#include "shared_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace moegen {
namespace {

std::string resolved_path(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  const bool known =
      dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map && map->l_name && *map->l_name;
  return known ? map->l_name : asked;
}

}  // namespace

std::unique_ptr<SharedLibrary> SharedLibrary::open(const std::string& file, std::string& why) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* message = dlerror();
    why = message ? message : "dlopen failed without a message";
    return nullptr;
  }
  return std::unique_ptr<SharedLibrary>(new SharedLibrary(handle, resolved_path(handle, file)));
}

void* SharedLibrary::find(const char* symbol) const noexcept { return dlsym(handle_, symbol); }

std::string folder_of_this_code() {
  Dl_info info{};
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<const void*>(&folder_of_this_code), &info, reinterpret_cast<void**>(&map),
               RTLD_DL_LINKMAP) ||
      !map)
    return "";
  // The loader leaves the main program's name empty, and argv[0] need not be a path.
  const char* file = map->l_name && *map->l_name ? map->l_name : "/proc/self/exe";
  std::error_code error;
  const auto path = std::filesystem::canonical(file, error);
  return error ? "" : path.parent_path().string();
}

}  // namespace moegen
