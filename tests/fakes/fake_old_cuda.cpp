// SPDX-License-Identifier: Apache-2.0
// A driver from before CUDA 12: the first functions are there, cuLibraryLoadData is not.
// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
#define FAKE_API extern "C" __attribute__((visibility("default")))

FAKE_API int cuInit(unsigned int) { return 0; }
FAKE_API int cuDriverGetVersion(int* version) {
  *version = 11040;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
