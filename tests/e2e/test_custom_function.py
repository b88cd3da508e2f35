"""torch.autograd.Function under grad mode: its gradients are eager's, and its text is a program."""

import copy

import pytest
import torch
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import fulgurite
from tests.e2e.round_trip import check as check_round_trip


def gradients(function, inputs, parameters=()):
    """(results, gradients) of a call, on copies of `inputs`."""
    torch.manual_seed(3)
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    wanted = [x for x in [*inputs, *parameters] if x.requires_grad]
    total = sum((r * (i + 1)).sum() for i, r in enumerate(results) if r.requires_grad)
    return results, torch.autograd.grad(total, wanted, allow_unused=True)


def same(a, b):
    return (a is None) == (b is None) and (a is None or torch.allclose(a, b, 1e-5, 1e-6))


def check(function, *inputs, parameters=()):
    wanted, wanted_gradients = gradients(function, inputs, parameters)
    compiled = fulgurite.jit(function, verify=True)
    for _ in range(2):
        results, found = gradients(compiled, inputs, parameters)
        for a, b in zip(wanted, results, strict=True):
            assert same(a, b)
            assert a.requires_grad == b.requires_grad
        assert all(map(same, wanted_gradients, found))
    assert fulgurite.cache_hits(compiled) == 1
    assert not fulgurite.compile_data(compiled).fallbacks
    check_round_trip(function, *inputs)
    return fulgurite.last_traces(compiled)[0].text()


def leaf(*sizes):
    return torch.randn(sizes, requires_grad=True)


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def test_straight_through():
    text = check(lambda x: StraightThrough.apply(x * 2) * x, leaf(3))
    assert "class StraightThrough(torch.autograd.Function):" in text
    assert "StraightThrough.apply(" in text


class Product(Function):
    @staticmethod
    def forward(ctx, x, y, factor):
        ctx.factor = factor
        z = x * y
        ctx.save_for_backward(x, y)
        ctx.z = z
        return z * factor, z.exp()

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        total = first * ctx.factor + second * ctx.z.exp()
        for_x = total * y if ctx.needs_input_grad[0] else None
        for_y = total * x if ctx.needs_input_grad[1] else None
        return for_x, for_y, None


def test_several_results_and_inputs_without_gradients():
    check(lambda x, y: Product.apply(x, y, 3.0), leaf(3), leaf(3))
    check(lambda x, y: Product.apply(x, y, 3.0), leaf(3), torch.randn(3))
    check(lambda x, y: Product.apply(x, y, 3.0)[1], torch.randn(3), leaf(3))
    check(lambda x: Product.apply(x, x, 3.0), leaf(3))


class WithContext(Function):
    @staticmethod
    def forward(x, scale=2.0):
        return x.sin() * scale, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.scale = inputs
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.scale, None


def test_setup_context_and_results_that_are_not_differentiable():
    check(lambda x: WithContext.apply(x)[0], leaf(3))
    check(lambda x: WithContext.apply(x, 3.0), leaf(3))


class Inplace(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return x.mul_(y)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


def test_a_function_that_writes():
    def program(x, y):
        z = x * 1
        w = Inplace.apply(z, y)
        return w + z

    check(program, leaf(3), torch.randn(3))
    with pytest.raises(fulgurite.Unsupported, match="writes to a view"):
        fulgurite.jit(lambda x, y: Inplace.apply((x * 1)[0], y))(leaf(2, 3), torch.randn(3))


class MaybeNone(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        if a is None:
            return b * 30
        return a * 20 if b is None else a * 2 + b * 3


def test_gradients_that_are_none():
    check(lambda x: MaybeNone.apply(x), leaf(3))
    check(lambda x: MaybeNone.apply(x)[0], leaf(3))
    text = check(lambda x: MaybeNone.apply(x)[1], leaf(3))
    assert "ctx.set_materialize_grads(False)" in text

    class Many(MaybeNone):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2, x * 3, x * 4

    with pytest.raises(fulgurite.Unsupported, match="set_materialize_grads"):
        fulgurite.jit(lambda x: Many.apply(x)[0])(leaf(3))


class PassOn(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y.view(-1)

    @staticmethod
    def backward(ctx, grad, other):
        return grad * 5, other.reshape(2, 2) * 7


def test_results_that_are_inputs_or_views_of_them():
    check(lambda x, y: PassOn.apply(x * 1, y * 1), leaf(3), leaf(2, 2))
    check(lambda x, y: PassOn.apply(x, y), leaf(3), leaf(2, 2))


class Odd(Function):
    @staticmethod
    def forward(ctx, scale, x, names, *more):
        y = x * scale
        ctx.count = len(more)
        return y, 3, None, sum(more) * y, names

    @staticmethod
    def backward(ctx, a, number, nothing, b, names):
        assert number is nothing is names is None
        return None, a + b, None, *[b * (i + 1) for i in range(ctx.count)]


def test_arguments_and_results_that_are_no_tensors():
    def program(x, y):
        a, number, nothing, b, names = Odd.apply(2.0, x, ("a", "b"), y, y, x)
        assert nothing is None
        assert names == ("a", "b")
        return a * number, b

    check(program, leaf(3), leaf(3))


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y

    @staticmethod
    def backward(ctx, a, b):
        return a * 3 + b * 5


def test_one_tensor_as_two_results():
    check(lambda x: Twice.apply(x)[0], leaf(3))
    check(lambda x: Twice.apply(x)[1], leaf(3))
    check(lambda x: Twice.apply(x), leaf(3))


class Contiguous(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        if not grad.is_contiguous():
            grad = grad.contiguous()
        return (grad * 2).contiguous().view(-1).view(3, 4)


@pytest.mark.parametrize(
    "use",
    [
        lambda y: y.sum(),
        lambda y: (y.t().contiguous() * torch.arange(12.0).view(4, 3)).sum(),
        lambda y: (y * 3).t() @ torch.ones(3, 2),
        lambda y: y[::2, 1:].exp(),
    ],
)
def test_the_layout_of_gradients(use):
    check(lambda x: use(Contiguous.apply(x)), leaf(3, 4))


def test_what_is_taken_from_around():
    weight = torch.nn.Parameter(torch.randn(3))
    constant = torch.randn(3)

    def program(x, y):
        scale = y.exp()

        class Around(Function):
            @staticmethod
            def forward(ctx, x):
                return x * weight * scale + torch.tensor([1.0, 2.0, 3.0])

            @staticmethod
            def backward(ctx, grad):
                return grad * constant * scale * weight + torch.tensor(2.0)

        return Around.apply(x) * weight

    text = check(program, leaf(3), torch.randn(3), parameters=[weight])
    assert "= around" in text
    # Nothing that the function is given requires grad.
    check(lambda x, y: (program(x, y) * x).sum(), torch.randn(3), leaf(3), parameters=[weight])


class Outer(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return StraightThrough.apply(x) + 1

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = StraightThrough.apply(x) * x
        return torch.autograd.grad(y, x, grad)[0]


def test_functions_in_functions():
    check(lambda x: Outer.apply(x) + StraightThrough.apply(Outer.apply(x)), leaf(3))


class Dropped(Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) > 0.5
        ctx.mask = mask
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mask + torch.rand_like(grad)


def test_random_numbers():
    check(lambda x: Dropped.apply(x) + torch.rand(3), leaf(3))


def test_gradients_taken_inside_of_the_program():
    def program(x):
        y, _ = Product.apply(x, x * 2, 3.0)
        (grad,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        return y + grad

    check(program, leaf(3))

    def penalty(x):
        y = Inner.apply(x)
        (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (grad * grad).sum() + y.sum()

    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3 * ctx.saved_tensors[0] ** 2

    check(penalty, leaf(3))


def test_differentiating_twice_is_an_error():
    x = leaf(3)
    y = fulgurite.jit(lambda x: Product.apply(x, x, 3.0)[0])(x)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.equal(grad, torch.autograd.grad(Product.apply(x, x, 3.0)[0].sum(), x)[0])
    for wrong in (grad.sum(), (grad + x).sum()):
        with pytest.raises(RuntimeError, match="differentiate twice"):
            torch.autograd.grad(wrong, x, retain_graph=True, allow_unused=True)


def test_errors_of_autograd_are_eagers():
    def program(x):
        return Product.apply(x, x, 3.0)[0].sum()

    for function in (program, fulgurite.jit(program)):
        x = leaf(3)
        y = function(x)
        with torch.no_grad():
            x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
        y = function(x)
        y.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.backward()


class Counts(Function):
    """Its backward is not the gradient of its forward, and uses what both halves are given."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 3 * grad @ w.t(), x.t() @ grad.clamp(max=0.5)


class Noisy(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.rand(3)


def test_what_a_backward_draws_is_drawn_in_each_pass():
    x, compiled = leaf(3), fulgurite.jit(lambda x: Noisy.apply(x).sum())
    for _ in range(2):
        found = []
        for f in (lambda x: Noisy.apply(x).sum(), compiled):
            torch.manual_seed(0)
            loss = f(x)
            between = torch.rand(1)
            first = torch.autograd.grad(loss, x, retain_graph=True)[0]
            found.append((between, first, *torch.autograd.grad(loss, x), torch.rand(1)))
        assert all(map(torch.equal, *found))
    assert "draws random numbers" in fulgurite.last_backward_traces(compiled).reason


def test_the_backward_is_part_of_the_joint_trace():
    def program(x, w):
        return Counts.apply(x.sin(), StraightThrough.apply(w)).exp().sum()

    inputs, compiled = (leaf(3, 4), leaf(4, 2)), fulgurite.jit(program, verify=True)
    for _ in range(2):
        wanted, found = gradients(program, inputs)[1], gradients(compiled, inputs)[1]
        assert all(map(same, wanted, found))
    text = fulgurite.last_backward_traces(compiled)[-1].text()
    assert "clamp" in text and "autograd.Function" not in text
    # The line is that of the program which applies the function.
    assert "StraightThrough.apply(w)).exp().sum()" in text
    wanted, found = (torch.autograd.grad(f(*inputs), inputs[0]) for f in (program, compiled))
    assert all(map(same, wanted, found))


def test_a_backward_that_cannot_be_captured():
    class Reads(StraightThrough):
        @staticmethod
        def backward(ctx, grad):
            return grad * 2 if grad.sum() > 0 else grad

    class Raises(StraightThrough):
        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError("never mind")

    class Keeps(StraightThrough):
        @staticmethod
        def backward(ctx, grad):
            kept.append(grad)
            return grad

    class Counts(StraightThrough):
        count = 0

        @staticmethod
        def backward(ctx, grad):
            Counts.count += 1
            return grad

    kept = []
    for cls, reason in [
        (Reads, "needs the data"),
        (Raises, "never mind"),
        (Keeps, "backward"),
        (Counts, "backward"),
    ]:
        with pytest.raises(fulgurite.Unsupported, match=reason):
            fulgurite.jit(lambda x, cls=cls: cls.apply(x) * 2)(leaf(3))
        lenient = fulgurite.jit(lambda x, cls=cls: cls.apply(x) * 2, fallback="eager")
        assert lenient(leaf(3)).requires_grad
    assert Counts.count == 0
    assert not kept


class Cast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


def test_autocast():
    def program(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return Cast.apply(x, w) @ w

    check(program, leaf(3, 3), leaf(3, 3))


def make_block():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Tanh())


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints(use_reentrant):
    first, second = make_block(), make_block()
    net = torch.nn.ModuleList([first, second])

    def program(x):
        y = checkpoint(first, x * 2, use_reentrant=use_reentrant)
        return checkpoint(second, y, use_reentrant=use_reentrant)

    def train(function):
        torch.manual_seed(5)
        x = torch.ones(3, 4, requires_grad=True)
        net.zero_grad()
        for _ in range(2):  # gradients are added up
            (function(x) ** 2).sum().backward()
        return [x.grad, *(p.grad.clone() for p in net.parameters())]

    wanted = train(program)
    compiled = fulgurite.jit(program, verify=True)
    for _ in range(2):
        assert all(map(same, wanted, train(compiled)))
    assert not fulgurite.compile_data(compiled).fallbacks
    assert fulgurite.cache_misses(compiled) == 2  # the input has no gradient at first


def test_hooks_on_saved_tensors():
    def offloaded(x):
        with torch.autograd.graph.save_on_cpu():
            return (x.exp() * x).sum()

    check(offloaded, leaf(3))

    def halved(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t / 2, lambda t: t):
            return (x.exp() * x).sum()

    with pytest.raises(fulgurite.Unsupported, match="saved_tensors_hooks"):
        fulgurite.jit(halved)(leaf(3))

    def plain(x):
        return StraightThrough.apply(Product.apply(x, x, 3.0)[0].exp())

    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor / 2

    results, counts = [], []
    for function in (plain, fulgurite.jit(plain)):
        for _ in range(2):
            packed.clear()
            x = torch.ones(3, requires_grad=True)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                y = function(x)
            results.append(torch.autograd.grad(y.sum(), x)[0])
            counts.append(len(packed))
    assert len(set(counts)) == 1
    assert all(torch.equal(results[0], r) for r in results)


def test_a_module_with_a_custom_function_trains_like_eager():
    class Quantised(torch.nn.Linear):
        def forward(self, x):
            return torch.nn.functional.linear(x, StraightThrough.apply(self.weight * 4), self.bias)

    torch.manual_seed(0)
    net = torch.nn.Sequential(Quantised(4, 4), torch.nn.ReLU(), Quantised(4, 2))
    twin = copy.deepcopy(net)
    compiled = fulgurite.jit(net)
    for model, run in ((twin, twin), (net, compiled)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            run(torch.full((2, 4), float(step + 1))).square().sum().backward()
            optimizer.step()
    assert all(map(torch.equal, net.parameters(), twin.parameters()))
