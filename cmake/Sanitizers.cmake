# -DFULGURITE_SANITIZE=address or undefined, for the C++ tests.
set(FULGURITE_SANITIZE "" CACHE STRING "address, undefined or empty")
if(FULGURITE_SANITIZE)
  add_compile_options(-fsanitize=${FULGURITE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FULGURITE_SANITIZE})
endif()
