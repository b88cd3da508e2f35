"""Operators on lists of tensors, which run as operators on each."""

import pytest
import torch

import fulgurite

PREFIX = "_foreach_"
SHAPES = ((3, 5), (7,), (), (2, 1, 4))


def schemas():
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if name.startswith(PREFIX) and not any(arg.is_out for arg in schema.arguments):
            yield pytest.param(schema, id=f"{name}.{schema.overload_name}")


def tensors(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(shape, generator=generator) + 0.25 for shape in SHAPES]


def arguments(schema):
    """Tensors that are written come first."""
    args, kwargs = [], {}
    for number, arg in enumerate(schema.arguments):
        kind = str(arg.type)
        if kind == "List[Tensor]":
            value = tensors(number)
        elif kind == "Tensor":
            value = torch.tensor(0.75)
        elif kind in ("number", "Scalar"):
            value = 2.0
        elif kind in ("List[number]", "List[Scalar]"):
            value = [0.5 + 0.25 * i for i in range(len(SHAPES))]
        else:
            continue
        if arg.kwarg_only:
            kwargs[arg.name] = value
        else:
            args.append(value)
    return args, kwargs


@pytest.mark.parametrize("schema", list(schemas()))
def test_is_each_of_its_elements(schema):
    name = schema.name.removeprefix("aten::")
    if name in ("_foreach_mm", "_foreach_powsum"):
        pytest.skip("takes matrices, or no CPU kernel")
    overload = schema.overload_name or "default"
    op = getattr(getattr(torch.ops.aten, name), overload)

    def program(args, kwargs):
        made = op(*args, **kwargs)
        return [x * 2 for x in (args[0] if made is None else made)]

    expected_args, kwargs = arguments(schema)
    try:
        expected = program(expected_args, kwargs)
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(str(error).splitlines()[0])
    args, kwargs = arguments(schema)
    compiled = fulgurite.jit(program)
    try:
        found = compiled(args, kwargs)
    except fulgurite.Unsupported as reason:
        pytest.skip(str(reason).splitlines()[0])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True)
    torch.testing.assert_close(args, expected_args, rtol=1e-6, atol=1e-6, equal_nan=True)


def test_split():
    def program(xs, ys):
        return torch._foreach_add(torch._foreach_mul(xs, ys), 1)

    compiled = fulgurite.jit(program)
    compiled(tensors(0), tensors(1))
    text = fulgurite.last_traces(compiled)[-1].text()
    assert f"aten.{PREFIX}" not in text and "fusion0" in text


def test_split_by_nobody_but_loops():
    def program(xs):
        return torch._foreach_mul(xs, 2)

    compiled = fulgurite.jit(program, executors=["aten"])
    compiled(tensors(0))
    assert "aten._foreach_mul" in fulgurite.last_traces(compiled)[-1].text()


def test_numbers_that_the_program_computes():
    def program(xs, n):
        count = n.item()
        return torch._foreach_div(xs, [1 - 0.9**count, count, 3.0, 0.5])

    compiled = fulgurite.jit(program)
    for n in (1.0, 2.0, 3.0):
        xs, count = tensors(0), torch.tensor(n)
        assert all(map(torch.equal, compiled(xs, count), program(xs, count)))
    assert fulgurite.cache_misses(compiled) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_number_that_the_program_computes_is_one_in_promotion(dtype):
    def program(x, y, n):
        count = n.item()
        x.mul_(count)
        return x * count + 1, (y > count) & (y != 0), torch.sub(count, x), y.new_zeros(()) < count

    def inputs():
        x = torch.arange(1, 8).to(torch.float32 if dtype == torch.int64 else dtype)
        return x, torch.arange(-2, 5).to(dtype), torch.tensor(1.1, dtype=torch.float64)

    compiled = fulgurite.jit(program)
    mine, eager = inputs(), inputs()
    for a, b in zip(compiled(*mine), program(*eager), strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)
    assert torch.equal(mine[0], eager[0])
