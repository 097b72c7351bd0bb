// SPDX-License-Identifier: Apache-2.0
// The matrix product of tests/cpu/kernels/matmul.cuh on a GPU; tests/cpu/test_matmul.cpp runs the same text.
#include <doctest/doctest.h>

#include <algorithm>

#include "cpu/matmul.hpp"
#include "gpu/device_test.hpp"
#include "support/gpu_text.hpp"

using namespace moegen;

TEST_CASE("the matrix product gives the reference on sm_90a") {
  test::require_device();
  const cuda::DeviceInfo device = cuda::device_info(0);
  if (device.major != 9 || device.minor != 0) test::skip("the text is for sm_90a, this is " + device.label());
  const cuda::PrimaryContext context;
  const std::vector<std::string> entries = {test::matmul_entry(Dtype::bfloat16),
                                            test::matmul_entry(Dtype::float8_e4m3fn)};
  const test::GpuText text(test::matmul_text(), "matmul.cu", find_arch("sm_90a"), entries);
  for (Dtype element : {Dtype::bfloat16, Dtype::float8_e4m3fn}) {
    for (std::uint32_t grid : {1u, 3u, 132u}) {
      const test::MatmulProblem problem(element, 512, 384, 1024);
      REQUIRE(std::count(problem.c.begin(), problem.c.end(), 0.0f) <
              static_cast<std::ptrdiff_t>(problem.c.size() / 20));
      const auto a = cuda::DeviceBuffer::of(problem.a), b = cuda::DeviceBuffer::of(problem.b);
      const cuda::DeviceBuffer c(problem.c.size() * sizeof(float));
      c.fill(0xFF);
      test::MatmulArguments arguments{.a = cuda::encode_tensor_map(problem.map('a', a.data())),
                                      .b = cuda::encode_tensor_map(problem.map('b', b.data())),
                                      .c = c.data<float>(),
                                      .m = problem.m,
                                      .n = problem.n,
                                      .k = problem.k};
      void* parameters[] = {&arguments};
      text.run(test::matmul_entry(element),
               {.grid = grid, .block = test::kMatmulThreads, .shared_bytes = test::kMatmulSharedBytes}, parameters);
      CHECK(problem.num_wrong(c.to_vector<float>()) == 0);
    }
  }
}
