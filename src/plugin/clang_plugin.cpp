#include "clang_plugin.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/CodeGenAction.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace fulgurite {
namespace {

// Kernels are printed as explicit vector code: what remains is to clean up after the front end. As
// fast as the code of -O3, in half its time. A pass that verifies its fixpoint ends the process
// where one round was not enough.
constexpr const char* kPasses =
    "always-inline,function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,"
    "instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm),loop-simplify,loop(indvars),gvn,"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

struct Machine {
  std::string triple;
  std::string cpu;
  std::vector<std::string> features;
};

Machine describe_host() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser();
  Machine host{llvm::sys::getProcessTriple(), llvm::sys::getHostCPUName().str(), {}};
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    host.features.push_back((feature.second ? "+" : "-") + feature.first().str());
  llvm::sort(host.features);
  return host;
}

// Never destroyed: there is no work at the end of the process.
const Machine& host() {
  static const Machine* machine = new Machine(describe_host());
  return *machine;
}

Machine machine_for(const FulguriteClangRequest& request) {
  return request.cpu ? Machine{host().triple, request.cpu, {}} : host();
}

std::unique_ptr<llvm::TargetMachine> target_machine(const Machine& machine) {
  std::string ignored;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(machine.triple, ignored);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.UseInitArray = true;
  options.MCOptions.AsmVerbose = true;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      machine.triple, machine.cpu, llvm::join(machine.features, ","), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

std::vector<std::string> front_end_arguments(const FulguriteClangRequest& request,
                                             const Machine& machine) {
  std::vector<std::string> args = {
      "-triple", machine.triple, "-target-cpu", machine.cpu, "-emit-llvm-only",
      "-disable-llvm-passes", "-O3", "-x", "c++", "-std=c++20", "-mrelocation-model", "pic",
      "-pic-level", "2", "-fno-rtti", "-nostdsysteminc", "-nobuiltininc", "-w", "-ferror-limit",
      "5",
      // ATen's integers wrap, and one buffer may be read as several types.
      "-fwrapv", "-relaxed-aliasing",
      // A product and a sum are rounded one after the other, as ATen does it, where the text does
      // not ask for more.
      "-ffp-contract=off", "-mprefer-vector-width=" + std::to_string(request.vector_bits)};
  for (const std::string& feature : machine.features) {
    args.push_back("-target-feature");
    args.push_back(feature);
  }
  args.push_back(request.file_name);
  return args;
}

// Null where the text has errors, which `messages` then holds.
std::unique_ptr<llvm::Module> front_end(const FulguriteClangRequest& request,
                                        const Machine& machine, llvm::LLVMContext& context,
                                        llvm::raw_ostream& messages) {
  clang::CompilerInstance compiler;
  // Else "1 error generated." goes to standard error.
  compiler.setVerboseOutputStream(std::make_unique<llvm::raw_null_ostream>());
  auto diagnostics = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
  compiler.createDiagnostics(new clang::TextDiagnosticPrinter(messages, diagnostics.get()), true);

  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  const llvm::StringRef text(request.text, request.text_size);
  files->addFile(request.file_name, 0, llvm::MemoryBuffer::getMemBufferCopy(text));
  const std::vector<std::string> args = front_end_arguments(request, machine);
  std::vector<const char*> pointers;
  for (const std::string& arg : args) pointers.push_back(arg.c_str());
  if (!clang::CompilerInvocation::CreateFromArgs(compiler.getInvocation(), pointers,
                                                 compiler.getDiagnostics()))
    return nullptr;
  compiler.createFileManager(files);
  clang::EmitLLVMOnlyAction action(&context);
  return compiler.ExecuteAction(action) ? action.takeModule() : nullptr;
}

// False where LLVM does not know the list of passes.
bool run_passes(llvm::Module& module, llvm::TargetMachine& machine, llvm::raw_ostream& messages) {
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
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, kPasses)) {
    messages << llvm::toString(std::move(error));
    return false;
  }
  passes.run(module, modules);
  return true;
}

bool write_machine_code(llvm::Module& module, llvm::TargetMachine& machine, uint32_t output,
                        llvm::raw_pwrite_stream& stream) {
  const auto kind = output == FULGURITE_CLANG_ASSEMBLY ? llvm::CodeGenFileType::AssemblyFile
                                                       : llvm::CodeGenFileType::ObjectFile;
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind)) return false;
  passes.run(module);
  return true;
}

FulguriteClangBytes copy(llvm::StringRef bytes) {
  auto* data = static_cast<char*>(std::malloc(bytes.size() + 1));
  std::memcpy(data, bytes.data(), bytes.size());
  return {data, bytes.size()};
}

double milliseconds_since(std::chrono::steady_clock::time_point& start) {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double, std::milli>(now - start).count();
  start = now;
  return elapsed;
}

bool compile_into(const FulguriteClangRequest& request, FulguriteClangResult& result,
                  llvm::raw_ostream& messages) {
  auto clock = std::chrono::steady_clock::now();
  const Machine machine = machine_for(request);
  const auto target = target_machine(machine);
  if (!target) {
    messages << "LLVM has no target " << machine.triple;
    return false;
  }
  result.set_up_ms = milliseconds_since(clock);

  llvm::LLVMContext context;
  const auto module = front_end(request, machine, context, messages);
  if (!module) return false;
  result.front_end_ms = milliseconds_since(clock);

  module->setDataLayout(target->createDataLayout());
  if (!run_passes(*module, *target, messages)) return false;
  result.passes_ms = milliseconds_since(clock);

  llvm::SmallVector<char, 0> output;
  llvm::raw_svector_ostream stream(output);
  if (!write_machine_code(*module, *target, request.output, stream)) {
    messages << "LLVM cannot write this kind of output for " << machine.cpu;
    return false;
  }
  result.machine_code_ms = milliseconds_since(clock);
  result.output = copy({output.data(), output.size()});
  return true;
}

int compile(const FulguriteClangRequest* request, FulguriteClangResult* result) {
  *result = {};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  if (compile_into(*request, *result, stream)) return 0;
  result->messages = copy(stream.str());
  return 1;
}

void release(FulguriteClangResult* result) {
  std::free(result->output.data);
  std::free(result->messages.data);
  *result = {};
}

constexpr FulguriteClang kInterface = {FULGURITE_CLANG_ABI, CLANG_VERSION_STRING, compile, release};

}  // namespace
}  // namespace fulgurite

extern "C" __attribute__((visibility("default"))) const FulguriteClang* fulgurite_clang_v1(void) {
  return &fulgurite::kInterface;
}
