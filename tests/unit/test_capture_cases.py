"""What capture sees of Python programs: each is run eagerly, captured, and replayed."""

import pytest
import torch
import torch.nn.functional as F
from capture_cases import f32, grad, ints, registry
from capture_harness import check

CASES, case = registry()


@case(f32(2, 4))
def pointwise():
    return lambda x: (x * 2 + x.sin()).softmax(-1)


@case(f32(2, 4))
def module():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))


@case(f32(2, 4))
def in_place():
    def f(x):
        y = x.clone()
        y.add_(1).mul_(2)
        y[0] = 3
        y[:, 1] += x[:, 0]
        y[torch.tensor([1])] = 5.0
        y.index_put_((torch.tensor([0]), torch.tensor([2])), torch.tensor(7.0))
        torch.add(x, x, out=y)
        y.copy_(x * 3)
        y.t_()
        y.unsqueeze_(0)
        return y

    return f


@case(f32(2, 4))
def write_to_argument():
    def f(x):
        x.add_(1)
        return x * 2

    return f


@case(f32(4, 6))
def views():
    def f(x):
        y = x.clone()
        v = y.view(2, 2, 6)[0].transpose(0, 1)
        v.zero_()
        y.flatten()[3:9].fill_(2)
        a, b = y.split(3, 1)
        a.mul_(3)
        y.chunk(2)[1].add_(b[:2].sum())
        return y, v, a

    return f


@case(f32(3))
def factories():
    def f(x):
        total = torch.zeros(3, device=x.device) + torch.arange(3) + torch.full((3,), 2.0)
        total = total + torch.ones_like(x) + x.new_full((3,), 4) + torch.linspace(0, 1, 3)
        return total + torch.empty(3).fill_(1) + torch.eye(3)[0] + torch.tril(torch.ones(3, 3))[1]

    return f


@case(f32(3, 5))
def random():
    def f(x):
        y = F.dropout(x, 0.5) + torch.rand(3, 5) + torch.randn_like(x) + torch.randperm(5)
        return y + torch.bernoulli(torch.full((3, 5), 0.5)) + x.clone().normal_()

    return f


@case(f32(2, 4))
def metadata():
    def f(x):
        assert x.shape == (2, 4)
        assert x.stride() == (4, 1)
        assert x.is_contiguous()
        assert not x.t().is_contiguous()
        assert x.device.type == "cpu"
        assert x.dtype is torch.float32
        assert x.layout is torch.strided
        assert not x.requires_grad
        assert x.numel() == 8
        assert len(x) == 2
        assert x.t().stride() == (1, 4)
        assert x[1].storage_offset() == 4
        assert type(x) is torch.Tensor
        assert not x.is_cuda
        assert x.element_size() == 4
        assert x[1].data.shape == (4,)
        assert x.expand(3, 2, 4).stride() == (0, 4, 1)
        assert not x.is_conj()
        return x.reshape(x.shape[1], -1)

    return f


@case(f32(2, 4))
def autocast():
    linear = torch.nn.Linear(4, 3)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = linear(x)
            z = F.softmax(y, -1)
            e = torch.einsum("ij,kj->ik", x, linear.weight)
            return y, z, F.layer_norm(z, (3,)), linear(x) @ z.t(), e, F.dropout(e, 0.1)

    return f


@case(f32(2, 4))
def autocast_gradients():
    linear = torch.nn.Linear(4, 3)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = linear(x).float().square().sum()
        return torch.autograd.grad(loss, list(linear.parameters()))

    return f


@case(grad(2, 4))
def no_grad():
    def f(x):
        with torch.no_grad():
            y = x * 2
        z = x * 3
        assert not y.requires_grad
        assert z.requires_grad
        assert not z.detach().requires_grad
        assert x.is_leaf
        assert torch.is_grad_enabled()
        return y, z

    return f


@case(grad(2, 4))
def leaf_and_grad_fn():
    def f(x):
        y = x * 3
        assert not y.is_leaf
        assert y.grad_fn is not None
        return y

    return f


@case(lambda: torch.randn(3, requires_grad=True) * 2)
def argument_that_is_no_leaf():
    def f(x):
        assert not x.is_leaf
        y = x.view(3)
        x.add_(1)  # a leaf that requires grad would refuse this
        return x * 2, y

    return f


@case(f32(4, 4))
def indexing():
    def f(x):
        i = torch.arange(3)
        m = x > 0
        a = torch.where(m, x, 0), x[i], x[i, i], x[:, None, i], x.masked_fill(m, 1.0), x[..., -1]
        return *a, x.gather(0, i[None] % 4), x.index_select(1, i), x[[0, 1]], x[-1, 1:3]

    return f


@case(f32(4, 4))
def mask_assignment():
    def f(x):
        y = x.clone()
        m = y > 0
        y[m] = 0.5
        y[m[0]] = x[1]
        z = x.clone()
        z.index_put_((m,), torch.tensor(2.0))
        w = torch.index_put(x, (x < 0,), torch.tensor(3.0), accumulate=True)
        return y, z, w, x.clone().masked_scatter_(m, x)

    return f


@case(f32(4, 4))
def index_by_known_mask():
    mask = torch.tensor([True, False, True, True])

    def f(x):
        return x[mask], x[:, mask], x[mask, 0], x[mask][:, mask]

    return f


@case(f32(2, 3, 8), ints(5, 2, 3))
def functional():
    weight = torch.randn(5, 8)

    def f(x, i):
        norms = F.layer_norm(x, (8,)), F.rms_norm(x, (8,)), F.normalize(x)
        losses = F.cross_entropy(x.view(6, 8), i.view(-1)), F.mse_loss(x, x + 1)
        smooth = F.silu(x), F.gelu(x, approximate="tanh"), F.log_softmax(x, 1)
        shapes = F.pad(x, (1, 1)), F.one_hot(i, 5), F.interpolate(x, scale_factor=2.0)
        return *norms, *losses, *smooth, *shapes, F.embedding(i, weight)

    return f


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


@case(grad(3))
def custom_function():
    return lambda x: Square.apply(x) + 1


@case(grad(3))
def gradients_inside():
    def f(x):
        y = (Square.apply(x).sin() * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return y, g, h

    return f


@case(f32(3, 4))
def gradients_of_parameters():
    linear = torch.nn.Linear(4, 2)

    def f(x):
        loss = F.cross_entropy(linear(x), torch.tensor([0, 1, 1]))
        return loss, *torch.autograd.grad(loss, list(linear.parameters()))

    return f


@case(grad(3, 4))
def checkpoint():
    linear = torch.nn.Linear(4, 4)

    def f(x):
        y = torch.utils.checkpoint.checkpoint(lambda t: linear(t).relu(), x, use_reentrant=False)
        return y.sum()

    return f


@case(grad(3, 4))
def checkpoint_backward():
    linear = torch.nn.Linear(4, 4)

    def f(x):
        y = torch.utils.checkpoint.checkpoint(lambda t: linear(t).relu(), x, use_reentrant=False)
        return torch.autograd.grad(y.sum(), x)

    return f


@case(f32(3, 4))
def vmap():
    return lambda x: torch.vmap(lambda row: row.softmax(-1) * row.sum() + torch.ones(4))(x)


@case(f32(3, 4))
def func_grad():
    return lambda x: torch.func.grad(lambda y: (y.sin() * y * torch.ones(4)).sum())(x)


@case(f32(3, 4))
def vmap_of_grad():
    return lambda x: torch.vmap(torch.func.grad(lambda y: (y.sin() * y).sum()))(x)


@case(f32(3))
def func_jvp():
    return lambda x: torch.func.jvp(lambda y: y.sin() * y, (x,), (torch.ones(3),))


@case(f32(3))
def func_jacrev():
    return lambda x: torch.func.jacrev(lambda y: y.sin() * y)(x)


@case(f32(3))
def func_hessian():
    return lambda x: torch.func.hessian(lambda y: (y.sin() * y).sum())(x)


@case(f32(2, 4))
def functional_call():
    linear = torch.nn.Linear(4, 3)

    def f(x):
        scaled = {name: p * 2 for name, p in linear.named_parameters()}
        return torch.func.functional_call(linear, scaled, (x,))

    return f


@case(f32(3))
def requires_grad_():
    def f(x):
        y = (x * 1).detach().requires_grad_()
        assert y.requires_grad
        return y * 2, y.detach()

    return f


@case(f32(3))
def data():
    def f(x):
        y = x * 2
        d = y.data
        d.add_(1)
        return y, d

    return f


@case(grad(3))
def data_carries_no_gradient():
    def f(x):
        y = x * 2
        z = (y.data * y).sum()
        return torch.autograd.grad(z, x)

    return f


@case(f32(2, 3))
def data_keeps_its_shape():
    def f(x):
        y = x * 2
        d, e = y.data, y.detach()
        y.t_()
        d.add_(1)
        return y, d * 1, e * 1

    return f


@case(f32(3))
def set_data():
    def f(x):
        y = x * 2
        y.data = x * 5
        return y + 1

    return f


@case(grad(3))
def set_data_keeps_the_graph():
    def f(x):
        y = x * 2
        y.data = x.detach() * 5
        return torch.autograd.grad((y * 3).sum(), x)

    return f


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    make, inputs = CASES[name]
    check(make, inputs)
