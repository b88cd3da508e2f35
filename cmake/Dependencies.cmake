# libtorch from the installed Python package, fmt and doctest from the system.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import torch; print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(APPEND CMAKE_PREFIX_PATH "${torch_prefix}")
find_package(Torch 2.13 REQUIRED)
find_package(fmt REQUIRED)

find_program(ccache_program ccache)
if(ccache_program)
  # Precompiled headers need two liberties from ccache; paths relative to the source tree let
  # clones share their objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ccache_program})
  add_compile_options(-fpch-preprocess)
endif()
