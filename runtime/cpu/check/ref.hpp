// SPDX-License-Identifier: Apache-2.0
// Ref: shared ownership of what one host thread uses alone. std::shared_ptr counts atomically, and a barrier of a
// thousand threads moves a thousand owners.
#pragma once

#include <cstdint>
#include <utility>

namespace moegen::cpu {

/// Base of what a Ref holds.
struct Counted {
  std::uint32_t owners = 0;
  Counted() = default;
  Counted(const Counted&) noexcept {}  // a copy has owners of its own
  Counted& operator=(const Counted&) = delete;
};

template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) noexcept : object_(object) { own(); }
  Ref(const Ref& other) noexcept : object_(other.object_) { own(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && --object_->owners == 0) delete object_;
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  bool operator==(const Ref& other) const noexcept = default;
  /// The object, made this owner's alone: a copy where others own it too, a new one where there is none.
  T& writable() {
    if (object_ == nullptr) {
      *this = Ref(new T());
    } else if (object_->owners > 1) {
      *this = Ref(new T(*object_));
    }
    return *object_;
  }

 private:
  void own() const noexcept {
    if (object_ != nullptr) ++object_->owners;
  }

  T* object_ = nullptr;
};

}  // namespace moegen::cpu
