# -DFULGURITE_SANITIZE=address, undefined or address,undefined, for the C++ tests. libtorch itself
# is not instrumented.
set(FULGURITE_SANITIZE "" CACHE STRING "what -fsanitize= gets, or empty")
if(FULGURITE_SANITIZE)
  if(FULGURITE_PYTHON)
    message(FATAL_ERROR "Sanitizers are for the C++ tests alone: add -DFULGURITE_PYTHON=OFF")
  endif()
  # Not optimised: built in two thirds of the time, and nothing is dropped before it is checked.
  add_compile_options(-O0 -g1 -fsanitize=${FULGURITE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FULGURITE_SANITIZE})
endif()
