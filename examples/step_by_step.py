"""Step by step: what fulgurite captures of a program, and what it makes of it.

(a) one addition and its first trace; (b) a longer program and every trace up to the one that runs.
"""

import torch

import fulgurite


def foo(a, b):
    return a + b


def bar(a, b):
    c = a + b
    d = a + b
    e = a * a  # not used
    f = d * b
    return c, f


def show(title, text):
    print(f"\n{'-' * 8} {title}\n{text}")


def main():
    a = torch.full((2, 2), 1.0)
    b = torch.full((2, 2), 3.0)

    jfoo = fulgurite.jit(foo)
    result = jfoo(a, b)
    show("(a) foo, as captured", fulgurite.last_traces(jfoo)[0])
    print("jfoo(a, b) =", result.tolist(), " equal to eager:", torch.equal(result, foo(a, b)))

    jbar = fulgurite.jit(bar)
    results = jbar(a, b)
    for number, trace in enumerate(fulgurite.last_traces(jbar)):
        show(f"(b) bar, trace {number}", trace)
    same = all(map(torch.equal, results, bar(a, b)))
    print("equal to eager:", same)

    # A trace is a program: run its text, and it computes the same.
    scope = {}
    exec(fulgurite.last_traces(jbar)[-1].text(), scope)
    again = scope["computation"](a, b)
    print("the printed program, run as it stands:", all(map(torch.equal, again, results)))


if __name__ == "__main__":
    main()
