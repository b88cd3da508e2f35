# The Python extension fulgurite._C.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)
# Wrapping tensors needs libtorch_python, which the Torch package does not export.
find_library(TORCH_PYTHON torch_python HINTS "${TORCH_INSTALL_PREFIX}/lib" REQUIRED)

file(GLOB_RECURSE extension_sources CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/src/pystate/*.cpp" "${CMAKE_CURRENT_SOURCE_DIR}/src/bindings/*.cpp")
nanobind_add_module(_C NB_STATIC NOMINSIZE ${extension_sources})
target_link_libraries(_C PRIVATE fulgurite ${TORCH_PYTHON})
target_compile_options(_C PRIVATE -Wall -Wextra -Wno-unused-parameter)
target_precompile_headers(_C PRIVATE cmake/precompiled.h cmake/precompiled_python.h)
set_target_properties(_C PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "$<IF:$<BOOL:${SKBUILD}>,${CMAKE_CURRENT_BINARY_DIR},${CMAKE_CURRENT_SOURCE_DIR}/python/fulgurite>"
  BUILD_RPATH "${TORCH_INSTALL_PREFIX}/lib"
  INSTALL_RPATH "$ORIGIN/../torch/lib")
install(TARGETS _C LIBRARY DESTINATION fulgurite)
