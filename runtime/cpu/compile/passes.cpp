// SPDX-License-Identifier: Apache-2.0
#include "cpu/compile/passes.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include <fmt/format.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/TargetParser/Triple.h>

#include "cpu/calls/thread_context.h"

namespace moegen::cpu {

namespace {

using llvm::cast;
using llvm::dyn_cast;
using llvm::isa;

constexpr const char* kSite = "moegen_cpu_site";
constexpr const char* kContext = "moegen_cpu_context";
constexpr const char* kAccess = "moegen_cpu_access";
constexpr std::string_view kSharedAnnotation = "moegen.shared", kBoundsAnnotation = "moegen.launch_bounds";
constexpr std::uint64_t kWidestAccess = 16;  // bytes that one instruction of a GPU moves, and so demands as alignment
constexpr std::uint64_t kMinimumDynamicAlignment = 16;

std::string_view view(llvm::StringRef text) { return {text.data(), text.size()}; }

/// "place_step" of `place_step<moegen::Params>`; a lambda's call operator is called what it is.
std::string_view short_name(std::string_view name) {
  if (name == "operator()") return "a lambda";
  return name.starts_with("operator") ? name : name.substr(0, name.find('<'));
}

std::vector<llvm::CallInst*> calls_of(llvm::Module& module, const char* name) {
  std::vector<llvm::CallInst*> calls;
  if (llvm::Function* function = module.getFunction(name))
    for (llvm::User* user : function->users())
      if (auto* call = dyn_cast<llvm::CallInst>(user)) calls.push_back(call);
  return calls;
}

// ---- shared memory

/// `__attribute__((annotate("name", arguments...)))` of the text.
struct Annotation {
  llvm::Constant* object = nullptr;  ///< the variable or function
  std::string_view name;
  const llvm::Constant* arguments = nullptr;  ///< a struct of them; null if there are none
};

const llvm::Constant* initializer_of(const llvm::Value* pointer) {
  const auto* variable = dyn_cast<llvm::GlobalVariable>(pointer->stripPointerCasts());
  return variable && variable->hasInitializer() ? variable->getInitializer() : nullptr;
}

/// One element of llvm.global.annotations: object, name, file, line, arguments.
Annotation annotation_of(const llvm::Constant& element) {
  const auto operand = [&](unsigned number) { return element.getAggregateElement(number); };
  const auto* name = llvm::dyn_cast_or_null<llvm::ConstantDataArray>(initializer_of(operand(1)));
  return {.object = cast<llvm::Constant>(operand(0)->stripPointerCasts()),
          .name = name && name->isCString() ? view(name->getAsCString()) : std::string_view(),
          .arguments = initializer_of(operand(4))};
}

std::vector<Annotation> annotations_of(const llvm::Module& module, std::string_view name) {
  std::vector<Annotation> found;
  const llvm::GlobalVariable* list = module.getGlobalVariable("llvm.global.annotations");
  const auto* elements = list ? dyn_cast<llvm::ConstantArray>(list->getInitializer()) : nullptr;
  if (!elements) return found;
  for (const llvm::Use& element : elements->operands()) {
    const Annotation annotation = annotation_of(*cast<llvm::Constant>(element.get()));
    if (annotation.name == name) found.push_back(annotation);
  }
  return found;
}

/// The variables that are annotated as shared; all annotations go.
std::vector<llvm::GlobalVariable*> take_shared(llvm::Module& module) {
  std::vector<llvm::GlobalVariable*> variables;
  for (const Annotation& annotation : annotations_of(module, kSharedAnnotation))
    if (auto* variable = dyn_cast<llvm::GlobalVariable>(annotation.object)) variables.push_back(variable);
  if (llvm::GlobalVariable* list = module.getGlobalVariable("llvm.global.annotations")) list->eraseFromParent();
  return variables;
}

/// `extern __shared__` arrays: Clang annotates definitions only, but nothing else is declared without a bound.
std::vector<llvm::GlobalVariable*> dynamic_arrays(llvm::Module& module) {
  std::vector<llvm::GlobalVariable*> arrays;
  for (llvm::GlobalVariable& variable : module.globals()) {
    const auto* type = dyn_cast<llvm::ArrayType>(variable.getValueType());
    if (variable.isDeclaration() && type && type->getNumElements() == 0) arrays.push_back(&variable);
  }
  return arrays;
}

std::uint64_t alignment_of(const llvm::GlobalVariable& variable) {
  return std::max<std::uint64_t>(variable.getAlign().valueOrOne().value(), 1);
}

llvm::Value* shared_base(llvm::IRBuilder<>& builder, llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  const auto type = llvm::FunctionType::get(builder.getPtrTy(), false);
  llvm::Value* thread = builder.CreateCall(module.getOrInsertFunction(kContext, type));
  llvm::Value* field =
      builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), thread, offsetof(MoegenCpuContext, shared));
  llvm::LoadInst* base = builder.CreateAlignedLoad(builder.getPtrTy(), field, llvm::Align(8), "shared");
  base->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
  return base;
}

/// Where a value for `use` is computed: before its user, or at the end of the block that a phi takes it from.
llvm::Instruction* place_before(const llvm::Use& use) {
  auto* user = cast<llvm::Instruction>(use.getUser());
  const auto* phi = dyn_cast<llvm::PHINode>(user);
  return phi ? phi->getIncomingBlock(use)->getTerminator() : user;
}

void replace_by_offset(llvm::GlobalVariable& variable, std::uint64_t offset) {
  llvm::convertUsersOfConstantsToInstructions({&variable});
  std::vector<llvm::Use*> uses;
  for (llvm::Use& use : variable.uses())
    if (isa<llvm::Instruction>(use.getUser())) uses.push_back(&use);
  for (llvm::Use* use : uses) {
    llvm::IRBuilder<> builder(place_before(*use));
    llvm::Value* base = shared_base(builder, *variable.getParent());
    use->set(builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, offset));
  }
  if (variable.use_empty()) variable.eraseFromParent();
}

// ---- accesses

/// Memory that one instruction reads or writes.
struct MemoryAccess {
  llvm::Instruction* instruction = nullptr;
  llvm::Value* address = nullptr;
  llvm::Value* length = nullptr;  ///< of a memory intrinsic whose length is no constant
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 1;
  bool write = false;
};

std::uint64_t demanded_alignment(std::uint64_t promised, std::uint64_t bytes) {
  return std::min({promised, kWidestAccess, bytes == 0 ? 1 : std::bit_floor(bytes)});
}

MemoryAccess plain(llvm::Instruction& instruction, const llvm::DataLayout& layout) {
  const std::uint64_t bytes = layout.getTypeStoreSize(llvm::getLoadStoreType(&instruction)).getFixedValue();
  return {.instruction = &instruction,
          .address = llvm::getLoadStorePointerOperand(&instruction),
          .bytes = bytes,
          .alignment = llvm::getLoadStoreAlignment(&instruction).value(),
          .write = isa<llvm::StoreInst>(instruction)};
}

MemoryAccess side(llvm::MemIntrinsic& call, llvm::Value* address, llvm::MaybeAlign alignment, bool write) {
  const auto* length = dyn_cast<llvm::ConstantInt>(call.getLength());
  return {.instruction = &call,
          .address = address,
          .length = length ? nullptr : call.getLength(),
          .bytes = length ? length->getZExtValue() : 0,
          .alignment = alignment.valueOrOne().value(),
          .write = write};
}

/// The accesses of one instruction; none if it touches no memory or is a call.
std::vector<MemoryAccess> accesses_of(llvm::Instruction& instruction, const llvm::DataLayout& layout) {
  if (isa<llvm::LoadInst>(instruction) || isa<llvm::StoreInst>(instruction)) return {plain(instruction, layout)};
  auto* call = dyn_cast<llvm::MemIntrinsic>(&instruction);
  if (!call) return {};
  std::vector<MemoryAccess> accesses;
  if (auto* transfer = dyn_cast<llvm::MemTransferInst>(call))
    accesses.push_back(side(*call, transfer->getRawSource(), transfer->getSourceAlign(), false));
  accesses.push_back(side(*call, call->getRawDest(), call->getDestAlign(), true));
  return accesses;
}

/// True if `access` stays inside a constant of the module, as far as one can see.
bool is_constant_element(const MemoryAccess& access, const llvm::DataLayout& layout) {
  llvm::APInt offset(layout.getIndexTypeSizeInBits(access.address->getType()), 0);
  const llvm::Value* base = access.address->stripAndAccumulateConstantOffsets(layout, offset, true);
  const auto* variable = dyn_cast<llvm::GlobalVariable>(base);
  if (!variable || !variable->isConstant() || access.write || access.length) return false;
  const std::uint64_t size = layout.getTypeAllocSize(variable->getValueType()).getFixedValue();
  return offset.isNonNegative() && offset.getZExtValue() + access.bytes <= size;
}

bool is_context(const llvm::Value* object) {
  const auto* call = dyn_cast<llvm::CallInst>(object);
  return call && call->getCalledFunction() && call->getCalledFunction()->getName() == kContext;
}

/// True if the address can only be on the thread's own stack, or in its context.
bool is_own(const llvm::Value* address) {
  llvm::SmallVector<const llvm::Value*, 4> objects;
  llvm::getUnderlyingObjects(address, objects, nullptr, 0);
  return std::ranges::all_of(
      objects, [](const llvm::Value* object) { return isa<llvm::AllocaInst>(object) || is_context(object); });
}

/// Splitting one copy of a struct leaves several accesses side by side, of one place in the text. They are one again if
/// `next` continues `access` without a gap.
bool continues(const MemoryAccess& access, const MemoryAccess& next, const llvm::DataLayout& layout) {
  if (access.write != next.write || access.length || next.length) return false;
  if (access.instruction->getDebugLoc() != next.instruction->getDebugLoc()) return false;
  const auto distance = next.address->getPointerOffsetFrom(access.address, layout);
  return distance && *distance >= 0 && static_cast<std::uint64_t>(*distance) == access.bytes;
}

/// True if nothing between two accesses may end or reorder what the first one did.
bool is_quiet(const llvm::Instruction& instruction) {
  return !instruction.mayHaveSideEffects() || isa<llvm::StoreInst>(instruction) || instruction.isLifetimeStartOrEnd() ||
         isa<llvm::DbgInfoIntrinsic>(instruction);
}

/// Collects the accesses of a block in which parts of one copy are joined.
class AccessCollector {
 public:
  AccessCollector(const llvm::DataLayout& layout, const SiteTable& sites) : layout_(layout), sites_(sites) {}

  void visit(llvm::Instruction& instruction) {
    for (MemoryAccess& access : accesses_of(instruction, layout_)) add(access);
    if (!is_quiet(instruction)) open_ = all_.size();
  }
  void end_block() { open_ = all_.size(); }
  const std::vector<MemoryAccess>& all() const { return all_; }

 private:
  void add(const MemoryAccess& access) {
    if (access.bytes == 0 && !access.length) return;
    const bool of_kernel = !access.instruction->getDebugLoc() || sites_.in_kernel(access.instruction->getDebugLoc());
    if (!of_kernel || is_own(access.address) || is_constant_element(access, layout_)) return;
    for (std::size_t i = open_; i < all_.size(); ++i)
      if (continues(all_[i], access, layout_)) {
        all_[i].bytes += access.bytes;
        return;
      }
    all_.push_back(access);
  }

  const llvm::DataLayout& layout_;
  const SiteTable& sites_;
  std::vector<MemoryAccess> all_;
  std::size_t open_ = 0;  ///< the first access that another may still continue
};

std::vector<MemoryAccess> collect_accesses(llvm::Function& function, const SiteTable& sites) {
  AccessCollector collector(function.getParent()->getDataLayout(), sites);
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& instruction : block) collector.visit(instruction);
    collector.end_block();
  }
  return collector.all();
}

llvm::FunctionCallee access_function(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* word = llvm::Type::getInt32Ty(context);
  return module.getOrInsertFunction(kAccess, llvm::Type::getVoidTy(context), llvm::PointerType::get(context, 0), word,
                                    word, word, word);
}

void insert_call(const MemoryAccess& access, llvm::FunctionCallee function, std::uint32_t site) {
  llvm::IRBuilder<> builder(access.instruction);
  llvm::Value* bytes = access.length ? builder.CreateTrunc(access.length, builder.getInt32Ty())
                                     : builder.getInt32(static_cast<std::uint32_t>(access.bytes));
  const std::uint64_t alignment = demanded_alignment(access.alignment, access.length ? kWidestAccess : access.bytes);
  builder.CreateCall(function, {access.address, bytes, builder.getInt32(static_cast<std::uint32_t>(alignment)),
                                builder.getInt32(access.write), builder.getInt32(site)});
}

// ---- the last changes

/// Any address in the current frame.
llvm::Value* stack_address(llvm::IRBuilder<>& builder, const llvm::Module& module) {
  const llvm::Triple triple(module.getTargetTriple());
  const bool x86 = triple.getArch() == llvm::Triple::x86_64;
  if (!x86 && !triple.isAArch64())
    return builder.CreateIntrinsic(llvm::Intrinsic::frameaddress, {builder.getPtrTy()}, {builder.getInt32(0)});
  const auto type = llvm::FunctionType::get(builder.getPtrTy(), false);
  return builder.CreateCall(llvm::InlineAsm::get(type, x86 ? "movq %rsp, $0" : "mov $0, sp", "=r", false));
}

void lower_contexts(llvm::Module& module) {
  for (llvm::CallInst* call : calls_of(module, kContext)) {
    llvm::IRBuilder<> builder(call);
    llvm::Value* on_stack = builder.CreatePtrToInt(stack_address(builder, module), builder.getInt64Ty());
    llvm::Value* last = builder.CreateOr(on_stack, MOEGEN_CPU_STACK_BYTES - 1);
    llvm::Value* context = builder.CreateAdd(last, builder.getInt64(1 - sizeof(MoegenCpuContext)));
    call->replaceAllUsesWith(builder.CreateIntToPtr(context, builder.getPtrTy()));
    call->eraseFromParent();
  }
}

bool may_leave_stack(const llvm::Value* address) {
  const llvm::Value* object = llvm::getUnderlyingObject(address, 0);
  return !isa<llvm::AllocaInst>(object) && !isa<llvm::GlobalVariable>(object);
}

/// Masked and strided vector intrinsics say their alignment in an operand.
void relax_intrinsic(llvm::IntrinsicInst& call) {
  const auto relax = [&](unsigned operand) {
    call.setArgOperand(operand, llvm::ConstantInt::get(call.getArgOperand(operand)->getType(), 1));
  };
  switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::masked_load:
    case llvm::Intrinsic::masked_gather: relax(1); break;
    case llvm::Intrinsic::masked_store:
    case llvm::Intrinsic::masked_scatter: relax(2); break;
    default: break;
  }
}

void relax_alignment(llvm::Instruction& instruction) {
  if (auto* load = dyn_cast<llvm::LoadInst>(&instruction)) {
    if (!load->isAtomic() && may_leave_stack(load->getPointerOperand())) load->setAlignment(llvm::Align(1));
  } else if (auto* store = dyn_cast<llvm::StoreInst>(&instruction)) {
    if (!store->isAtomic() && may_leave_stack(store->getPointerOperand())) store->setAlignment(llvm::Align(1));
  } else if (auto* memory = dyn_cast<llvm::MemIntrinsic>(&instruction)) {
    if (may_leave_stack(memory->getRawDest())) memory->setDestAlignment(llvm::Align(1));
    auto* transfer = dyn_cast<llvm::MemTransferInst>(memory);
    if (transfer && may_leave_stack(transfer->getRawSource())) transfer->setSourceAlignment(llvm::Align(1));
  } else if (auto* intrinsic = dyn_cast<llvm::IntrinsicInst>(&instruction)) {
    relax_intrinsic(*intrinsic);
  }
}

/// Variables of the text at namespace scope and tables that the optimiser made.
std::vector<llvm::GlobalVariable*> readable_globals(llvm::Module& module) {
  std::vector<llvm::GlobalVariable*> globals;
  for (llvm::GlobalVariable& variable : module.globals())
    if (variable.hasInitializer() && !variable.getName().starts_with("llvm.") && variable.getSection().empty())
      globals.push_back(&variable);
  return globals;
}

std::uint32_t list_constants(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  const auto globals = readable_globals(module);
  llvm::Type* word = llvm::Type::getInt64Ty(context);
  auto* row = llvm::StructType::get(context, {llvm::PointerType::get(context, 0), word});
  std::vector<llvm::Constant*> rows;
  for (llvm::GlobalVariable* variable : globals) {
    const std::uint64_t bytes = module.getDataLayout().getTypeAllocSize(variable->getValueType()).getFixedValue();
    variable->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::None);
    rows.push_back(llvm::ConstantStruct::get(row, {variable, llvm::ConstantInt::get(word, bytes)}));
  }
  auto* type = llvm::ArrayType::get(row, rows.size());
  new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantArray::get(type, rows),
                           llvm::StringRef(kConstantsSymbol.data(), kConstantsSymbol.size()));
  return static_cast<std::uint32_t>(rows.size());
}

std::string error_about(const llvm::InlineAsm& assembly, const llvm::DebugLoc& location) {
  return fmt::format(
      "{}:{}: error: inline assembly '{}' cannot run on the CPU target; give the function a body under #ifdef "
      "MOEGEN_TARGET_CPU\n",
      view(location->getFilename()), location.getLine(), assembly.getAsmString());
}

/// Loads of a field of the context: nothing changes it while a thread runs.
void mark_invariant(llvm::Value& address) {
  for (llvm::User* user : address.users()) {
    if (auto* load = dyn_cast<llvm::LoadInst>(user))
      load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(load->getContext(), {}));
    else if (isa<llvm::GetElementPtrInst>(user))
      mark_invariant(*user);
  }
}

/// A thread's context: the same at every call, and readable before any check of what the thread is to do.
void describe_context(llvm::Module& module) {
  llvm::Function* function = module.getFunction(kContext);
  if (!function) return;
  function->removeFnAttr(llvm::Attribute::Convergent);
  function->setDoesNotAccessMemory();
  function->addFnAttr(llvm::Attribute::WillReturn);
  function->addFnAttr(llvm::Attribute::Speculatable);
  function->addRetAttr(llvm::Attribute::getWithDereferenceableBytes(module.getContext(), sizeof(MoegenCpuContext)));
  function->addRetAttr(llvm::Attribute::getWithAlignment(module.getContext(), llvm::Align(8)));
  for (llvm::CallInst* call : calls_of(module, kContext)) {
    call->removeFnAttr(llvm::Attribute::Convergent);
    mark_invariant(*call);
  }
}

/// The number of a place touches nothing of the kernel, but stays where it is: neither moved nor merged with another.
void describe_site(llvm::Module& module) {
  llvm::Function* function = module.getFunction(kSite);
  if (!function) return;
  function->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
  function->addFnAttr(llvm::Attribute::WillReturn);
  function->addFnAttr(llvm::Attribute::NoMerge);
}

void make_private(llvm::Function& function) {
  if (function.isDeclaration() || view(function.getName()).starts_with(kEntryPrefix)) return;
  function.setLinkage(llvm::GlobalValue::InternalLinkage);
  function.setComdat(nullptr);
  if (!function.hasFnAttribute(llvm::Attribute::NoInline) && !function.hasFnAttribute(llvm::Attribute::OptimizeNone))
    function.addFnAttr(llvm::Attribute::AlwaysInline);
}

}  // namespace

// ---- sites

bool SiteTable::in_kernel(const llvm::DebugLoc& location) const {
  return location && view(location->getFilename()) == kernel_file_;
}

std::string SiteTable::chain_of(const llvm::DILocation* location) const {
  std::string chain;
  for (; location; location = location->getInlinedAt()) {
    const llvm::DISubprogram* function = location->getScope()->getSubprogram();
    if (view(location->getFilename()) != kernel_file_ || !function || location->getLine() == 0) continue;
    chain += std::to_string(location->getLine());
    chain += '\t';
    chain += short_name(view(function->getName()));
    chain += '\t';
  }
  return chain;
}

std::uint32_t SiteTable::number_of(const llvm::DebugLoc& location) {
  std::string chain = chain_of(location.get());
  if (chain.empty()) return 0;
  const auto [found, is_new] = numbers_.try_emplace(std::move(chain), static_cast<std::uint32_t>(chains_.size()) + 1);
  if (is_new) chains_.push_back(&found->first);
  return found->second;
}

std::string SiteTable::text() const {
  std::string text;
  for (const std::string* chain : chains_) {
    text += *chain;
    text += '\n';
  }
  return text;
}

// ---- passes

std::string errors_about_assembly(const llvm::Module& module) {
  std::string errors;
  for (const llvm::Function& function : module)
    for (const llvm::Instruction& instruction : llvm::instructions(function)) {
      const auto* call = dyn_cast<llvm::CallBase>(&instruction);
      const auto* assembly = call ? dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
      if (assembly && !assembly->getAsmString().empty()) errors += error_about(*assembly, instruction.getDebugLoc());
    }
  return errors;
}

void prepare(llvm::Module& module) {
  for (llvm::Function& function : module) make_private(function);
  for (llvm::GlobalVariable& variable : module.globals())
    if (variable.hasInitializer() && !variable.hasAppendingLinkage()) {
      variable.setLinkage(llvm::GlobalValue::InternalLinkage);
      variable.setComdat(nullptr);
    }
  describe_context(module);
  describe_site(module);
}

std::vector<std::uint32_t> read_launch_bounds(const llvm::Module& module, const std::vector<std::string>& entries) {
  std::vector<std::uint32_t> bounds(entries.size(), 0);
  for (const Annotation& annotation : annotations_of(module, kBoundsAnnotation)) {
    const auto entry = std::ranges::find(entries, view(annotation.object->getName()));
    const auto* most = annotation.arguments ? annotation.arguments->getAggregateElement(0u) : nullptr;
    if (entry == entries.end() || !most || !isa<llvm::ConstantInt>(most)) continue;
    bounds[static_cast<std::size_t>(entry - entries.begin())] =
        static_cast<std::uint32_t>(cast<llvm::ConstantInt>(most)->getLimitedValue(0xFFFFFFFFu));
  }
  return bounds;
}

SharedLayout lower_shared(llvm::Module& module) {
  SharedLayout layout;
  std::uint64_t end = 0;
  for (llvm::GlobalVariable* variable : take_shared(module)) {
    const std::uint64_t bytes = module.getDataLayout().getTypeAllocSize(variable->getValueType()).getFixedValue();
    const std::uint64_t begin = llvm::alignTo(end, llvm::Align(alignment_of(*variable)));
    replace_by_offset(*variable, begin);
    end = begin + bytes;
  }
  // Far above what a launch allows: it must not come out small.
  layout.static_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(end, 0xFFFFFFF0u));
  const auto arrays = dynamic_arrays(module);
  std::uint64_t alignment = kMinimumDynamicAlignment;
  for (const llvm::GlobalVariable* array : arrays) alignment = std::max(alignment, alignment_of(*array));
  layout.dynamic_offset = static_cast<std::uint32_t>(llvm::alignTo(end, llvm::Align(alignment)));
  for (llvm::GlobalVariable* array : arrays) replace_by_offset(*array, layout.dynamic_offset);
  return layout;
}

void resolve_sites(llvm::Module& module, SiteTable& sites) {
  for (llvm::CallInst* call : calls_of(module, kSite)) {
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), sites.number_of(call->getDebugLoc())));
    call->eraseFromParent();
  }
}

void insert_access_calls(llvm::Module& module, SiteTable& sites) {
  const llvm::FunctionCallee function = access_function(module);
  for (llvm::Function& body : module)
    for (const MemoryAccess& access : collect_accesses(body, sites))
      insert_call(access, function, sites.number_of(access.instruction->getDebugLoc()));
}

std::uint32_t finish(llvm::Module& module) {
  lower_contexts(module);
  for (llvm::Function& function : module)
    for (llvm::Instruction& instruction : llvm::instructions(function)) relax_alignment(instruction);
  return list_constants(module);
}

}  // namespace moegen::cpu
