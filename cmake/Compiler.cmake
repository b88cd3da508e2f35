# Language, flags, compiler cache and precompiled headers for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# NDEBUG always, as libtorch was built: without it, torch's headers lay out RecordFunction and count
# references in another way. Our own invariants do not hang on it.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -DNDEBUG -D_GLIBCXX_ASSERTIONS")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# -fPIC for executables too: CMake would give them -fPIE, and g++ refuses a precompiled header that
# was made with another of the two.
add_compile_options(-fPIC)

add_library(fulgurite_warnings INTERFACE)
target_compile_options(fulgurite_warnings INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Winvalid-pch)

find_program(ccache_program ccache)
if(ccache_program)
  # Precompiled headers need the liberties. Paths relative to the source tree, and no hash of the
  # working directory, let clones share their objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ccache_program})
  add_compile_options(-fpch-preprocess)
endif()

# Headers of cmake/ are precompiled by name, found on the include path: a full path would stand in
# the generated header, and no two clones would have the same.
function(precompile target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake")
  list(TRANSFORM ARGN REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE names)
  target_precompile_headers(${target} PRIVATE ${names})
endfunction()
