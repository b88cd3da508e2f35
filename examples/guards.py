"""(d) What is checked before a compiled entry serves a call, and what is refused.

A changed global, a changed shape, and a branch that depends on data.
"""

import torch

import fulgurite

SCALE = 2.0


@fulgurite.jit
def scaled(x):
    return x * SCALE


@fulgurite.jit
def branching(x):
    if x.sum() > 0:
        return x
    return -x


def main():
    global SCALE
    x = torch.ones(2, 3)
    print("SCALE = 2:", scaled(x).sum().item())
    SCALE = 3.0
    print("SCALE = 3:", scaled(x).sum().item())
    print("  why it was compiled anew:", fulgurite.last_recompile_reason(scaled))

    scaled(torch.ones(4, 3))
    print("another shape:")
    print("  why it was compiled anew:", fulgurite.last_recompile_reason(scaled))
    scaled(x)
    print(f"hits {fulgurite.cache_hits(scaled)}, misses {fulgurite.cache_misses(scaled)}")

    print("\na branch on data, refused:")
    try:
        branching(x)
    except fulgurite.Unsupported as error:
        print(error)

    print('\nthe same with fallback="eager":')
    lenient = fulgurite.jit(branching.target, fallback="eager")
    print(" ", lenient(-x).sum().item())
    print("  why it ran eagerly:", fulgurite.compile_data(lenient).fallbacks[-1].splitlines()[0])


if __name__ == "__main__":
    main()
