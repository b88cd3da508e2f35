"""Programs that leave a tensor of their own where they find it in the next call: one entry serves
all calls, keeps no old tensor alive, and gives and leaves what eager does."""

import copy
import gc
import types
import weakref

import pytest
import torch

import fulgurite

PROGRAMS = {}


def program(misses):
    """`make()` gives a function, what to compare after each call, and a change between calls."""

    def add(make):
        PROGRAMS[make.__name__] = make, misses
        return make

    return add


def _holder(**values):
    return types.SimpleNamespace(**values)


def nothing(_):
    pass


@program(misses=1)
def attribute():
    o = _holder(h=torch.zeros(3))

    def f(x):
        o.h = o.h * 0.5 + x
        return o.h * 2

    return f, lambda: [o.h], nothing


@program(misses=1)
def previous_one():
    o = _holder(h=torch.zeros(3), p=torch.zeros(3))

    def f(x):
        o.p = o.h
        o.h = o.h * 0.5 + x
        return o.h - o.p

    return f, lambda: [o.h, o.p], nothing


@program(misses=1)
def exchanged():
    o = _holder(a=torch.zeros(3), b=torch.ones(3))

    def f(x):
        o.a, o.b = o.b, o.a
        return o.a + x

    return f, lambda: [o.a, o.b], nothing


@program(misses=None)
def two_names():
    """Sometimes for one tensor."""
    o = _holder(h=torch.zeros(3), p=torch.ones(3))

    def f(x):
        o.h = o.h + x
        return o.h - o.p

    return f, lambda: [o.h, o.p], lambda i: setattr(o, "p", o.h) if i % 3 == 0 else None


@program(misses=None)
def names_compared():
    o = _holder(h=torch.zeros(3), p=torch.ones(3))

    def f(x):
        y = x * 2 if o.h is o.p else x * 3
        o.h = o.h + x
        return y

    return f, lambda: [o.h, o.p], lambda i: setattr(o, "p", o.h) if i % 3 == 0 else None


@program(misses=2)
def begins_with_none():
    o = _holder(h=None)

    def f(x):
        o.h = x if o.h is None else o.h * 0.5 + x
        return o.h * 1

    return f, lambda: [o.h], lambda i: setattr(o, "h", None) if i == 4 else None


@program(misses=None)
def written_in_place():
    o = _holder(h=torch.zeros(3), k=torch.zeros(3))

    def f(x):
        o.h.add_(x)
        o.k = o.h
        o.h = o.h * 2
        return o.h + o.k

    return f, lambda: [o.h, o.k], nothing


@program(misses=None)
def memory_of_another():
    o = _holder(h=torch.zeros(3), k=torch.zeros(3))

    def f(x):
        o.k.add_(1)
        result = o.h + x
        o.h = o.h * 2
        return result

    return f, lambda: [o.h, o.k], lambda i: setattr(o, "k", o.h[:]) if i % 2 else None


@program(misses=None)
def argument_is_kept():
    o = _holder(h=torch.zeros(3))

    def f(x):
        x.add_(1)
        result = o.h + x
        o.h = x
        return result

    return f, lambda: [o.h], nothing


@program(misses=4)
def graph_of_steps():
    """Gradients through several calls: a state without a gradient first, and then with one. They
    come in for the sum alone, for the state alone, and for both."""
    o, w = _holder(h=torch.zeros(3)), torch.ones(3, requires_grad=True)

    def f(x):
        o.h = torch.relu(o.h * w + x)
        return o.h.sum()

    def change(i):
        if i % 3 == 2:
            o.h.sum().backward()
            o.h = o.h.detach()

    return f, lambda: [o.h] + ([] if w.grad is None else [w.grad]), change


@program(misses=8)
def growing():
    o = _holder(h=torch.zeros(0))

    def f(x):
        o.h = torch.cat([o.h, x])
        return o.h.sum()

    return f, lambda: [o.h], nothing


@program(misses=2)
def other_dtype():
    o = _holder(h=torch.zeros(3))

    def f(x):
        o.h = o.h + x
        return o.h * 1

    return f, lambda: [o.h], lambda i: setattr(o, "h", o.h.double()) if i == 3 else None


@program(misses=1)
def variable_of_a_closure():
    h = torch.zeros(3)

    def f(x):
        nonlocal h
        h = h + x
        return h * 1

    return f, lambda: [h], nothing


@program(misses=1)
def items_of_a_list():
    s = [torch.zeros(3), torch.zeros(3)]

    def f(x):
        s[0] = s[0] + x
        s[1] = s[1] * 0.5 + s[0]
        return s[1] * 1

    return f, lambda: list(s), lambda i: s.reverse() if i == 4 else None


@program(misses=1)
def buffer_of_a_module():
    class Average(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("h", torch.zeros(3))

        def forward(self, x):
            self.h = self.h * 0.9 + x
            return self.h.sum()

    m = Average()
    change = {"h": torch.ones(3)}
    return m, lambda: [m.h], lambda i: m.load_state_dict(change) if i % 3 == 2 else None


@program(misses=2)
def parameter_replaced_between_calls():
    m = torch.nn.Linear(3, 3)

    def change(i):
        m.weight = torch.nn.Parameter(torch.randn(3, 3))

    return (lambda x: m(x)), lambda: [m.weight], change


@program(misses=2)
def tied_at_first():
    m, n = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    n.weight = m.weight

    def change(i):
        m.weight = torch.nn.Parameter(torch.randn(3, 3))

    return (lambda x: n(m(x))), lambda: [m.weight, n.weight], change


@program(misses=None)
def sometimes_a_parameter():
    def parameter(values):
        return torch.nn.Parameter(values, requires_grad=False)

    o = _holder(h=parameter(torch.zeros(3)))

    def f(x):
        o.h = o.h + x if isinstance(o.h, torch.nn.Parameter) else o.h - x
        return o.h * 1

    change = lambda i: setattr(o, "h", parameter(o.h.detach())) if i % 3 == 0 else None  # noqa: E731
    return f, lambda: [o.h], change


@program(misses=None)
def data_is_read():
    o = _holder(h=torch.zeros(3))

    def f(x):
        k = o.h.tolist()[0]
        o.h = o.h + x
        return x * k

    return f, lambda: [o.h], nothing


@program(misses=1)
def pair_made_anew():
    o = _holder(s=(torch.zeros(3), torch.zeros(3)))

    def f(x):
        h, c = o.s
        c = c * 0.9 + x
        h = c.relu() + h.dim() * h
        o.s = (h, c)
        return h * 1

    return f, lambda: list(o.s), nothing


@program(misses=None)
def pair_of_one_tensor():
    o = _holder(s=(torch.zeros(3), torch.ones(3)), last=None)

    def f(x):
        o.s[0].add_(x)
        o.last = o.s[1]
        o.s = (o.s[1] * 2, o.s[0] * 1)
        return o.s[0] * 1

    def change(i):
        if i % 3 == 1:
            o.s = (o.s[0], o.s[0])
        if i == 5:
            o.s += (torch.ones(3),)

    return f, lambda: [*o.s, o.last], change


@program(misses=2)
def recurrent_module():
    m, o = torch.nn.LSTM(3, 4, batch_first=True), _holder(h=None)

    def f(x):
        with torch.no_grad():
            y, o.h = m(x.view(1, 1, 3), o.h)
        return y

    return f, lambda: list(o.h), lambda i: setattr(o, "h", None) if i == 4 else None


@program(misses=None)
def attributes_that_are_asked_for():
    o = _holder(h=torch.zeros(3))

    def f(x):
        y = x * getattr(o.h, "scale", 1) * o.h.dim()
        o.h = o.h + x
        return y

    return f, lambda: [o.h], lambda i: setattr(o.h, "scale", i) if i % 2 else None


@program(misses=1)
def attribute_of_a_class():
    class Kept:
        s = torch.ones(3)

    def f(x):
        Kept.s = x * 2
        Kept.s[1:] = x[:-1]
        return Kept.s * 3

    return f, lambda: [Kept.s], nothing


@program(misses=None)
def known_by_a_weak_reference():
    o = _holder(h=torch.zeros(3))
    reference = weakref.ref(o.h)

    def f(x):
        h = reference()
        return x if h is None else h + 100

    return f, lambda: [o.h], lambda i: setattr(o, "h", torch.ones(3)) if i == 2 else None


@program(misses=None)
def moved_about():
    class Kept:
        s = torch.ones(4)

    o = _holder(n=_holder(t=torch.ones(4) * 2), l=[torch.ones(4) * 3])
    others, m = [torch.ones(4) * 6, torch.ones(4) * 7], torch.nn.Module()
    m.register_buffer("buf", torch.ones(4) * 8)

    def f(x):
        o.l[0] = m.buf
        o.n.t, m.buf = m.buf, o.n.t
        m.buf = others[1].unsqueeze(0).expand(2, 4)[1]
        Kept.s = torch.randn(4) + o.n.t
        return x * 1

    return f, lambda: [Kept.s, o.n.t, m.buf, *o.l], nothing


def run(make, wrap):
    torch.manual_seed(0)
    f, state, change = make()
    f, seen = wrap(f), []
    same = torch.ones(3)
    for i in range(8):
        x = same if i in (5, 6) else torch.arange(3.0) + i
        seen += [t.detach().clone() for t in (f(x), *state())]
        change(i)
    return f, seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    make, misses = PROGRAMS[name]
    (_, expected), (compiled, found) = run(make, lambda f: f), run(make, fulgurite.jit)
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b)
    if misses is not None:
        assert fulgurite.cache_misses(compiled) == misses


@pytest.mark.parametrize("decorator", [
    torch.no_grad(), torch.inference_mode(), torch.autocast("cpu"), fulgurite.jit,
])  # fmt: skip
def test_state_of_a_decorated_function(decorator):
    o = _holder(n=0)

    @decorator
    def f(x):
        o.n += 1
        return x + o.n

    compiled = fulgurite.jit(lambda x: f(x)) if decorator is fulgurite.jit else fulgurite.jit(f)
    assert [compiled(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3]


def test_views_are_made_in_the_callers_grad_mode():
    """A write with a history is allowed to those of grad mode alone."""
    o, w = _holder(buf=torch.zeros(4), v=None), torch.ones(2, requires_grad=True)

    def f(x):
        o.v = o.buf[:2]
        return x[1:]

    compiled, x = fulgurite.jit(f), torch.zeros(3)
    for _ in range(2):
        result = compiled(x)
    result.add_(w)
    o.v.add_(w)
    assert x.grad_fn is not None and o.buf.grad_fn is not None


@pytest.mark.parametrize("make", [lambda: torch.zeros(3), lambda: torch.zeros(2, 3)[1]])
def test_state_that_gets_a_history_in_place(make):
    """A write to a view gives its base a history as well."""
    outcomes = []
    for wrap in (lambda f: f, fulgurite.jit):
        o, w = _holder(s=make()), torch.ones(3, requires_grad=True)

        def f(x, o=o, w=w):
            o.s.add_(w * x)
            return o.s.sum()

        g = wrap(f)
        sums = torch.stack([g(torch.ones(3) * i) for i in range(3)])
        o.s.sum().backward()
        outcomes.append(torch.cat([sums.detach(), o.s.detach(), w.grad]))
    assert torch.equal(*outcomes)


def test_attributes_of_a_new_state_are_refused():
    o = _holder(h=torch.zeros(3))

    def f(x):
        o.h = o.h + x
        o.h.tag = 7

    with pytest.raises(fulgurite.Unsupported, match="keeps a tensor on which it sets attributes"):
        fulgurite.jit(f)(torch.ones(3))


def test_old_states_are_freed():
    o, old = _holder(h=torch.zeros(3)), []

    def f(x):
        o.h = o.h + x
        return o.h.sum()

    compiled = fulgurite.jit(f)
    for _ in range(5):
        old.append(weakref.ref(o.h))
        compiled(torch.ones(3))
    gc.collect()
    assert all(reference() is None for reference in old)


def test_weights_of_replaced_modules_are_freed():
    m, old = torch.nn.Sequential(torch.nn.Linear(3, 3)), []
    compiled = fulgurite.jit(m)
    for _ in range(6):
        compiled(torch.ones(3))
        old.append(weakref.ref(m[0].weight))
        m[0] = torch.nn.Linear(3, 3)
    gc.collect()
    assert sum(reference() is not None for reference in old) <= 1


def test_prologue_takes_the_state_from_its_place():
    o = _holder(h=torch.zeros(3))

    def f(x):
        o.h = o.h + x
        return o.h * 1

    compiled = fulgurite.jit(f)
    compiled(torch.ones(3))
    prologue = fulgurite.last_prologue_traces(compiled)[-1]
    run_prologue = prologue.python_callable()
    o.h = torch.full((3,), 7.0)
    x = torch.ones(3)
    assert [t is s for t, s in zip(run_prologue(x), (x, o.h), strict=True)] == [True, True]
    o.h = torch.ones(4)
    with pytest.raises(AssertionError):
        run_prologue(x)


def test_prologue_takes_a_pair_from_its_place():
    compiled = fulgurite.jit(PROGRAMS["pair_made_anew"][0]()[0])
    compiled(torch.ones(3))
    prologue = fulgurite.last_prologue_traces(compiled)[-1].python_callable()
    inputs = prologue(torch.ones(3))
    assert [tuple(t.shape) for t in inputs] == [(3,)] * 3
    with pytest.raises(AssertionError):
        prologue(torch.ones(4))


def test_deepcopies_have_states_of_their_own():
    m = PROGRAMS["buffer_of_a_module"][0]()[0]
    compiled = fulgurite.jit(m)
    compiled(torch.ones(3))
    other = copy.deepcopy(compiled)
    other(torch.ones(3))
    assert m.h.tolist() == [1, 1, 1] and other.h.tolist() == pytest.approx([1.9] * 3)
