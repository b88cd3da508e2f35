"""The kernel compiler of fulgurite: clang and LLVM in one shared library, for any Python and torch.

There is nothing to import here: fulgurite finds the library beside this file.
"""
