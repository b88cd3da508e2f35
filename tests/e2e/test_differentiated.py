"""Programs whose results are differentiated: a forward and a backward trace, held against eager."""

import copy
import gc
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F

import fulgurite


def leaf(*sizes):
    return torch.randn(sizes, requires_grad=True)


def close(a, b):
    return (a is None) == (b is None) and (a is None or torch.allclose(a, b, 1e-5, 1e-6))


def check(function, *inputs, parameters=(), reduce=torch.sum, calls=2):
    """The results and gradients of a compiled function are eager's; returns it."""
    compiled = fulgurite.jit(function, verify=True)
    wanted = [x for x in (*inputs, *parameters) if x.requires_grad]
    for _ in range(calls):
        found = []
        for f in (function, compiled):
            torch.manual_seed(0)
            results = f(*inputs)
            several = results if isinstance(results, tuple) else (results,)
            total = sum(reduce(r) for r in several if r.requires_grad)
            found.append((*several, *torch.autograd.grad(total, wanted, allow_unused=True)))
        assert all(map(close, *found))
    assert fulgurite.last_backward_traces(compiled), fulgurite.last_backward_traces(compiled).reason
    return compiled


def refused(function, *inputs):
    """Why there is no backward trace; what it computes is eager's all the same."""
    compiled = fulgurite.jit(function)
    for f in (function, compiled):
        torch.manual_seed(0)
        assert f(*inputs) is not None
    assert not fulgurite.last_backward_traces(compiled)
    return fulgurite.last_backward_traces(compiled).reason


def test_traces_of_both_passes():
    weight = torch.nn.Parameter(torch.randn(4, 4))
    compiled = check(lambda x: (x @ weight).relu().square().mean(), leaf(3, 4), parameters=[weight])
    names = [trace.provenance for trace in fulgurite.last_traces(compiled)]
    assert names[:2] == ["", "Grad transform"] and "Forward/backward split" in names
    backward = fulgurite.last_backward_traces(compiled)
    assert backward[0].provenance == "Forward/backward split"
    assert backward[-1].provenance == "Delete Last Used"
    text = backward[-1].text()
    assert "def backward(d_" in text and "return d_x, d_p_weight" in text
    # A call of the backward pass names the line of the forward call that it belongs to.
    assert "(x @ weight).relu().square().mean()" in text
    assert fulgurite.examine.get_fusions(backward[-1])


def test_outputs_without_a_gradient():
    def several(a, b):
        return a.sin() * 2, (b * b).log(), a > 0, a

    a, b = leaf(4), leaf(4)
    compiled = fulgurite.jit(several)
    for _ in range(3):
        for results in (several(a, b), compiled(a, b)):
            given = torch.autograd.grad(results[0].sum(), [a, b], allow_unused=True)
            assert close(given[0], 2 * a.cos()) and given[1] is None
    # The first time, gradients were expected for both.
    assert fulgurite.cache_misses(compiled) == 2
    assert compiled(a, b)[3] is a


def test_gradients_for_outputs_that_change_each_time():
    def several(a):
        return a.sin(), a.exp()

    a, compiled = leaf(4), fulgurite.jit(several)
    for i in range(12):
        wanted = torch.autograd.grad(several(a)[i % 2].sum(), a)
        assert close(torch.autograd.grad(compiled(a)[i % 2].sum(), a)[0], wanted[0])
    assert fulgurite.cache_misses(compiled) <= 7
    assert "in several ways" in fulgurite.last_backward_traces(compiled).reason


def test_a_loss_beside_other_results():
    def model(x):
        y = x.tanh()
        return y.square().mean(), y, y.exp()

    x, compiled = leaf(5), fulgurite.jit(model)
    for _ in range(3):
        wanted, found = (torch.autograd.grad(f(x)[0], x)[0] for f in (model, compiled))
        assert close(wanted, found)
    assert fulgurite.cache_misses(compiled) == 1  # the number alone was expected to be the loss


def test_gradients_that_are_differentiated():
    def penalty(x, w):
        return (x.sin() * w).sum() + (x * x * w).mean()

    compiled = fulgurite.jit(penalty)
    for _ in range(3):
        found = []
        x, w = leaf(5), leaf(5)
        for f in (penalty, compiled):
            first = torch.autograd.grad(f(x, w), [x, w], create_graph=True)
            norm = sum(g.square().sum() for g in first)
            found.append((*first, *torch.autograd.grad(norm, [x, w])))
        assert all(map(close, *found))


def test_inputs_that_come_from_each_other():
    """The gradient is that by this function alone, not by what the inputs were made of."""

    def f(a, b):
        return (a * b).sum()

    compiled, found = fulgurite.jit(f), []
    x = leaf(4)
    for function in (f, compiled, compiled):
        y = x.exp()
        first = torch.autograd.grad(function(x, y), [x, y], create_graph=True)
        found.append((*first, *torch.autograd.grad(first[0].sum(), x)))
    assert all(map(close, found[0], found[1])) and all(map(close, found[0], found[2]))


def test_backward_twice():
    x, compiled = leaf(5), fulgurite.jit(lambda x: (x.sin() * x).sum())
    loss = compiled(x)
    once = torch.autograd.grad(loss, x, retain_graph=True)[0].clone()
    assert torch.equal(once, torch.autograd.grad(loss, x)[0])
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, x)


def test_what_was_modified_since():
    weight = torch.ones(3)
    compiled = fulgurite.jit(lambda x, w: (x * w).sum())
    x = leaf(3)
    loss = compiled(x, weight)
    weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, x)
    result = fulgurite.jit(torch.sigmoid)(x)
    result.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(result.sum(), x)
    # What the gradient does not need may be written to.
    scaled = fulgurite.jit(lambda x: x * 3)(x)
    scaled.mul_(2)
    assert torch.equal(torch.autograd.grad(scaled.sum(), x)[0], torch.full((3,), 6.0))


@pytest.mark.parametrize("differentiate", [False, True])
def test_random_numbers(differentiate):
    def dropped(x):
        return (F.dropout(x, 0.5) * x).sum()

    compiled = fulgurite.jit(dropped)
    x = leaf(50)
    for seed in range(4):
        found = []
        for f in (dropped, compiled):
            torch.manual_seed(seed)
            loss = f(x)
            after = torch.rand(1)
            given = torch.autograd.grad(loss, x, create_graph=differentiate)
            found.append((loss, after, *given, torch.rand(1)))
        assert all(map(close, *found))


def test_running_statistics():
    norm = torch.nn.BatchNorm2d(3)
    twin = copy.deepcopy(norm)
    compiled = fulgurite.jit(norm)
    x = leaf(2, 3, 4, 4)
    for _ in range(3):
        found = []
        for f in (twin, compiled):
            losses = f(x).square().sum() + f(x * 2).exp().sum()  # two calls before the backward
            found.append(torch.autograd.grad(losses, [x, *f.parameters()]))
        assert all(torch.allclose(a, b, 1e-4, 1e-4) for a, b in zip(*found, strict=True))
        assert all(map(close, norm.buffers(), twin.buffers()))
    assert fulgurite.last_backward_traces(compiled)
    # Differentiated twice, the statistics are updated once.
    for f in (twin, compiled):
        torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
    assert all(map(close, norm.buffers(), twin.buffers()))


@pytest.mark.parametrize("forward", [False, True])
def test_backward_under_autocast(forward):
    """What the backward pass computes is cast as well, as torch's engine does."""
    weight = torch.nn.Parameter(torch.randn(16, 16))

    def loss(x):
        return ((x @ weight).relu() @ weight).square().mean()

    compiled, x = fulgurite.jit(loss, verify=True), leaf(8, 16)
    for under in [False, True, True, False, True]:
        found = []
        for f in (loss, compiled):
            with torch.autocast("cpu", torch.bfloat16, enabled=forward):
                result = f(x)
            with torch.autocast("cpu", torch.bfloat16, enabled=under):
                found.append(torch.autograd.grad(result, [x, weight]))
        for wanted, given in zip(*found, strict=True):
            tolerances = (2e-2, 1e-3) if under or forward else (1e-5, 1e-6)
            assert torch.allclose(wanted, given, *tolerances)
    assert fulgurite.cache_misses(compiled) <= 5


def test_what_is_compiled_after_a_backward_pass_under_autocast():
    compiled, x = fulgurite.jit(lambda x, w: (x @ w).sum()), leaf(4, 4)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            compiled(x, torch.ones(4, 4)).backward()
    assert "bf16" in fulgurite.last_backward_traces(compiled)[-1].text()
    compiled = fulgurite.jit(lambda x, w: (x @ w).sum())
    with torch.autocast("cpu", torch.bfloat16, enabled=False):
        result = compiled(x, torch.ones(4, 4))
    with torch.autocast("cpu", torch.bfloat16):
        result.backward()
    compiled(x, torch.ones(4, 4))
    assert "bf16" in fulgurite.last_backward_traces(compiled)[-1].text()


def test_batched_gradients():
    def f(x):
        return x.sin() * x

    x, compiled = leaf(3), fulgurite.jit(f)
    rows = torch.eye(3)
    wanted, found = (
        torch.autograd.grad(g(x), x, rows, is_grads_batched=True)[0] for g in (f, compiled)
    )
    assert close(wanted, found)
    wanted, found = (torch.autograd.functional.jacobian(g, x) for g in (f, compiled))
    assert close(wanted, found)


def test_forward_mode_beside_it():
    def f(x):
        return x.sin() * x

    x, compiled = leaf(3), fulgurite.jit(f)
    compiled(x)
    for _ in range(2):
        pairs = [torch.autograd.functional.jvp(g, x.detach(), torch.ones(3)) for g in (f, compiled)]
        assert all(map(close, *pairs))


def in_place(x):
    y = x * 2
    y[0].mul_(3)
    y.add_(x)
    return y.sum()


def without_grad(x):
    with torch.no_grad():
        k = x * 2
    return (x * k).sum() + (x.detach() * x).sum()


def complex_numbers(x):
    z = torch.complex(x, x.sin())
    return (z * (1 + 2j)).abs().sum() + (z * z.conj()).real.sum()


@pytest.mark.parametrize(
    "function",
    [
        in_place,
        without_grad,
        complex_numbers,
        lambda x: x[1:].flip(0).repeat(2).cumsum(0),
        lambda x: torch.stack([x, x * 2]).unbind(0)[1].clone(),
        lambda x: F.pad(x, (1, 2)).unfold(0, 2, 1).sum(-1),
        lambda x: x.index_add(0, torch.tensor([0, 2]), x[:2]).sort().values,
        lambda x: x.norm() + x.logsumexp(0) + x.amax() + x.std(),
        lambda x: x.double().exp().half().float(),
        lambda x: F.mse_loss(x, x.flip(0)) + x,  # broadcast_tensors hands back what it is given
    ],
)
def test_operators(function):
    check(function, leaf(4))


def test_expanded_gradients():
    check(lambda x: x * x, leaf(3, 4), reduce=torch.sum)
    check(lambda x: x * x, leaf(3, 4), reduce=lambda r: r.t().contiguous()[0].sum())


def test_tied_and_frozen_parameters():
    line = torch.nn.Linear(4, 4)
    line.bias.requires_grad_(False)
    check(lambda x: line(line(x)), leaf(3, 4), parameters=[line.weight])


def test_parameters_that_are_frozen_later():
    line = torch.nn.Linear(4, 4)
    compiled = fulgurite.jit(line)
    x = torch.randn(2, 4)
    compiled(x).sum().backward()
    assert line.weight.grad is not None
    line.weight.grad = None
    line.weight.requires_grad_(False)
    compiled(x).sum().backward()
    assert line.weight.grad is None and line.bias.grad is not None


def test_integer_targets():
    weight = torch.nn.Parameter(torch.randn(6, 7))
    target = torch.randint(0, 7, (5,))

    def loss(x):
        logits = x @ weight
        return F.cross_entropy(logits, target), logits.argmax(-1)

    check(loss, leaf(5, 6), parameters=[weight])


def test_hooks():
    x, seen = leaf(3), []
    compiled = fulgurite.jit(lambda x: (x * x).sum())
    x.register_hook(lambda gradient: seen.append(gradient.clone()) or gradient * 2)
    result = compiled(x)
    result.register_hook(lambda gradient: gradient * 5)
    result.backward()
    assert close(seen[0], 10 * x) and close(x.grad, 20 * x)


def test_hooks_of_saved_tensors_are_called():
    packed = []
    compiled = fulgurite.jit(lambda x: (x.sin() * x).sum())
    x = leaf(3)
    compiled(x)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.shape) or t, lambda t: t
    ):
        loss = compiled(x)
    assert packed
    assert close(torch.autograd.grad(loss, x)[0], x.cos() * x + x.sin())


def test_another_thread():
    x = leaf(3)
    compiled = fulgurite.jit(lambda x: (x.sin() * x).sum())
    loss, found = compiled(x), []
    worker = threading.Thread(target=lambda: found.append(torch.autograd.grad(loss, x)[0]))
    worker.start()
    worker.join()
    assert close(found[0], x.cos() * x + x.sin())


def test_several_graphs_at_once():
    x = leaf(3)
    compiled = fulgurite.jit(lambda x, y: (x.sin() * y).sum())
    others = [torch.full((3,), float(i)) for i in range(4)]
    losses = [compiled(x, other) for other in others]
    for loss, other in reversed(list(zip(losses, others, strict=True))):
        assert close(torch.autograd.grad(loss, x)[0], x.cos() * other)


def test_nothing_is_kept_alive():
    compiled = fulgurite.jit(lambda x: (x.sigmoid() * x).exp())
    x = leaf(3)
    result = compiled(x * 2)
    gone = weakref.ref(result)
    del result
    gc.collect()
    assert gone() is None
    between = x * 2
    gone = weakref.ref(between)
    result = compiled(between)
    del between
    assert gone() is not None
    result.sum().backward()
    assert gone() is None


def test_who_refuses():
    def shapes(x):
        y = x * 2
        y.t_()
        return y + 1

    def own_generator(x):
        return x * torch.rand(3, generator=generator)

    generator = torch.Generator()
    assert "in place" in refused(shapes, leaf(3, 3))
    assert "generator of its own" in refused(own_generator, leaf(3))
    assert "looks at data" in refused(lambda x: x.cov(), leaf(3, 3))
    assert "needs the data" in refused(lambda x: x.prod(), leaf(3))
    assert "nothing that it returns" in refused(lambda x: x * 2, torch.ones(3))


def test_a_training_loop():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    )
    twin = copy.deepcopy(net)
    compiled, losses = fulgurite.jit(net), []
    for f, model in ((twin, twin), (compiled, net)):
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        losses.append([])
        for _ in range(30):
            x = torch.randn(5, 8)
            loss = F.mse_loss(f(x), x[:, :4])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0]


def saved(function, *inputs):
    """What the backward pass takes, as named in its text, besides gradients."""
    compiled = check(function, *inputs)
    text = fulgurite.last_backward_traces(compiled)[-1].text()
    names = text.split("def backward(")[1].split(")")[0].split(", ")
    return [name for name in names if not name.startswith("d_")]


def test_what_is_saved():
    x, w = leaf(4, 4), leaf(4, 4)
    assert saved(lambda x: (x.exp() * 2 + 1).sum(), x) == ["t1"]
    assert saved(lambda x: (x * 2 + 1).sum(), x) == []
    # Sums and products are computed again, products of matrices are not; not from inputs that
    # eager does not save, which may be written to in between.
    assert saved(lambda x, w: ((x + w) * (x - w) * w).sum(), x, w) == ["w", "t2", "t3"]
    assert saved(lambda x, w: ((x @ w + 1) * 2).square().sum(), x, w) == ["x", "w", "t2"]
    # Never a view.
    assert saved(lambda x: x.exp().t()[1:].square().sum(), x) == ["t1"]


def test_bytes_saved_of_a_chain():
    """One value per product of matrices, however many elementwise steps there are in between."""
    weights = [leaf(8, 8) for _ in range(3)]

    def net(x, *weights):
        for weight in weights:
            x = ((x @ weight) * 0.5 + 1).clamp(min=0) * 2 - 0.25
        return x.square().mean()

    kept = saved(net, leaf(4, 8), *weights)
    assert len([name for name in kept if name.startswith("t")]) <= len(weights)


def test_a_kernel_that_keeps_nothing_without_grad_mode():
    layer = torch.nn.LSTM(8, 4, batch_first=True)
    compiled, x = fulgurite.jit(layer), leaf(3, 6, 8)
    for _ in range(3):
        wanted, found = (
            torch.autograd.grad(f(x)[0].sum(), [x, *layer.parameters()]) for f in (layer, compiled)
        )
        assert all(map(close, wanted, found))


def test_targets_are_checked():
    loss = fulgurite.jit(lambda x, t: F.binary_cross_entropy(x.sigmoid(), t * 2))
    x = torch.randn(4)
    assert loss(x, torch.full((4,), 0.25)) > 0
    with pytest.raises(RuntimeError, match="target should be between 0 and 1"):
        loss(x, torch.ones(4))


def modified(function, *inputs):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        function(*inputs)


@pytest.mark.parametrize(
    "view", [lambda e: e[None], lambda e: e.t(), lambda e: e.reshape(-1), lambda e: e[1:]]
)
def test_writes_through_a_view_of_what_is_saved(view):
    def outside(f):
        x = leaf(3, 3)
        result = f(x)
        total = result.sum()
        result.detach().zero_()
        torch.autograd.grad(total, x)

    def program(x):
        return view(x.exp())

    modified(outside, program)
    check(program, leaf(3, 3))

    def beside(x):
        with torch.no_grad():
            k = x.exp()
        return (x * k).sum(), view(k)

    for f in (beside, fulgurite.jit(beside)):
        x = leaf(3, 3)
        total, k = f(x)
        k.mul_(100)
        try:
            found = torch.autograd.grad(total, x)[0]
        except RuntimeError:
            continue  # as eager does
        assert f is not beside and close(found, x.exp())


def test_writes_to_what_the_calls_would_be_run_on_again():
    compiled = fulgurite.jit(lambda x, w: (x * w, x + 1))
    x, w = leaf(2), torch.ones(2)
    product, _ = compiled(x, w)
    w.add_(1)
    modified(lambda: torch.autograd.grad(product.sum(), x))
    compiled = fulgurite.jit(lambda x, w: (x * w).sum())
    loss = compiled(x, w)
    w.add_(1)
    modified(lambda: torch.autograd.grad(loss, x, create_graph=True))


def test_writes_to_what_eager_does_not_save():
    compiled = fulgurite.jit(lambda x, w: (x - w).square().sum())
    x, w = leaf(2), torch.ones(2)
    loss = compiled(x, w)
    wanted = 2 * (x - w).detach()
    w.add_(1)
    assert close(torch.autograd.grad(loss, x)[0], wanted)


@pytest.mark.parametrize("together", [False, True])
def test_two_losses_with_a_backward_pass_each(together):
    def losses(a, b):
        return (a.sin().sum(), a.exp().sum()) if together else (a.sin().sum(), b.exp().sum())

    compiled = fulgurite.jit(losses)
    for _ in range(4):
        found = []
        for f in (losses, compiled):
            torch.manual_seed(0)
            a, b = leaf(3), leaf(3)
            first, second = f(a, b)
            first.backward()
            second.backward()
            found.append((a.grad, b.grad))
            with pytest.raises(RuntimeError, match="a second time"):
                first.backward()
        assert all(map(close, *found))


def test_results_that_are_views_can_be_written_to():
    for view in (lambda y: y.view(2, 1), lambda y: y[1:], lambda y: y.t()):
        compiled, x = fulgurite.jit(lambda x, view=view: view(x * 3)), leaf(2)
        for _ in range(2):
            result = compiled(x)
            result += 1
            gradient = torch.autograd.grad(result.sum(), x)[0]
            assert close(gradient, torch.autograd.grad(view(x * 3).sum(), x)[0])


def test_two_products_and_sums_around_them():
    """Regions that share an input, each before a product that the other comes after."""

    def f(d9, d10, d11, a, b, c, t5):
        scaled = d9 / 4
        moved = t5 + b
        first = torch.mm(moved.t(), scaled)
        second = torch.mm(scaled, (c * c).t())
        total = d11 * 1 + d10 * 1 + second
        loss = torch.ops.aten.mse_loss_backward
        to_b, to_a = loss(total.sum(), b, a, 1), loss(total.sum(), a, b, 1)
        return to_a, total + to_b, first * c + first * c

    given = [*(torch.randn(4, 4, dtype=torch.float64) for _ in range(6)), torch.randn(())]
    compiled = fulgurite.jit(f, verify=True)
    assert all(map(close, compiled(*given), f(*given)))
