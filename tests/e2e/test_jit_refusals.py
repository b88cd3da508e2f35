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


def test_a_message_is_reported_where_it_is_written():
    def f(x):
        print("a message")
        return x * 2

    with pytest.warns(UserWarning, match=r"calls builtins.print\(\); that happens") as told:
        fulgurite.jit(f)(torch.ones(2))
    assert told[0].filename == __file__
    assert told[0].lineno == f.__code__.co_firstlineno + 1


def test_changes_in_a_library_tell_whose_call_it_was():
    class Keeps(torch.nn.Module):
        def forward(self, x):
            self.made = lambda: x  # stored by torch.nn.Module.__setattr__
            return x * 2

    module = Keeps()
    with pytest.raises(fulgurite.Unsupported, match="cannot be repeated") as error:
        fulgurite.jit(module)(torch.ones(2))
    line = Keeps.forward.__code__.co_firstlineno
    assert "nn/modules/module.py" in str(error.value)
    assert f"Keeps.forward at {__file__}:{line}" in str(error.value)
    assert "made" not in vars(module)


@pytest.mark.parametrize(
    "register", ["register_full_backward_hook", "register_full_backward_pre_hook"]
)
def test_full_backward_hooks_are_found(register):
    module = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(2, 2)))
    getattr(module[1][0], register)(lambda *given: None)
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(
        fulgurite.Unsupported, match="the full backward hooks of self.1.0, a Linear"
    ):
        fulgurite.jit(module)(x)
    with torch.no_grad():
        assert torch.equal(fulgurite.jit(module)(x), module(x))


def test_checks_of_distributions_can_be_turned_off(monkeypatch):
    # torch.compile turns them off for the process.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)

    def f(x):
        return torch.distributions.Normal(x, x + 1).log_prob(x)

    with pytest.raises(fulgurite.Unsupported, match="instead: give Normal validate_args=False"):
        fulgurite.jit(f)(torch.ones(2))


class HooksItself(torch.nn.Module):
    """Registers a hook in its first call, or in each."""

    def __init__(self, each):
        super().__init__()
        self.part, self.seen, self.each, self.ready = torch.nn.Linear(2, 2), [], each, False

    def forward(self, x):
        if not self.ready or self.each:
            self.part.register_forward_hook(lambda module, given, result: result + self.part.bias)
            self.ready = True
        return self.part(x)


def test_hooks_that_a_model_registers_in_its_first_call():
    torch.manual_seed(0)
    module, eagers = HooksItself(each=False), HooksItself(each=False)
    eagers.load_state_dict(module.state_dict())
    compiled = fulgurite.jit(module)
    for number in range(3):
        x = torch.ones(2) * number
        assert torch.equal(compiled(x), eagers(x))
    assert len(module.part._forward_hooks) == 1
    assert fulgurite.cache_hits(compiled) == 1
    assert len(fulgurite.compile_data(compiled).fallbacks) == 1


def test_hooks_that_a_model_registers_in_each_call():
    compiled = fulgurite.jit(HooksItself(each=True))
    compiled(torch.ones(2))
    with pytest.raises(fulgurite.Unsupported, match="_forward_hooks"):
        compiled(torch.ones(2))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_before_any_other(reentrant, monkeypatch):
    checkpoint = torch.utils.checkpoint
    monkeypatch.setattr(checkpoint.DefaultDeviceType, "_default_device_type", None)
    linear = torch.nn.Linear(2, 2)

    def f(x):
        return checkpoint.checkpoint(linear, x, use_reentrant=reentrant)

    x = torch.ones(1, 2, requires_grad=True)
    assert torch.equal(fulgurite.jit(f)(x), f(x))


def attends(x):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(
    "program, advice",
    [
        (attends, "enter sdpa_kernel around the call"),
        (lambda x: x + torch.randn(2, generator=torch.Generator()), "make the generator outside"),
    ],
)
def test_refused_calls_come_with_advice(program, advice):
    with pytest.raises(fulgurite.Unsupported, match=f"instead: {advice}"):
        fulgurite.jit(program)(torch.ones(2, 2))
