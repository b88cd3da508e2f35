# libtorch and fmt from the installed Python package of torch. pyproject.toml says which versions of
# Python and torch.
file(READ "${PROJECT_SOURCE_DIR}/pyproject.toml" pyproject)
if(NOT pyproject MATCHES "requires-python = \"==([0-9]+\\.[0-9]+)\\.\\*\"")
  message(FATAL_ERROR "pyproject.toml has no line requires-python = \"==X.Y.*\"")
endif()
set(python_version ${CMAKE_MATCH_1})
if(NOT pyproject MATCHES "\"torch==([0-9]+\\.[0-9]+)\\.\\*\"")
  message(FATAL_ERROR "pyproject.toml does not depend on \"torch==X.Y.*\"")
endif()
set(torch_version ${CMAKE_MATCH_1})

set(python_components Interpreter)
if(FULGURITE_PYTHON)
  list(APPEND python_components Development.Module)
endif()
find_package(Python ${python_version} EXACT REQUIRED COMPONENTS ${python_components})

# Found without importing torch, which takes seconds.
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/find_torch.py" ${torch_version}
  OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# Not find_package(Torch): with a CUDA build of torch it demands the CUDA toolkit, which nothing
# here needs, and it brings a run path and definitions of its own.
# torch ships the headers of the fmt that it was built with, and they come first; src/base/fmt.cpp
# compiles the rest of it, so that nothing depends on which fmt symbols libtorch exports.
add_library(torch INTERFACE IMPORTED)
target_include_directories(torch SYSTEM INTERFACE
  "${torch_dir}/include" "${torch_dir}/include/torch/csrc/api/include")
foreach(library torch_cpu c10 torch_python)
  find_library(torch_library_${library} ${library} PATHS "${torch_dir}/lib" NO_DEFAULT_PATH REQUIRED)
endforeach()
target_link_libraries(torch INTERFACE "${torch_library_torch_cpu}" "${torch_library_c10}")
target_link_options(torch INTERFACE "-Wl,-rpath-link,${torch_dir}/lib")

# torch on a machine with a GPU registers its CUDA kernels from libtorch_cuda, which only libtorch
# needs: C++ programs must keep it though they name none of its symbols.
if(EXISTS "${torch_dir}/lib/libtorch_cuda.so")
  target_link_libraries(torch INTERFACE -Wl,--no-as-needed "${torch_dir}/lib/libtorch.so")
endif()
