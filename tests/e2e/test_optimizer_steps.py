"""Steps of torch.optim, compiled: the bits of eager, and compiled once and for all.

In loops square roots are rounded as IEEE 754 has it, which ATen's are not: there, close."""

import copy

import pytest
import torch

import fulgurite

SHAPES = ((3, 4), (5,), (1,), ())
STEPS = 10


def parameters(seed, shapes=SHAPES, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in shapes
    ]


def give_gradients(params, seed):
    generator = torch.Generator().manual_seed(seed)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator, dtype=param.dtype)


def state_of(optimiser):
    return [optimiser.state_dict()["state"], *optimiser.param_groups]


def same(a, b, equal=torch.equal):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], equal) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, equal) for x, y in zip(a, b, strict=True))
    return a == b


def close(a, b):
    rtol = {torch.float32: 1e-5, torch.float64: 1e-13, torch.bfloat16: 2e-2}[a.dtype]
    return torch.allclose(a, b, rtol, rtol)


def run(
    make,
    compiled,
    between=lambda optimiser, step: None,
    dtype=torch.float32,
    shapes=SHAPES,
    executors=None,
):
    """(parameters, states, compilations) after each step."""
    params = parameters(0, shapes, dtype)
    optimiser = make(params)
    chosen = {"executors": executors} if executors else {}
    step = fulgurite.jit(optimiser.step, **chosen) if compiled else optimiser.step
    seen = []
    for number in range(STEPS):
        give_gradients(params, number)
        between(optimiser, number)
        step()
        seen.append(copy.deepcopy((params, state_of(optimiser))))
    return seen, fulgurite.cache_misses(step) if compiled else 0


def check(make, most=2, **options):
    eager, _ = run(make, False, **options)
    for executors, equal in ((["aten"], torch.equal), (None, close)):
        compiled, misses = run(make, True, executors=executors, **options)
        for number, (a, b) in enumerate(zip(eager, compiled, strict=True)):
            assert same(a, b, equal), f"step {number}, {executors}"
        assert misses <= most


def config(name, **options):
    mark = "-".join([name, *(f"{key}={value}" for key, value in options.items())])
    return pytest.param(name, options, id=mark)


CONFIGS = [
    *(
        config(name, **kind, **more)
        for name in ("Adam", "AdamW")
        for kind in ({}, {"foreach": True}, {"fused": True})
        for more in ({}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True})
    ),
    config("SGD", fused=True),
    config("SGD", fused=True, momentum=0.9, nesterov=True, weight_decay=0.1),
    config("SGD", fused=True, momentum=0.9, dampening=0.1, maximize=True),
    config("Adagrad", fused=True),
    config("Adagrad", fused=True, lr_decay=0.1, weight_decay=0.1),
    *(
        config(name, **kind, **more)
        for name in ("NAdam", "Adamax", "Adadelta", "Rprop", "Adagrad", "RMSprop", "SGD")
        for kind in ({}, {"foreach": True})
        for more in ({}, {"maximize": True})
    ),
    *(
        config(name, weight_decay=0.1, **kind)
        for name in ("NAdam", "Adamax", "Adadelta", "Adagrad", "RMSprop", "SGD")
        for kind in ({}, {"foreach": True})
    ),
    config("NAdam", decoupled_weight_decay=True, weight_decay=0.1),
    config("SGD", lr=0.1, momentum=0.9),
    config("SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    config("SGD", lr=0.1, momentum=0.9, foreach=True),
    config("Adagrad", lr_decay=0.1),
    config("RMSprop", momentum=0.9, centered=True),
    config("Adam", betas=(0.5, 0.999), eps=1e-3, lr=0.1),
]


@pytest.mark.parametrize("name, options", CONFIGS)
def test_step(name, options):
    # Rprop reads a mask of no dimensions as a Python bool.
    shapes = SHAPES[:3] if name == "Rprop" else SHAPES
    check(lambda params: getattr(torch.optim, name)(params, **options), shapes=shapes)


@pytest.mark.parametrize("options", [{}, {"foreach": True}], ids=["", "foreach"])
def test_steps_that_branch_on_the_count(options):
    """RAdam does something else from the sixth step on."""
    check(lambda params: torch.optim.RAdam(params, **options), most=3)


@pytest.mark.parametrize(
    "name, options",
    [
        config("ASGD"),  # makes a tensor of a number that it computes
        config("Adafactor"),  # compares norms of tensors in Python
    ],
)
def test_refused_with_the_line(name, options):
    def make(params):
        return getattr(torch.optim, name)(params, **options)

    with pytest.raises(fulgurite.Unsupported, match="test_optimizer_steps.py"):
        run(make, True)
    eager, _ = run(make, False)
    params = parameters(0)
    optimiser = make(params)
    step = fulgurite.jit(optimiser.step, fallback="eager")
    for number in range(STEPS):
        give_gradients(params, number)
        step()
    assert same(eager[-1], (params, state_of(optimiser)))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "NAdam", "Adagrad", "RMSprop"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(name, dtype):
    check(getattr(torch.optim, name), dtype=dtype)


@pytest.mark.parametrize("foreach", [False, True])
def test_several_groups(foreach):
    def make(params):
        groups = [{"params": params[:2], "lr": 0.1}, {"params": params[2:], "weight_decay": 0.2}]
        return torch.optim.AdamW(groups, foreach=foreach)

    check(make)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_rate_in_a_tensor(name):
    """A scheduler that writes to the tensor costs no compilation."""

    def between(optimiser, number):
        for group in optimiser.param_groups:
            group["lr"].fill_(0.1 / (number + 1))

    check(
        lambda params: getattr(torch.optim, name)(params, lr=torch.tensor(0.1)),
        between=between,
    )


def test_scheduler():
    """A rate in a number is compiled for."""
    schedulers = {}

    def between(optimiser, number):
        scheduler = schedulers.setdefault(
            id(optimiser), torch.optim.lr_scheduler.StepLR(optimiser, 5, 0.5)
        )
        if number:
            scheduler.step()

    check(lambda params: torch.optim.AdamW(params), between=between, most=4)


def test_missing_gradient():
    def between(optimiser, number):
        optimiser.param_groups[0]["params"][1].grad = None

    check(torch.optim.Adam, between=between)


def test_loaded_state():
    """A step that continues from a checkpoint."""

    def between(optimiser, number):
        if number == 5:
            optimiser.load_state_dict(copy.deepcopy(optimiser.state_dict()))

    check(torch.optim.AdamW, between=between, most=3)
