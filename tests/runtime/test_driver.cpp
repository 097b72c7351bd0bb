// SPDX-License-Identifier: Apache-2.0
// Loading the driver, the words of its failures, and the owners of device things.
#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <moegen/error.hpp>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "fakes/fake_cuda.hpp"

using namespace moegen;
using namespace moegen::cuda;

namespace {

std::string why_not(const std::string& file) {
  std::string why;
  CHECK(load_driver(file, why) == nullptr);
  return why;
}

struct Fresh {
  Fresh() { fake::reset(); }
  ~Fresh() { CHECK(fake::num_live_handles() == 0); }
};

}  // namespace

TEST_CASE_FIXTURE(Fresh, "a machine without a driver is told how to get one") {
  CHECK(why_not("libnodriver.so.1") ==
        "no CUDA driver: libnodriver.so.1: cannot open shared object file: No such file or directory; install the "
        "NVIDIA driver (525.60 or later, for CUDA 12.0), or in a container start it with access to the GPUs");
}

TEST_CASE_FIXTURE(Fresh, "a driver that is too old is named with what it supports") {
  CHECK(why_not(FAKE_OLD_CUDA) == "'" FAKE_OLD_CUDA
                                  "' has no cuGetErrorName (it supports CUDA 11.4); moegen needs a "
                                  "driver for CUDA 12.0 or later (525.60)");
}

TEST_CASE_FIXTURE(Fresh, "a driver that does not start says so") {
  fake::cuda().fail["cuInit"] = 100;
  const std::string why = why_not("libcuda.so.1");
  CHECK(why.starts_with("the CUDA driver '"));
  CHECK(why.find("does not work: cuInit failed with an error unknown to this driver (100: no description); install") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(Fresh, "the driver is loaded once") {
  CHECK(find_driver() == &driver());
  CHECK(driver().version == 13000);
  CHECK(driver().path.find("libcuda.so") != std::string::npos);
}

TEST_CASE("a driver version reads as people write it") {
  CHECK(version_text(13000) == "13.0");
  CHECK(version_text(12090) == "12.9");
}

TEST_CASE_FIXTURE(Fresh, "a failed call names the object, the call and the result") {
  CHECK_NOTHROW(check(kSuccess, "cuThing", "thing"));
  try {
    check(kErrorInvalidValue, "cuThing", "thing 7");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::driver);
    CHECK(std::string(error.what()) == "thing 7: cuThing failed with CUDA_ERROR_INVALID_VALUE (1: invalid argument)");
  }
}

TEST_CASE_FIXTURE(Fresh, "a device tells its facts") {
  fake::cuda().devices = {fake::Device{},
                          fake::Device{.name = "Fake A100", .major = 8, .num_sms = 108, .clusters = false}};
  CHECK(num_devices() == 2);
  const DeviceInfo info = device_info(1);
  CHECK(info.label() == "device 1 (Fake A100, sm_80)");
  CHECK(info.num_sms == 108);
  CHECK_FALSE(info.clusters);
  CHECK(device_info(0).clusters);
  CHECK(device_info(0).l2_bytes == 60 << 20);
  CHECK(device_info(0).memory_bytes == std::uint64_t{141} << 30);
  CHECK_THROWS_AS(device_info(2), Error);
}

TEST_CASE_FIXTURE(Fresh, "no device at all is a count of zero") {
  fake::cuda().devices.clear();
  CHECK(num_devices() == 0);
  fake::cuda().fail["cuDeviceGetCount"] = 100;
  CHECK(num_devices() == 0);
}

TEST_CASE_FIXTURE(Fresh, "a thread without a context is told to make one current") {
  fake::set_current_device(-1);
  CHECK_THROWS_WITH_AS(
      current_device(),
      "no CUDA context is current on this thread; make one current first (cudaSetDevice, cuCtxSetCurrent)", Error);
}

TEST_CASE_FIXTURE(Fresh, "a primary context is current while it lives and the former one comes back") {
  fake::cuda().devices.resize(3);
  fake::set_current_device(2);
  {
    const PrimaryContext context(1);
    CHECK(current_device() == 1);
  }
  CHECK(current_device() == 2);
  fake::cuda().fail["cuCtxSetCurrent"] = 201;
  CHECK_THROWS_AS(PrimaryContext(1), Error);  // and releases what it retained: Fresh counts
}

TEST_CASE_FIXTURE(Fresh, "device memory comes back as it went") {
  const std::vector<std::uint32_t> values = {1, 2, 3, 0xFFFFFFFFu};
  const auto buffer = DeviceBuffer::of(values);
  CHECK(buffer.size() == 16);
  CHECK(buffer.to_vector<std::uint32_t>() == values);
  const Stream stream;
  const DeviceBuffer other(16);
  copy(other, buffer, 16, stream);
  CHECK(other.to_vector<std::uint32_t>() == values);
  buffer.fill(0xAB);
  CHECK(buffer.to_vector<std::uint8_t>() == std::vector<std::uint8_t>(16, 0xAB));
  other.fill(0xCD, stream);
  CHECK(other.to_vector<std::uint8_t>() == std::vector<std::uint8_t>(16, 0xCD));
}

TEST_CASE_FIXTURE(Fresh, "an empty buffer owns nothing and can be used all the same") {
  const DeviceBuffer empty(0);
  CHECK(empty.data() == nullptr);
  CHECK(empty.to_vector<int>().empty());
  CHECK_NOTHROW(empty.fill(1));
  CHECK(fake::num_live_handles() == 0);
}

TEST_CASE_FIXTURE(Fresh, "a copy past the end of a buffer is refused") {
  const DeviceBuffer buffer(8);
  int value = 0;
  CHECK_THROWS_WITH_AS(buffer.upload(&value, 4, 5), "device buffer: upload of 4 bytes at 5 runs past its end at 8",
                       Error);
  CHECK_THROWS_WITH_AS(buffer.download(&value, 4, SIZE_MAX),
                       "device buffer: download of 4 bytes at 18446744073709551615 runs past its end at 8", Error);
  const DeviceBuffer small(4);
  CHECK_THROWS_AS(copy(small, buffer, 8, Stream()), Error);
}

TEST_CASE_FIXTURE(Fresh, "device memory that cannot be had is an error with its size") {
  fake::cuda().fail["cuMemAlloc"] = 1;
  CHECK_THROWS_WITH_AS(
      DeviceBuffer(1000),
      "device buffer of 1000 bytes: cuMemAlloc failed with CUDA_ERROR_INVALID_VALUE (1: invalid argument)", Error);
}

TEST_CASE_FIXTURE(Fresh, "owners move") {
  DeviceBuffer a(8);
  const auto* address = a.data();
  DeviceBuffer b(std::move(a));
  CHECK(b.data() == address);
  DeviceBuffer c(4);
  c = std::move(b);
  CHECK(c.data() == address);
  CHECK(c.size() == 8);
}

TEST_CASE_FIXTURE(Fresh, "events measure") {
  const Stream stream;
  const Event start, end;
  start.record(stream);
  end.record(stream);
  stream.wait(end);
  end.synchronize();
  CHECK(end.milliseconds_since(start) == 1.5f);
}

TEST_CASE_FIXTURE(Fresh, "a capture that throws is ended and its exception goes on") {
  const Stream stream;
  CHECK_THROWS_WITH_AS(Graph::capture(stream, [] { throw std::runtime_error("from inside"); }), "from inside",
                       std::runtime_error);
  CHECK_NOTHROW(Graph::capture(stream, [] {}).launch(stream));
}

TEST_CASE_FIXTURE(Fresh, "a graph that cannot be made leaves nothing behind") {
  const Stream stream;
  for (const char* call : {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphUpload"}) {
    fake::cuda().fail = {{call, 1}};
    CHECK_THROWS_AS(Graph::capture(stream, [] {}), Error);
  }
}
