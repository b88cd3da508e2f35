# The Python extension fulgurite._C, and its type stub.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB_RECURSE extension_sources CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/src/pystate/*.cpp" "${CMAKE_CURRENT_SOURCE_DIR}/src/bindings/*.cpp")
nanobind_add_module(_C NB_STATIC NOMINSIZE ${extension_sources})
target_link_libraries(_C PRIVATE fulgurite fulgurite_warnings "${torch_library_torch_python}")
target_compile_definitions(_C PRIVATE FULGURITE_VERSION="${PROJECT_VERSION}")
precompile(_C precompiled.h precompiled_python.h)

# A development build lands in the package of the source tree, a wheel's in the wheel.
if(SKBUILD)
  set(extension_dir "${CMAKE_CURRENT_BINARY_DIR}")
else()
  set(extension_dir "${CMAKE_CURRENT_SOURCE_DIR}/python/fulgurite")
endif()
set_target_properties(_C PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${extension_dir}"
  BUILD_RPATH "${torch_dir}/lib"
  INSTALL_RPATH "$ORIGIN/../torch/lib")
# Of the bindings alone: a change of the core changes no signature, and stubgen imports torch.
file(GLOB binding_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/bindings/*")
add_custom_command(
  OUTPUT "${extension_dir}/_C.pyi"
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/make_stub.py" "${extension_dir}"
  DEPENDS ${binding_sources} "${CMAKE_CURRENT_LIST_DIR}/make_stub.py"
  COMMENT "Writing the type stub _C.pyi" VERBATIM)
add_custom_target(extension_stub ALL DEPENDS "${extension_dir}/_C.pyi")
add_dependencies(extension_stub _C)

install(TARGETS _C LIBRARY DESTINATION fulgurite)
install(FILES "${extension_dir}/_C.pyi" DESTINATION fulgurite)
