"""Which objects the arguments are: the program may have them from elsewhere, too."""

import functools

import pytest
import torch

import fulgurite


def test_written_argument_that_is_a_tensor_of_the_program():
    def run(wrap):
        shared = torch.ones(3)

        def f(x):
            x.add_(1)
            return shared * 2

        f = wrap(f)
        return [f(x).tolist() for x in (torch.ones(3), shared, shared[:2], torch.ones(3))]

    assert run(fulgurite.jit) == run(lambda f: f)


def test_tensors_that_share_memory_later():
    def run(wrap, tie):
        a, b = torch.ones(2), torch.zeros(2)

        def f():
            a.add_(1)
            return b * 2

        f = wrap(f)
        f()
        tie(a, b)
        return f().tolist(), f().tolist()

    def set_data(a, b):
        b.data = a

    for tie in (set_data, lambda a, b: b.set_(a)):
        assert run(fulgurite.jit, tie) == run(lambda f: f, tie)


def test_gradients_that_share_memory_later():
    def run(wrap):
        v, w = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        v.grad, w.grad = torch.ones(2), torch.ones(2)

        @torch.no_grad()
        def halve():
            v.grad.mul_(0.5)
            w.grad.mul_(0.5)

        halve = wrap(halve)
        halve()
        v.grad = w.grad
        halve()
        return w.grad.tolist()

    assert run(fulgurite.jit) == run(lambda f: f)


def test_leaf_that_is_an_argument_too():
    w = torch.nn.Parameter(torch.ones(3))
    compiled = fulgurite.jit(lambda x: torch.autograd.grad((x * w).sum(), [w])[0])
    assert compiled(torch.ones(3, requires_grad=True)).tolist() == [1, 1, 1]
    with pytest.raises(fulgurite.Unsupported, match="is an argument and is found elsewhere"):
        compiled(w)


def test_class_of_an_argument():
    def f(x):
        return isinstance(x, torch.nn.Parameter), type(x).__name__, x.type()

    compiled = fulgurite.jit(f)
    dtypes = (torch.float64, torch.bfloat16, torch.bool, torch.int8, torch.complex64)
    others = [torch.ones(2, dtype=dtype) for dtype in dtypes]
    for x in (torch.ones(2), torch.nn.Parameter(torch.ones(2)), *others):
        assert compiled(x) == f(x)


def test_attributes_of_an_argument():
    compiled = fulgurite.jit(lambda x: x * getattr(x, "scale", 1))
    a, b = torch.ones(2), torch.ones(2)
    assert compiled(a).tolist() == [1, 1]
    b.scale = 5
    assert compiled(b).tolist() == [5, 5]
    b.scale = torch.tensor([2.0, 3.0])
    assert compiled(b).tolist() == [2, 3]
    assert compiled(a).tolist() == [1, 1]


def test_offset_of_an_argument():
    compiled = fulgurite.jit(lambda x: x.as_strided((2,), (1,), x.storage_offset()) * 1)
    x = torch.arange(8.0)
    for start in (0, 3, 5):
        assert compiled(x[start : start + 2]).tolist() == [start, start + 1]


def _sets_attribute(x):
    x.seen = True
    return x + 1


def _returns_attribute(x):
    y = x + 1
    y.tag = "hi"
    return y


def _drops_gradient(x):
    x.grad = None
    return x * 1


known = [torch.ones(2)]
REFUSED = [
    (_sets_attribute, "sets the attribute seen"),
    (_returns_attribute, "sets attributes"),
    (_drops_gradient, "sets the attribute grad"),
    (lambda x: x is known[0], "asks with `is`"),
    (lambda x: id(x), r"takes the id\(\)"),
    (lambda x: {known[0]: 1}.get(x) or hash(x), r"takes the id\(\)"),
    (lambda x: isinstance(x, torch.FloatTensor), "ask for its dtype"),
    (lambda x: x._version, "_version"),
    (lambda x: x._base is None, "_base"),
    (lambda x: f"{x}", "makes text"),
    (lambda x: repr(x), "makes text"),
]


@pytest.mark.parametrize("f, message", REFUSED)
def test_refused(f, message):
    with pytest.raises(fulgurite.Unsupported, match=message):
        fulgurite.jit(f)(torch.ones(2))


def test_text_for_people(capsys):
    def f(x):
        print(f"x is {x}")
        if x.shape[0] > 3:
            raise ValueError(f"too long: {x}")
        return x + 1

    compiled = fulgurite.jit(f)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert capsys.readouterr().out == "x is cpu f32[2]\n"
    with pytest.raises(ValueError, match=r"too long: tensor\(\[1., 1., 1., 1.\]\)"):
        compiled(torch.ones(4))


table = {}


def test_container_that_is_an_argument_too():
    def f(x, counts):
        table["calls"] = table.get("calls", 0) + 1
        return x * counts["calls"]

    compiled = fulgurite.jit(f)
    with pytest.raises(fulgurite.Unsupported, match="in another place"):
        table["calls"] = 1
        compiled(torch.ones(1), table)


def test_function_of_a_cache_runs_once():
    calls = []

    @functools.lru_cache
    def noise(n):
        calls.append(n)
        return torch.randn(n)

    compiled = fulgurite.jit(lambda x: x + noise(x.shape[0]))
    results = [compiled(torch.zeros(n)).tolist() for n in (2, 3, 2, 2)]
    assert calls == [2, 3] and results[0] == results[2] == results[3]
    noise.cache_clear()
    assert compiled(torch.zeros(2)).tolist() != results[0]
    assert calls == [2, 3, 2]


def test_function_of_a_cache_that_raises_keeps_nothing():
    calls = []

    @functools.lru_cache
    def load(name):
        calls.append(name)
        raise KeyError(name)

    def f(x):
        try:
            return x * load("scale")
        except KeyError:
            return x

    with pytest.raises(fulgurite.Unsupported, match="keeps no result when it raises"):
        fulgurite.jit(f)(torch.ones(1))
    with pytest.raises(KeyError):
        fulgurite.jit(lambda x: x * load("scale"))(torch.ones(1))


def test_function_of_a_cache_with_tensors_of_the_program():
    def f(x):
        @functools.lru_cache
        def scaled(k):
            return x * k

        return scaled(2)

    with pytest.raises(fulgurite.Unsupported):
        fulgurite.jit(f)(torch.ones(1))


def test_function_of_a_cache_may_call_compiled_ones():
    three = fulgurite.jit(lambda n: torch.ones(n.shape[0]) * 3)

    @functools.lru_cache
    def table(n):
        return three(torch.zeros(n))

    compiled = fulgurite.jit(lambda x: x * table(x.shape[0]))
    for n in (2, 3, 2):
        assert compiled(torch.ones(n)).tolist() == [3] * n


def test_function_of_a_cache_that_keeps_nothing_is_part_of_the_program():
    calls = []

    @functools.lru_cache(maxsize=0)
    def two():
        calls.append(1)
        return torch.full((1,), 2.0)

    compiled = fulgurite.jit(lambda x: x * two())
    for number in range(1, 4):
        assert compiled(torch.ones(1)).tolist() == [2]
        assert len(calls) == number


@pytest.mark.parametrize("name", ["__call__", "__add__", "__len__", "__getitem__", "__getattr__"])
def test_special_methods_are_not_known_by_address(name):
    """A new method may lie where an old one lay that is gone."""

    class Holder:
        pass

    uses = {
        "__call__": lambda h: h(1), "__add__": lambda h: h + 1, "__len__": len,
        "__getitem__": lambda h: h[0], "__getattr__": lambda h: h.other,
    }  # fmt: skip
    use, holder = uses[name], Holder()
    compiled = fulgurite.jit(lambda x: x * use(holder))
    for k in range(20):
        names = {}
        exec(f"def method(self, *a): return {k}", names)
        setattr(Holder, name, names.pop("method"))
        del names
        assert compiled(torch.ones(1)).item() == k


@pytest.mark.parametrize("use", [
    lambda at: [5, 6, 7][at], lambda at: (5, 6, 7)[at], lambda at: len([1, 1, 1][:at]),
    lambda at: ord("abc"[at]),
])  # fmt: skip
def test_index_objects(use):
    class At:
        def __index__(self):
            return 2

    at = At()
    compiled = fulgurite.jit(lambda x: x * use(at))
    for index in (2, 0, 1, 0, 2):
        At.__index__ = lambda self, index=index: index
        assert compiled(torch.ones(1)).item() == use(at)
