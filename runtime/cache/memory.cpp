// SPDX-License-Identifier: Apache-2.0
#include "cache/memory.hpp"

#include <mutex>

namespace moegen::cache {

std::shared_ptr<const Entry> Memory::find(const std::string& key, std::string_view compiler) const {
  const std::shared_lock lock(mutex_);
  return find_locked(key, compiler);
}

std::shared_ptr<const Entry> Memory::find_locked(const std::string& key, std::string_view compiler) const {
  const auto found = answers_.find(key);
  if (found == answers_.end()) return nullptr;
  for (const Answer& answer : found->second) {
    if (compiler.empty() || answer.compiler == compiler) return answer.entry;
  }
  return nullptr;
}

std::shared_ptr<const Entry> Memory::insert(const std::string& key, std::string_view compiler,
                                            std::shared_ptr<const Entry> entry) {
  const std::unique_lock lock(mutex_);
  if (auto known = find_locked(key, compiler)) return known;
  std::vector<Answer>& answers = answers_[key];
  if (answers.empty()) order_.push_back(key);
  answers.push_back({std::string(compiler), entry});
  bytes_ += entry->payload.size();
  while (bytes_ > max_bytes_ && order_.size() > 1) forget_oldest();
  return entry;
}

void Memory::forget_oldest() {
  const auto oldest = answers_.find(order_.front());
  for (const Answer& answer : oldest->second) bytes_ -= answer.entry->payload.size();
  answers_.erase(oldest);
  order_.pop_front();
}

}  // namespace moegen::cache
