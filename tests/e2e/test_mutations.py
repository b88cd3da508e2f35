"""Changes, one at a time, values that can be reached from a compiled model, its classes and the
modules that it uses: each call gives what eager gives then.

A fixed sample of the changes; all of them with --all-mutations.
"""

import enum
import sys
import types
import zlib

import pytest
import torch

import fulgurite
from fulgurite import Unsupported

transformers = pytest.importorskip("transformers")

SAMPLE = 12  # one in so many
SMALL = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
# Not transformers.utils.generic: to make a ModelOutput again runs functions there that eager's own
# way to make one does not.
MODULES = (
    "transformers.integrations.sdpa",
    "transformers.masking",
    "transformers.cache_utils",
    "transformers.utils.output",
    "transformers.activations",
    "transformers.modeling_utils",
    "torch.nn.functional",
    "torch.nn.modules.module",
)
CLASSES = (
    "transformers.models",
    "torch.nn",
    "transformers.cache",
    "transformers.mask",
    "transformers.mod",
)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=32, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(intermediate_size=64, num_key_value_heads=1, **SMALL)
    return transformers.LlamaForCausalLM(config)


def bert():
    config = transformers.BertConfig(intermediate_size=64, max_position_embeddings=32, **SMALL)
    return transformers.BertForSequenceClassification(config)


def t5():
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def raises(*args, **kwargs):
    raise RuntimeError("replaced")


def other(value):
    """Another value in place of this one; None where there is none."""
    if isinstance(value, enum.Enum):
        return next((member for member in type(value) if member is not value), None)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if type(value) is float:
        return value * 1.5 + 0.25
    if type(value) is str:
        return value + "_"
    if value is None or isinstance(value, property):
        return 1
    if isinstance(value, types.FunctionType):
        return lambda *args, **kwargs: raises()
    if isinstance(value, torch.nn.Module):
        return torch.nn.Identity()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(value.detach() + 1)
    if type(value) is torch.Tensor:
        return value + 1
    if type(value) is torch.dtype:
        return torch.float64
    if type(value) is tuple:
        return ()
    return None


def children(thing):
    """(container, key, value) of what a thing holds, by which container it can be set in."""
    plain = (type, types.ModuleType, types.FunctionType, torch.Tensor, enum.Enum)
    if isinstance(thing, dict):
        return [(thing, key, value) for key, value in list(thing.items())]
    if isinstance(thing, list):
        return [(thing, index, value) for index, value in enumerate(thing)]
    if isinstance(thing, type):
        if not (thing.__module__ or "").startswith(CLASSES):
            return []
        return [(thing, k, v) for k, v in list(vars(thing).items()) if not k.startswith("__")]
    if hasattr(thing, "__dict__") and not isinstance(thing, plain):
        return [(vars(thing), key, value) for key, value in list(vars(thing).items())]
    return []


def places(model):
    """(path, container, key, value) of all that can be changed."""
    seen, todo, files = set(), [("model", model)], {type(model).__module__}
    while todo:
        path, thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        for container, key, value in children(thing):
            if not isinstance(thing, type):
                todo.append((f"{path}.{key}", value))
            yield f"{path}.{key}", container, key, value
        if isinstance(thing, torch.nn.Module) or type(thing).__module__.startswith("transformers"):
            todo.extend((f"class {base.__name__}", base) for base in type(thing).__mro__)
        if isinstance(thing, torch.nn.Module):
            for method in ("forward", "__call__"):
                yield f"{path}.{method}", thing, method, None
    for name, module in list(sys.modules.items()):
        if name.startswith(MODULES) or name in files:
            for key, value in list(vars(module).items()):
                if not key.startswith("__"):
                    yield f"{name}:{key}", vars(module), key, value


def put(container, key, value):
    if isinstance(container, type):
        setattr(container, key, value)
    else:
        container[key] = value


class Change:
    """A value that is another one meanwhile; `possible` is false where there is no other."""

    def __init__(self, container, key, value):
        self.where, self.value = (container, key), value
        self.hooks = key if isinstance(container, torch.nn.Module) else None
        self.new = None if self.hooks else other(value)
        self.possible = self.hooks is not None or self.new is not None
        if key == "max_norm":  # with one a call writes to the weight, and the next call differs
            self.possible = False

    def make(self):
        container, key = self.where
        if self.hooks == "forward":
            self.handle = container.register_forward_hook(lambda module, args, out: raises())
        elif self.hooks:
            self.handle = container.register_forward_pre_hook(lambda module, args: raises())
        else:
            put(container, key, self.new)

    def revert(self):
        if self.hooks:
            self.handle.remove()
        else:
            put(*self.where, self.value)


def flat(output):
    """What a model gives, as a list of things that can be compared."""
    if isinstance(output, torch.Tensor) or not isinstance(output, (dict, list, tuple)):
        return [output if isinstance(output, (torch.Tensor, str, int, float)) else type(output)]
    parts = output.items() if isinstance(output, dict) else enumerate(output)
    return [type(output).__name__, *(leaf for key, part in parts for leaf in [key, *flat(part)])]


def same(a, b):
    if isinstance(a, str):
        return a == b
    return len(a) == len(b) and all(
        torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, torch.Tensor) else x == y
        for x, y in zip(a, b, strict=True)
    )


def outcome(model, inputs):
    """The flat result, the class of the error as text, or Unsupported."""
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            return flat(model(**inputs))
    except Unsupported:
        return Unsupported
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


@pytest.fixture
def is_sampled(request):
    every = request.config.getoption("--all-mutations")
    return lambda path: every or zlib.crc32(path.encode()) % SAMPLE == 0


@pytest.mark.parametrize("make", [gpt2, llama, bert, t5])
def test_no_change_is_missed(make, is_sampled):
    torch.manual_seed(0)
    model = make().eval()
    inputs = {"input_ids": torch.randint(1, 64, (1, 6))}
    inputs["labels"] = torch.zeros(1, dtype=torch.long) if make is bert else inputs["input_ids"]
    compiled = fulgurite.jit(model, executors=["aten"])  # bit for bit
    assert same(outcome(compiled, inputs), outcome(model, inputs))
    assert same(outcome(compiled, inputs), outcome(model, inputs))
    missed, refused, differed, tried = [], [], 0, 0
    base = outcome(model, inputs)
    for path, container, key, value in list(places(model)):
        change = Change(container, key, value)
        if not is_sampled(path) or not change.possible:
            continue
        try:
            change.make()
        except (AttributeError, TypeError):
            continue
        try:
            eager, ours = outcome(model, inputs), outcome(compiled, inputs)
        finally:
            change.revert()
        tried += 1
        differed += not same(eager, base) if type(eager) is type(base) else 1
        if ours is Unsupported:
            refused.append(path)
        elif type(eager) is not type(ours) or not same(eager, ours):
            missed.append((path, eager if isinstance(eager, str) else "another value"))
    print(f"{tried} tried, {differed} make a difference, {len(refused)} refused: {refused[:9]}")
    assert missed == []
    assert differed > 0
