"""What `fulgurite.jit` declines, and what users are told."""

import pytest
import torch

import fulgurite


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * x.sum().long().item(),
        lambda x: x * x.tolist()[0],
        lambda x: x * float(x.numpy().sum()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
    ],
    ids=["bool", "item", "tolist", "numpy", "mask", "nonzero"],
)
def test_reading_data_is_refused_or_runs_eagerly(program):
    x = torch.ones(3)
    with pytest.raises(fulgurite.Unsupported) as error:
        fulgurite.jit(program)(x)
    assert "test_jit_refusals.py" in str(error.value)
    assert "lambda x: " in str(error.value)
    lenient = fulgurite.jit(program, fallback="eager")
    for _ in range(2):
        assert torch.equal(lenient(x), program(x))
    assert fulgurite.compile_data(lenient).fallbacks


def test_a_refusal_that_is_swallowed_still_counts():
    def program(x):
        try:
            return x * x.sum().long().item()
        except Exception:
            return x

    with pytest.raises(fulgurite.Unsupported):
        fulgurite.jit(program)(torch.ones(3))


def test_errors_are_the_users_own():
    class Mine(Exception):
        pass

    def program(x):
        raise Mine("so it goes")

    with pytest.raises(Mine, match="so it goes") as error:
        fulgurite.jit(program)(torch.ones(3))
    assert error.traceback[-1].name == "program"
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        fulgurite.jit(torch.mm)(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(TypeError):
        fulgurite.jit(lambda x: x)(1, 2, 3)
    with pytest.raises(IndexError):
        table = torch.nn.Embedding(3, 2)
        fulgurite.jit(table)(torch.tensor([5]))
    compiled = fulgurite.jit(lambda x: x + 1)
    assert compiled(torch.ones(1)) == 2  # the thread is as it was


def test_bad_targets_and_options():
    for bad in (3, None.__class__, "abc", torch.jit.script(torch.nn.Linear(2, 2))):
        with pytest.raises(fulgurite.UserError):
            fulgurite.jit(bad)
    with pytest.raises(fulgurite.UserError, match="'fallback'"):
        fulgurite.jit(lambda x: x, fallbak="eager")
    with pytest.raises(fulgurite.UserError, match="positive int"):
        fulgurite.jit(lambda x: x, entries=0)
    with pytest.raises(fulgurite.UserError, match="'error' or 'eager'"):
        fulgurite.jit(lambda x: x, fallback="never")
    with pytest.raises(fulgurite.UserError, match="call the function first"):
        fulgurite.last_traces(fulgurite.jit(lambda x: x))
    with pytest.raises(fulgurite.UserError, match=r"fulgurite\.jit returned"):
        fulgurite.last_traces(print)


def test_arguments_that_cannot_be_compiled():
    class Sub(torch.Tensor):
        pass

    compiled = fulgurite.jit(lambda x: x * 2)
    with pytest.raises(fulgurite.Unsupported, match="subclass"):
        compiled(torch.ones(2).as_subclass(Sub))
    with pytest.raises(fulgurite.Unsupported, match="Sparse"):
        compiled(torch.ones(2).to_sparse())
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
        with pytest.raises(fulgurite.Unsupported, match=r"nested tensor|NestedTensor"):
            compiled(nested)
    with pytest.raises(fulgurite.Unsupported, match="quantized"):
        compiled(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8))
    lenient = fulgurite.jit(lambda x: x * 2, fallback="eager")
    assert lenient(torch.ones(2).to_sparse()).to_dense()[0] == 2
