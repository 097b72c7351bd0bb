// SPDX-License-Identifier: Apache-2.0
// A cubin is an ELF64 file of machine EM_CUDA. NVIDIA does not document its ".nv.info" sections; the numbers below were
// found by compiling kernels with known properties with CUDA 12.9 and 13.0 (tests/cli/test_cubin_info.cpp keeps one),
// so an unknown or odd record is skipped rather than refused.
#include "cubin_info.hpp"

#include <fmt/core.h>

#include <moegen/error.hpp>

#ifdef MOEGEN_WITH_LLVM

#include <llvm/Object/ELF.h>

#include <algorithm>
#include <map>

namespace moegen::cli {
namespace {

using llvm::ArrayRef;
using llvm::StringRef;
using Elf = llvm::object::ELFFile<llvm::object::ELF64LE>;
using Section = Elf::Elf_Shdr;
using Symbol = Elf::Elf_Sym;

// Attributes of ".nv.info" records.
constexpr unsigned kMaxThreads = 0x05, kRequiredThreads = 0x10, kFrameSize = 0x11, kParameterInfo = 0x17;
constexpr unsigned kParameterBytes = 0x19, kRegisterCount = 0x2f, kNumMbarriers = 0x38, kClusterSize = 0x3d;
constexpr unsigned kNumBarriers = 0x4c;

/// Shared memory of every block that belongs to the driver from sm_90 on; counted in the section, but not the kernel's.
constexpr std::uint64_t kReservedSharedBytes = 1024;
/// st_other of an entry point, as opposed to a device function.
constexpr unsigned kEntryPoint = 0x10;

/// One record: byte format, byte attribute, then 16 bits that are the value or, with format 4, the payload's length.
struct Record {
  unsigned attribute;
  unsigned value;             ///< where there is no payload
  ArrayRef<uint8_t> payload;  ///< empty where there is none

  std::size_t words() const { return payload.size() / 4; }
  unsigned word(std::size_t i) const { return llvm::support::endian::read32le(payload.data() + 4 * i); }
  /// The value, wherever it stands.
  unsigned number() const { return words() > 0 ? word(0) : value; }
};

std::vector<Record> records_of(ArrayRef<uint8_t> bytes) {
  constexpr unsigned kHasPayload = 4;
  std::vector<Record> records;
  while (bytes.size() >= 4) {
    const unsigned value = llvm::support::endian::read16le(bytes.data() + 2);
    Record record{bytes[1], value, {}};
    const bool has_payload = bytes[0] == kHasPayload;
    bytes = bytes.drop_front(4);
    if (has_payload) {
      record.payload = bytes.take_front(std::min<std::size_t>(value, bytes.size()));
      bytes = bytes.drop_front(record.payload.size());
    }
    records.push_back(record);
  }
  return records;
}

std::optional<std::array<unsigned, 3>> dimensions(const Record& record) {
  if (record.words() < 3) return std::nullopt;
  return std::array{record.word(0), record.word(1), record.word(2)};
}

class Reader {
 public:
  Reader(std::string_view bytes, std::string_view origin) : bytes_(bytes), origin_(origin), elf_(open()) {}

  CubinInfo read() {
    check_machine();
    read_sections();
    read_symbols();
    for (const auto& [name, section] : sections_) read_section(name, *section);
    info_.arch = arch();
    return std::move(info_);
  }

 private:
  Elf open() { return take(Elf::create(StringRef(bytes_.data(), bytes_.size()))); }

  template <class T>
  T take(llvm::Expected<T> value) {
    if (value) return std::move(*value);
    throw Error(ErrorCode::cache, fmt::format("{}: not a sound cubin: {}", origin_, llvm::toString(value.takeError())));
  }

  void check_machine() {
    if (elf_.getHeader().e_machine == llvm::ELF::EM_CUDA) return;
    throw Error(ErrorCode::config, fmt::format("{}: an ELF file for another machine ({}); allowed a cubin (190)",
                                               origin_, static_cast<unsigned>(elf_.getHeader().e_machine)));
  }

  void read_sections() {
    const auto sections = take(elf_.sections());
    const StringRef names = take(elf_.getSectionStringTable(sections));
    for (const Section& section : sections) {
      sections_.emplace_back(take(elf_.getSectionName(section, names)).str(), &section);
    }
  }

  void read_symbols() {
    for (const auto& [name, section] : sections_) {
      if (section->sh_type != llvm::ELF::SHT_SYMTAB) continue;
      const StringRef strings = take(elf_.getStringTableForSymtab(*section));
      for (const Symbol& symbol : take(elf_.symbols(section))) add_symbol(symbol, strings);
      return;
    }
  }

  void add_symbol(const Symbol& symbol, StringRef strings) {
    const std::size_t index = num_symbols_++;
    if (symbol.getType() != llvm::ELF::STT_FUNC || (symbol.st_other & kEntryPoint) == 0) return;
    kernel_of_symbol_[index] = info_.kernels.size();
    CubinKernel& kernel = info_.kernels.emplace_back();
    kernel.name = take(symbol.getName(strings)).str();
    kernel.code_bytes = symbol.st_size;
  }

  void read_section(const std::string& name, const Section& section) {
    if (name == ".nv.info") return read_file_info(section);
    if (name == ".note.nv.tkinfo") return read_tool_note(section);
    if (name.starts_with(".nv.info.")) return with_kernel(name.substr(9), &Reader::read_kernel_info, section);
    if (name.starts_with(".nv.shared.")) return with_kernel(name.substr(11), &Reader::read_shared, section);
  }

  void with_kernel(const std::string& name, void (Reader::*take_in)(CubinKernel&, const Section&),
                   const Section& section) {
    for (CubinKernel& kernel : info_.kernels) {
      if (kernel.name == name) (this->*take_in)(kernel, section);
    }
  }

  /// Records that name their kernel by its symbol.
  void read_file_info(const Section& section) {
    for (const Record& record : records_of(take(elf_.getSectionContents(section)))) {
      if (record.words() < 2) continue;
      const auto found = kernel_of_symbol_.find(record.word(0));
      if (found == kernel_of_symbol_.end()) continue;
      CubinKernel& kernel = info_.kernels[found->second];
      if (record.attribute == kRegisterCount) kernel.registers = record.word(1);
      if (record.attribute == kFrameSize) kernel.stack_bytes = record.word(1);
    }
  }

  void read_kernel_info(CubinKernel& kernel, const Section& section) {
    for (const Record& record : records_of(take(elf_.getSectionContents(section)))) {
      switch (record.attribute) {
        case kMaxThreads: kernel.max_threads = dimensions(record); break;
        case kRequiredThreads: kernel.required_threads = dimensions(record); break;
        case kClusterSize: kernel.cluster = dimensions(record); break;
        case kParameterBytes: kernel.parameter_bytes = record.number(); break;
        case kNumBarriers: kernel.barriers = record.number(); break;
        case kNumMbarriers: kernel.mbarriers = record.number(); break;
        case kParameterInfo: add_parameter(kernel, record); break;
        default: break;
      }
    }
  }

  /// Words: index of the constant bank's slot; position and offset, 16 bits each; flags with the size above bit 18.
  static void add_parameter(CubinKernel& kernel, const Record& record) {
    constexpr std::size_t kMostParameters = 4096;  // a launch takes at most 32,764 bytes of them
    if (record.words() < 3) return;
    const std::size_t position = record.word(1) & 0xffff;
    if (position >= kMostParameters) return;
    kernel.parameters.resize(std::max(kernel.parameters.size(), position + 1));
    kernel.parameters[position] = {record.word(1) >> 16, record.word(2) >> 18};
  }

  void read_shared(CubinKernel& kernel, const Section& section) {
    const bool reserved = flags_capability() >= 90 && section.sh_size >= kReservedSharedBytes;
    kernel.shared_bytes = section.sh_size - (reserved ? kReservedSharedBytes : 0);
  }

  /// Texts of the compiler: its name, version, build, and options with "-arch sm_90a".
  void read_tool_note(const Section& section) {
    const ArrayRef<uint8_t> bytes = take(elf_.getSectionContents(section));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    tool_arch_ = word_after(text, "-arch ");
    const std::size_t release = text.find("Cuda compilation tools");
    if (release != std::string_view::npos) info_.compiler = text.substr(release, text.find('\0', release) - release);
  }

  static std::string word_after(std::string_view text, std::string_view marker) {
    const std::size_t found = text.find(marker);
    if (found == std::string_view::npos) return {};
    text.remove_prefix(found + marker.size());
    return std::string(text.substr(0, text.find_first_of(std::string_view(" \0", 2))));
  }

  /// 90 for sm_90. ABI version 8 (CUDA 13) moved it from bits 0-7 of the flags to bits 8-15.
  unsigned flags_capability() const {
    const unsigned flags = elf_.getHeader().e_flags;
    return (elf_.getHeader().e_ident[llvm::ELF::EI_ABIVERSION] >= 8 ? flags >> 8 : flags) & 0xff;
  }

  std::string arch() const {
    const std::string from_flags = fmt::format("sm_{}", flags_capability());
    // The flags do not tell sm_90 from sm_90a; the note does, where it agrees with them.
    return tool_arch_.starts_with(from_flags) ? tool_arch_ : from_flags;
  }

  const std::string_view bytes_, origin_;
  const Elf elf_;
  std::vector<std::pair<std::string, const Section*>> sections_;
  std::map<std::size_t, std::size_t> kernel_of_symbol_;  ///< index into info_.kernels
  std::size_t num_symbols_ = 0;
  std::string tool_arch_;
  CubinInfo info_;
};

}  // namespace

bool can_read_cubins() noexcept { return true; }

CubinInfo read_cubin(std::string_view bytes, std::string_view origin) { return Reader(bytes, origin).read(); }

}  // namespace moegen::cli

#else

namespace moegen::cli {

bool can_read_cubins() noexcept { return false; }

CubinInfo read_cubin(std::string_view, std::string_view origin) {
  throw Error(ErrorCode::unsupported, fmt::format("{}: cubins cannot be read, because moegen was built without LLVM; "
                                                  "install llvm-19-dev and configure with -DMOEGEN_WITH_LLVM=ON",
                                                  origin));
}

}  // namespace moegen::cli

#endif

namespace moegen::cli {

bool is_elf(std::string_view bytes) noexcept { return bytes.starts_with("\177ELF"); }

}  // namespace moegen::cli
