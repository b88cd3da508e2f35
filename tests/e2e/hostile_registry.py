"""What the hostile programs are collected in, by name.

Each function that is registered gives f(x), change(i), called between the calls, and state(), what
is left then.
"""

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def nothing(*args):
    return None
