"""Results of regions that are written where the program writes them, without a copy."""

import pytest
import torch
import torch.nn.functional as F

import fulgurite


def check(program, make, in_place=None, rtol=0):
    """Twice: the second call sees what the first has written."""
    eager, mine = make(), make()
    compiled = fulgurite.jit(program)
    for _ in range(2):
        expected, found = program(*eager), compiled(*mine)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=0)
        torch.testing.assert_close(mine, eager, rtol=rtol, atol=0)
        for x, y in zip(mine, eager, strict=True):
            assert (x._version > 0) == (y._version > 0)
    assert "fusion0" in fulgurite.last_traces(compiled)[-1].text()
    if in_place is not None:
        assert allocated(compiled, make()) == (0 if in_place else 1)


def allocated(compiled, args):
    """New tensors of the size of the first argument."""
    size = args[0].nbytes
    with torch.profiler.profile(profile_memory=True) as profile:
        compiled(*args)
    made = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    return sum(event.nbytes() == size for event in made)


def pair():
    return torch.arange(4096.0).sin(), torch.arange(4096.0).cos()


def test_update():
    def program(x, y):
        x.mul_(0.5).add_(y).clamp_(min=-1)

    check(program, pair, in_place=True)


def test_other_arguments_are_read_at_other_places():
    def program(x, y):
        x.mul_(2).add_(x.flip(0))

    check(program, pair, in_place=False)


def test_views_of_the_target():
    def program(x, y):
        x.copy_(x.roll(1) + y)

    check(program, pair)

    def overlapping():
        base = torch.arange(4104.0).sin()
        return base[:4096], base[8:]

    check(lambda x, y: x.copy_(x * 2 + y).sum() * 0, overlapping)


def test_the_result_is_handed_out():
    def program(x, y):
        z = x * 2 + y
        x.copy_(z)
        return z

    check(program, pair)
    x, y = pair()
    z = fulgurite.jit(program)(x, y)
    z.zero_()
    assert x.any()


def test_the_old_value_is_used_afterwards():
    def program(x, y):
        old = x.clone()
        x.mul_(2).add_(y)
        return torch.mm(old.view(64, 64), y.view(64, 64))

    check(program, pair)

    def copied(x, y):
        z = torch.mm(x.view(64, 64), x.view(64, 64))
        x.mul_(2).add_(y)
        return z, x.view(64, 64).t() @ z

    check(copied, pair)


def test_one_result_for_two():
    def program(x, y):
        z = x * 2 + y
        x.copy_(z)
        y.copy_(z)

    check(program, pair)


def test_other_dtypes_and_strides():
    def program(x, y):
        x.copy_(y * 2 + 1)

    check(program, lambda: (torch.zeros(64, 64, dtype=torch.float64), torch.ones(64, 64)))
    check(program, lambda: (torch.zeros(64, 64).t(), torch.arange(4096.0).view(64, 64)))
    check(program, lambda: (torch.zeros(64, 64), torch.arange(64.0)))


def test_a_row_is_read_again():
    def program(x, y):
        x.copy_(torch.softmax(x + y, -1))

    check(program, lambda: (torch.arange(4096.0).view(64, 64).sin(), torch.ones(64, 64)), rtol=1e-6)


def test_an_error_leaves_what_was_there():
    def program(x, index):
        x.mul_(2).add_(1)
        return x.view(64, 64).index_select(0, index) + 1

    compiled = fulgurite.jit(program)
    x = torch.arange(4096.0)
    compiled(x, torch.tensor([1]))
    assert torch.equal(x, torch.arange(4096.0) * 2 + 1)
    # Either nothing has been done, or the write, as in eager; never half of it.
    before = x.clone()
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([64]))
    assert torch.equal(x, before) or torch.equal(x, before * 2 + 1)


def test_parameters_under_no_grad():
    weight = torch.nn.Parameter(torch.arange(4096.0).sin())
    rate = torch.full((4096,), 0.1)

    @torch.no_grad()
    def program():
        weight.mul_(0.9).sub_(rate)

    compiled = fulgurite.jit(program)
    expected, version, place = weight.detach() * 0.9 - rate, weight._version, weight.data_ptr()
    compiled()
    assert torch.equal(weight, expected) and weight.requires_grad and weight.grad_fn is None
    assert weight._version > version and weight.data_ptr() == place


def test_history_is_still_recorded():
    """Autograd has a part: the call is not taken for one without it."""
    weight = torch.nn.Parameter(torch.ones(8))

    def program(x):
        y = x * weight
        with torch.no_grad():
            weight.add_(1)
        return y

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        fulgurite.jit(program)(torch.ones(8, requires_grad=True)).sum().backward()


def test_a_replaced_text_reads_what_was_there():
    def program(x, y):
        x.mul_(0.5).add_(y)

    compiled = fulgurite.jit(program)
    x, y = pair()
    compiled(x, y)
    fusion = fulgurite.last_traces(compiled)[-1].python_ctx()["fusion0"]
    fusion.replace_cpu_code(fusion.printed_cpu_code())
    expected = x * 0.5 + y
    compiled(x, y)
    assert torch.equal(x, expected)


def test_bisect_runs_each_twice():
    def program(x, y):
        x.mul_(0.5).add_(y)

    found = fulgurite.examine.bisect(fulgurite.jit(program), *pair())
    assert "no fusion differs" in str(found)


REGIONS = {
    "other sizes": lambda x, y: F.gelu((x @ y).view(2, 32, 8, 8)) * 2,
    "of a transposed product": lambda x, y: (x @ y).t().exp() + 1,
    "softmax": lambda x, y: (x @ y).softmax(-1),
    "softmax of a view": lambda x, y: (x @ y).view(8, 8, 64).softmax(-1),
    "softmax over columns": lambda x, y: (x @ y).softmax(0),
    "softmax over two dimensions": lambda x, y: (x @ y).view(8, 512).softmax(1).view(64, 64) * 2,
    "log_softmax and its argument": lambda x, y: (lambda z: (z * 2, z.log_softmax(-1)))(x @ y),
    "layer_norm": lambda x, y: F.layer_norm(x @ y, (64,)),
    "layer_norm with a residual": lambda x, y: (lambda z: (z, F.layer_norm(z, (64,))))(
        (x @ y) + (y @ x)
    ),
    "rms_norm": lambda x, y: F.rms_norm(x @ y, (64,)),
    "group_norm": lambda x, y: F.group_norm((x @ y).view(4, 16, 8, 8), 4),
    "batch_norm": lambda x, y: F.batch_norm((x @ y).view(4, 16, 8, 8), None, None, training=True),
    "running sums": lambda x, y: (x @ y).cumsum(-1) * 0.5,
    "running sums down": lambda x, y: (x @ y).cumsum(0) * 0.5,
    "normalised": lambda x, y: (lambda z: z / z.abs().sum(-1, keepdim=True))(x @ y),
    "normalised by what it was": lambda x, y: (lambda z: (z.exp(), z / z.exp().sum(-1, True)))(
        x @ y
    ),
    "two of one": lambda x, y: (lambda z: (z + 1, z - 1))(x @ y),
    "rows that are shifted": lambda x, y: (lambda z: z + z.roll(1, 0))(x @ y),
    "rows with a row": lambda x, y: (lambda z: z + z[0])(x @ y),
    "its transpose": lambda x, y: (lambda z: z + z.t())(x @ y),
    "flipped rows": lambda x, y: (x @ y).flip(1).softmax(-1),
    "half": lambda x, y: (lambda z: z[:, :32] * z[:, 32:])(x @ y),
    "to bfloat16 and back": lambda x, y: ((x @ y).bfloat16() * 2).float().softmax(-1),
    "dropped": lambda x, y: F.dropout((x @ y).softmax(-1), 0.5, True),
    "centred twice": lambda x, y: (lambda z: (z - z.mean(-1, True)).softmax(-1))(x @ y),
    "a column for all": lambda x, y: (lambda z: (z - z[:, :1]).softmax(-1))(x @ y),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", REGIONS)
def test_results_over_arguments(name, threads):
    program = REGIONS[name]
    compiled = fulgurite.jit(program)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for size in (1.0, 3.0):
            x, y = torch.randn(64, 64) * size, torch.randn(64, 64)
            expected, found = [], []
            with torch.no_grad():
                for function, results in ((program, expected), (compiled, found)):
                    torch.manual_seed(1)
                    results.append(function(x, y))
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("columns", [1, 3, 17, 64, 100, 1000, 4099])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_rows_of_all_lengths_over_arguments(rows, columns):
    """Rows that end within a vector, and the next ones that are read meanwhile."""
    weight = torch.randn(columns)

    def program(x, y):
        z = x @ y
        shifted = z + 1
        return F.layer_norm(shifted, (columns,), weight), shifted

    def soft(x, y):
        return ((x @ y).view(1, rows, columns) * 3).softmax(-1)

    x, y = torch.randn(rows, 8), torch.randn(8, columns)
    with torch.no_grad():
        for function in (program, soft):
            torch.testing.assert_close(
                fulgurite.jit(function)(x, y), function(x, y), rtol=1e-4, atol=1e-4
            )


def test_which_results_lie_over_arguments():
    def reused(program):
        compiled = fulgurite.jit(program)
        with torch.no_grad():
            compiled(torch.randn(64, 64), torch.randn(64, 64))
        lines = fulgurite.last_traces(compiled)[-1].memory().lines
        return sum(len(line.reused) for line in lines)

    for name in ("other sizes", "softmax", "softmax of a view", "layer_norm", "normalised"):
        assert reused(REGIONS[name]) == 1, name
    assert reused(REGIONS["layer_norm with a residual"]) == 2
    for name in ("rows that are shifted", "rows with a row", "its transpose", "half"):
        assert reused(REGIONS[name]) == 0, name


def test_views_and_saved_tensors_are_not_written_over():
    def program(x, y):
        z = (x @ y).view(8, 512)
        return z.exp(), z[1], z.t()

    compiled = fulgurite.jit(program)
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, y), program(x, y))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()

    def saved(x, y):
        return F.gelu((x @ y).view(8, 512)).softmax(-1)

    saved(a, y).pow(2).sum().backward()
    fulgurite.jit(saved)(b, y).pow(2).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
