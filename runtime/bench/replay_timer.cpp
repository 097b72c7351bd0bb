// SPDX-License-Identifier: Apache-2.0
#include "bench/replay_timer.hpp"

#include <algorithm>
#include <vector>

#include "bench/median.hpp"

namespace moegen::bench {
namespace {

constexpr int kWarmUps = 3;
constexpr int kReplays = 15;
constexpr double kGraphUs = 1500;
constexpr int kMostLaunches = 200;

// Microseconds on the device of what `work()` puts on the stream: the median of kReplays.
template <class Work>
double median_us(const cuda::Stream& stream, const Work& work) {
  const cuda::Event start, end;
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + kReplays; ++i) {
    start.record(stream);
    work();
    end.record(stream);
    end.synchronize();
    if (i >= kWarmUps) times.push_back(1e3 * end.milliseconds_since(start));
  }
  return median(times);
}

double median_replay_us(const cuda::Graph& graph, const cuda::Stream& stream) {
  return median_us(stream, [&] { graph.launch(stream); });
}

}  // namespace

std::size_t num_sets(std::size_t bytes) {
  return std::clamp<std::size_t>(kRotatedBytes / std::max<std::size_t>(bytes, 1) + 1, 2, 16);
}

double time_us(const cuda::Stream& stream, std::size_t sets,
               const std::function<void(std::size_t, const cuda::Stream&)>& launch) {
  const auto graph_of = [&](int launches) {
    return cuda::Graph::capture(stream, [&] {
      for (int i = 0; i < launches; ++i) launch(static_cast<std::size_t>(i) % sets, stream);
    });
  };
  const int probe = 10;
  const double rough = median_replay_us(graph_of(probe), stream) / probe;
  const int launches = std::clamp(static_cast<int>(kGraphUs / std::max(rough, 0.5)), 5, kMostLaunches);
  return median_replay_us(graph_of(launches), stream) / launches;
}

double copy_gbps(const cuda::Stream& stream) {
  const std::size_t bytes = std::size_t{1} << 30;
  const cuda::DeviceBuffer source(bytes), destination(bytes);
  source.fill(1);
  const auto copy_once = [&](std::size_t, const cuda::Stream& on) { copy(destination, source, bytes, on); };
  // The driver takes different ways for a copy in a stream and for one in a graph; the faster is the roof.
  const double us = std::min(time_us(stream, 1, copy_once), median_us(stream, [&] { copy_once(0, stream); }));
  return 2.0 * static_cast<double>(bytes) / us / 1e3;
}

}  // namespace moegen::bench
