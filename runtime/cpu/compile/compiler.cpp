// SPDX-License-Identifier: Apache-2.0
// The one file that includes Clang and ORC: they take half a minute to compile.
#include "cpu/compile/compiler.hpp"

#include <atomic>
#include <chrono>
#include <mutex>

#include <clang/Basic/DiagnosticOptions.h>
#include <clang/Basic/FileManager.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <xxhash.h>

#include "cpu/compile/kernel_headers.hpp"
#include "cpu/compile/object_file.hpp"
#include "cpu/compile/passes.hpp"

namespace moegen::cpu {

/// The machine that code is made for.
struct Compiler::Host {
  std::string triple, cpu, features;
  std::vector<std::string> feature_list;  ///< "+avx2"
  const llvm::Target* target = nullptr;
  std::string version;
};

namespace {

// To be raised when the same text gives another object and nothing else in version() shows it.
constexpr int kRevision = 1;

constexpr std::string_view kHeaderFolder = "/moegen/cpu/";
constexpr std::string_view kPreludePath = "/moegen/cpu/compile/prelude.cuh";

llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

std::string hex_digest(const Compiler::Host& host) {
  std::string all = fmt::format("{} {} {}", kRevision, host.triple, host.features);
  for (std::size_t i = 0; i < kNumKernelHeaders; ++i) all += kKernelHeaders[i].text;
  return fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
}

std::unique_ptr<Compiler::Host> inspect_host() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::InitializeNativeTargetAsmParser();
  auto host = std::make_unique<Compiler::Host>();
  host->triple = llvm::sys::getProcessTriple();
  host->cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) features.AddFeature(feature.first(), feature.second);
  host->features = features.getString();
  host->feature_list = features.getFeatures();
  std::sort(host->feature_list.begin(), host->feature_list.end());
  std::string why;
  host->target = llvm::TargetRegistry::lookupTarget(host->triple, why);
  const std::string arch = llvm::Triple(host->triple).getArchName().str();
  host->version = fmt::format("clang-{} {} {} {}", LLVM_VERSION_STRING, arch, host->cpu, hex_digest(*host));
  return host;
}

// ---- the front end

/// `text` inside a C string.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return result;
}

/// The text and behind it, as a file of its own, one thunk an entry.
std::string with_thunks(const CompileRequest& request) {
  std::string text(request.source);
  text += fmt::format("\n#line 1 \"entry points of {}\"\n", escaped(request.file_name));
  for (const std::string& entry : request.entries)
    text += fmt::format("extern \"C\" __device__ void {}{}(void** p) {{ moegen::cpu::launch<&{}>(&{}, p); }}\n",
                        kEntryPrefix, entry, entry, entry);
  return text;
}

std::vector<std::string> front_end_arguments(const Compiler::Host& host, const CompileRequest& request) {
  const Arch& arch = request.arch;
  std::vector<std::string> arguments = {
      "-x", "cuda", "-fcuda-is-device", "-triple", host.triple, "-aux-triple", host.triple, "-target-cpu", host.cpu,
      "-std=c++20", "-emit-llvm", "-disable-llvm-passes", "-O2", "-mrelocation-model", "pic", "-pic-level", "2",
      // Nothing of the machine's own headers.
      "-nostdsysteminc", "-nobuiltininc", "-I/moegen", "-include", std::string(kPreludePath),
      // The GPU compiler's rules: a product and a sum are one fma wherever they meet, conversions to integers saturate,
      // integers wrap, and the type of a pointer says nothing about what lies there.
      "-ffp-contract=fast", "-fno-strict-float-cast-overflow", "-fwrapv", "-relaxed-aliasing", "-fno-rtti",
      "-fno-threadsafe-statics",
      // A frame larger than a page touches each of its pages, so that an overflow meets the guard page.
      "-fstack-clash-protection",
      // Lines, for messages; they are dropped before code is generated.
      "-debug-info-kind=line-tables-only", "-dwarf-version=5",
      // A kernel's constants are enumerators, each of an enumeration of its own.
      "-Wno-deprecated-enum-enum-conversion", "-Wno-deprecated-anon-enum-enum-conversion", "-DMOEGEN_TARGET_CPU=1",
      "-D__CUDACC__=1", "-D__CUDACC_RTC__=1", "-U__CUDA_ARCH__",
      fmt::format("-D__CUDA_ARCH__={}", 100 * arch.major + 10 * arch.minor)};
  if (arch.accelerated) arguments.push_back(fmt::format("-D__CUDA_ARCH_FEAT_SM{}{}_ALL=1", arch.major, arch.minor));
  for (const std::string& feature : host.feature_list) {
    arguments.emplace_back("-target-feature");
    arguments.push_back(feature);
  }
  arguments.emplace_back("kernel");  // stands for the input, which is in memory
  return arguments;
}

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> header_files() {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  for (std::size_t i = 0; i < kNumKernelHeaders; ++i) {
    const std::string path = fmt::format("{}{}", kHeaderFolder, kKernelHeaders[i].path);
    files->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(ref(kKernelHeaders[i].text), path));
  }
  return files;
}

bool set_invocation(clang::CompilerInstance& clang, const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  return clang::CompilerInvocation::CreateFromArgs(clang.getInvocation(), pointers, clang.getDiagnostics());
}

/// Device code of `request` as Clang emits it, not optimised. Null where the text has errors, which are in `log`.
std::unique_ptr<llvm::Module> run_front_end(const Compiler::Host& host, const CompileRequest& request,
                                            llvm::LLVMContext& context, std::string& log) {
  llvm::raw_string_ostream stream(log);
  clang::CompilerInstance clang;
  auto options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  options->ShowPresumedLoc = true;  // as the #line before the thunks says
  clang.createDiagnostics(new clang::TextDiagnosticPrinter(stream, options.get()), true);
  clang.setVerboseOutputStream(llvm::nulls());
  if (!set_invocation(clang, front_end_arguments(host, request))) return nullptr;
  clang::ProcessWarningOptions(clang.getDiagnostics(), clang.getDiagnosticOpts());
  const std::string text = with_thunks(request);
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(text, request.file_name);
  clang.getFrontendOpts().Inputs = {clang::FrontendInputFile(*buffer, clang::InputKind(clang::Language::CUDA))};
  clang.getFrontendOpts().DisableFree = false;
  clang.createFileManager(header_files());
  clang::EmitLLVMOnlyAction action(&context);
  if (!clang.ExecuteAction(action)) return nullptr;
  return action.takeModule();
}

// ---- the optimiser

/// Runs a function of passes.hpp as a pass.
template <class Function>
struct ModulePass : llvm::PassInfoMixin<ModulePass<Function>> {
  explicit ModulePass(Function body) : function(std::move(body)) {}
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    function(module);
    return llvm::PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }  // NOLINT(readability-identifier-naming): LLVM's name
  Function function;
};

/// Everything inline, variables in registers, accesses as the text has them: then calls go before those.
void add_checks(llvm::ModulePassManager& passes, SiteTable& sites) {
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::SROAPass(llvm::SROAOptions::PreserveCFG)));
  passes.addPass(ModulePass([&sites](llvm::Module& module) {
    resolve_sites(module, sites);
    insert_access_calls(module, sites);
  }));
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, bool check, SiteTable& sites) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  // Without checks places are numbered once everything is inlined.
  builder.registerOptimizerEarlyEPCallback([&](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
    passes.addPass(ModulePass([&sites](llvm::Module& body) { resolve_sites(body, sites); }));
  });
  llvm::ModulePassManager passes;
  if (check) add_checks(passes, sites);
  passes.addPass(
      builder.buildPerModuleDefaultPipeline(check ? llvm::OptimizationLevel::O1 : llvm::OptimizationLevel::O2));
  passes.run(module, modules);
}

// ---- the code generator

std::unique_ptr<llvm::TargetMachine> make_machine(const Compiler::Host& host) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  return std::unique_ptr<llvm::TargetMachine>(
      host.target->createTargetMachine(host.triple, host.cpu, host.features, options, llvm::Reloc::PIC_,
                                       llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

/// The object file; empty where code cannot be generated.
std::string generate(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) return {};
  passes.run(module);
  return {bytes.data(), bytes.size()};
}

/// Collects what the back end has to say; LLVM's own handler would end the process.
void collect_errors(llvm::LLVMContext& context, std::string& errors) {
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* to) {
        if (info->getSeverity() != llvm::DS_Error) return;
        llvm::raw_string_ostream stream(*static_cast<std::string*>(to));
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info->print(printer);
        stream << '\n';
      },
      &errors);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::vector<EntryResources> resources_of(const CompileRequest& request, const SharedLayout& layout) {
  std::vector<EntryResources> resources;
  for (const std::string& entry : request.entries) {
    resources.emplace_back().entry = entry;
    resources.back().shared_bytes = static_cast<int>(layout.static_bytes);
  }
  return resources;
}

}  // namespace

Compiler::Compiler() : host_(inspect_host()) {}
Compiler::~Compiler() = default;

const std::string& Compiler::version() const noexcept { return host_->version; }

CompiledObject Compiler::compile(const CompileRequest& request) const {
  Times times;
  return compile(request, times);
}

CompiledObject Compiler::compile(const CompileRequest& request, Times& times) const {
  CompiledObject compiled;
  if (!host_->target) {
    compiled.log = fmt::format("{}: LLVM cannot generate code for this host, {}\n", request.file_name, host_->triple);
    return compiled;
  }
  auto start = std::chrono::steady_clock::now();
  llvm::LLVMContext context;
  const auto module = run_front_end(*host_, request, context, compiled.log);
  times.front_end = milliseconds_since(start);
  if (!module) return compiled;
  if (const std::string foreign = errors_about_assembly(*module); !foreign.empty()) {
    compiled.log += foreign;
    return compiled;
  }

  start = std::chrono::steady_clock::now();
  std::string errors;
  collect_errors(context, errors);
  const auto machine = make_machine(*host_);
  SiteTable sites(request.file_name);
  prepare(*module);
  const std::vector<std::uint32_t> bounds = read_launch_bounds(*module, request.entries);
  const SharedLayout layout = lower_shared(*module);
  optimise(*module, *machine, request.check, sites);
  llvm::StripDebugInfo(*module);
  const std::uint32_t num_constants = finish(*module);
  times.optimiser = milliseconds_since(start);

  start = std::chrono::steady_clock::now();
  std::string elf = generate(*module, *machine);
  times.code_generator = milliseconds_since(start);
  compiled.log += errors;
  if (elf.empty() || !errors.empty()) return compiled;
  compiled.object = seal(std::move(elf), {.file_name = request.file_name,
                                          .static_shared_bytes = layout.static_bytes,
                                          .dynamic_shared_offset = layout.dynamic_offset,
                                          .num_constants = num_constants,
                                          .entries = request.entries,
                                          .max_threads = bounds,
                                          .sites = sites.text()});
  compiled.resources = resources_of(request, layout);
  return compiled;
}

// ---- the loader

/// ORC without its compile layers: objects are linked in the thread that asks for them.
struct Loader::Session {
  explicit Session(std::unique_ptr<llvm::orc::ExecutorProcessControl> process)
      : execution(std::move(process)), linker(execution), model(execution.createBareJITDylib("model")) {
    execution.setErrorReporter([this](llvm::Error error) { errors += llvm::toString(std::move(error)) + "; "; });
  }
  ~Session() { llvm::consumeError(execution.endSession()); }

  llvm::orc::ExecutionSession execution;
  llvm::orc::ObjectLinkingLayer linker;
  llvm::orc::JITDylib& model;
  std::mutex mutex;    ///< one load at a time: that is how `errors` are known to be its own
  std::string errors;  ///< what the linker reported aside
  std::uint64_t num_loads = 0;
};

namespace {

using llvm::orc::ExecutorAddr;

llvm::Error define(Loader::Session& session, const std::vector<Symbol>& symbols) {
  llvm::orc::SymbolMap map;
  for (const Symbol& symbol : symbols)
    map[session.execution.intern(symbol.name)] = {ExecutorAddr::fromPtr(symbol.address),
                                                  llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  return session.model.define(llvm::orc::absoluteSymbols(std::move(map)));
}

/// A program whose code goes with it.
struct LinkedProgram final : HostProgram {
  LinkedProgram(Loader::Session& owner, llvm::orc::JITDylib& code) : session(owner), dylib(code) {}
  ~LinkedProgram() override {
    const std::lock_guard lock(session.mutex);
    llvm::consumeError(session.execution.removeJITDylib(dylib));
  }
  Loader::Session& session;
  llvm::orc::JITDylib& dylib;
};

llvm::Expected<llvm::orc::SymbolMap> link(Loader::Session& session, llvm::orc::JITDylib& dylib, std::string_view object,
                                          const ObjectTable& table) {
  if (auto error = session.linker.add(dylib, llvm::MemoryBuffer::getMemBufferCopy(ref(object), table.file_name)))
    return error;
  llvm::orc::SymbolLookupSet wanted(session.execution.intern(ref(kConstantsSymbol)));
  for (const std::string& entry : table.entries)
    wanted.add(session.execution.intern(fmt::format("{}{}", kEntryPrefix, entry)));
  return session.execution.lookup({{&dylib, llvm::orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
}

/// One row of kConstantsSymbol.
struct ConstantRow {
  const void* address;
  std::uint64_t bytes;
};

void fill(LinkedProgram& program, const ObjectTable& table, const llvm::orc::SymbolMap& symbols) {
  llvm::orc::ExecutionSession& execution = program.session.execution;
  const auto address = [&](const std::string& name) { return symbols.lookup(execution.intern(name)).getAddress(); };
  for (std::size_t i = 0; i < table.entries.size(); ++i)
    program.entries.push_back(
        {.name = table.entries[i],
         .function = address(fmt::format("{}{}", kEntryPrefix, table.entries[i])).toPtr<HostEntry>(),
         .max_threads = table.max_threads[i],
         .static_shared_bytes = table.static_shared_bytes,
         .dynamic_shared_offset = table.dynamic_shared_offset});
  const auto* rows = address(std::string(kConstantsSymbol)).toPtr<const ConstantRow*>();
  for (std::uint32_t i = 0; i < table.num_constants; ++i)
    program.constants.emplace_back(rows[i].address, rows[i].bytes);
  program.sites = Sites(table.file_name, table.sites);
}

/// The first of `entries` that `table` does not have.
const std::string* missing_entry(const ObjectTable& table, const std::vector<std::string>& entries) {
  for (const std::string& entry : entries)
    if (std::find(table.entries.begin(), table.entries.end(), entry) == table.entries.end()) return &entry;
  return nullptr;
}

/// Links `object` into a program of its own. Errors are complete only with those in session.errors.
llvm::Expected<std::shared_ptr<const HostProgram>> link_program(Loader::Session& session, std::string_view object,
                                                                const ObjectTable& table) {
  auto& dylib = session.execution.createBareJITDylib(fmt::format("program {}", ++session.num_loads));
  dylib.addToLinkOrder(session.model);
  auto symbols = link(session, dylib, object, table);
  if (!symbols) {
    llvm::consumeError(session.execution.removeJITDylib(dylib));
    return symbols.takeError();
  }
  auto program = std::make_shared<LinkedProgram>(session, dylib);
  fill(*program, table, *symbols);
  return program;
}

}  // namespace

Loader::Loader(const std::vector<Symbol>& symbols) {
  auto process =
      llvm::orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>());
  if (!process) {
    broken_ = llvm::toString(process.takeError());
    return;
  }
  session_ = std::make_unique<Session>(std::move(*process));
  if (auto error = define(*session_, symbols)) {
    broken_ = llvm::toString(std::move(error));
    session_ = nullptr;
  }
}

Loader::~Loader() = default;

std::shared_ptr<const HostProgram> Loader::load(std::string_view object, const std::vector<std::string>& entries,
                                                std::string& why) const {
  if (!session_) {
    why = fmt::format("the linker of the CPU target does not start: {}", broken_);
    return nullptr;
  }
  const auto table = unseal(object);
  if (!table) {
    why = fmt::format("{} bytes that are no object of the CPU target, or a damaged one", object.size());
    return nullptr;
  }
  if (const std::string* missing = missing_entry(*table, entries)) {
    why = fmt::format("{}: the object has no entry point '{}'", table->file_name, *missing);
    return nullptr;
  }
  const std::lock_guard lock(session_->mutex);
  session_->errors.clear();
  auto program = link_program(*session_, object, *table);
  if (program) return std::move(*program);
  const std::string last = llvm::toString(program.takeError());
  why = fmt::format("{}: the object cannot be linked: {}{}", table->file_name, session_->errors, last);
  return nullptr;
}

}  // namespace moegen::cpu
