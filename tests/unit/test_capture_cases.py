"""What capture sees of Python programs: each is run eagerly, captured, and replayed."""

import copy
import sys
from pathlib import Path

import numpy
import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from capture_harness import check  # noqa: E402

CASES = {}


def case(*inputs):
    """Registers a function that returns the program, with makers of its inputs."""

    def register(make):
        CASES[make.__name__] = (make, inputs)
        return make

    return register


def f32(*shape):
    return lambda: torch.randn(*shape)


def ints(high, *shape):
    return lambda: torch.randint(0, high, shape)


def grad(*shape):
    return lambda: torch.randn(*shape, requires_grad=True)


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


@case(f32(3))
def conversions():
    def f(x):
        a = x.to(torch.float64), x.to("cpu"), x.half(), x.to(x), x.long(), x.cpu()
        return *a, x.to(torch.bfloat16, copy=True), x.type(torch.int32), x.contiguous()

    return f


@case(f32(3))
def constants():
    def f(x):
        a = x + torch.tensor([1.0, 2, 3]), x * torch.tensor(3), torch.as_tensor([1, 2])
        return *a, x + torch.scalar_tensor(2.0), torch.from_numpy(numpy.ones(3)) + x

    return f


@case(f32(3))
def constants_that_are_written():
    def f(x):
        c = torch.tensor([1.0, 2, 3])
        c.add_(x)
        d = torch.tensor([[1.0, 2, 3]])
        return c, d.mul_(x), torch.tensor(1.0).unsqueeze_(0) + x

    return f


@case(f32(3))
def data_of_constants():
    return lambda x: x * torch.tensor(3.0).item() + torch.tensor([1, 2]).tolist()[1]


@case(f32(3))
def deepcopy():
    return lambda x: copy.deepcopy(x) + 1


@case(f32(4, 6))
def deepcopy_of_views():
    def f(x):
        y = copy.deepcopy(x[1:, 2:4])
        z = copy.deepcopy(x.t())
        y.add_(1)
        return y, z, x

    return f


@case(f32(2, 4))
def deepcopy_of_module():
    linear = torch.nn.Linear(4, 4)

    def f(x):
        twin = copy.deepcopy(linear)
        assert twin.weight.requires_grad
        return twin(x) - linear(x), twin(x)

    return f


@case(f32(3))
def parameter_made_inside():
    return lambda x: torch.nn.Parameter(x) * 2 + torch.nn.Parameter(torch.ones(3))


@torch.jit.script
def scripted_function(x: torch.Tensor, n: int):
    for _ in range(n):
        x = x.relu() + 1
    return x


@case(f32(3))
def scripted():
    return lambda x: scripted_function(x, 3)


@case(f32(2, 3, 4), f32(2, 4, 5))
def einsum():
    def f(a, b):
        products = torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij->ij", a), a @ b
        return *products, torch.tensordot(a[0], b[0], 1)

    return f


@case(f32(2, 2, 5, 8))
def attention():
    def f(q):
        plain = F.scaled_dot_product_attention(q, q, q)
        causal = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return plain, causal, F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(5, 5))

    return f


@case(f32(2, 5, 8))
def attention_strides():
    def f(x):
        q = x.view(2, 5, 2, 4).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, q, q)
        return o, o.transpose(1, 2).reshape(2, 5, 8), torch.tensor(o.stride())

    return f


@case(f32(5, 2, 8))
def multihead_attention():
    m = torch.nn.MultiheadAttention(8, 2)
    return lambda x: m(x, x, x)


@case(f32(5, 2, 8))
def multihead_attention_eval():
    m = torch.nn.MultiheadAttention(8, 2).eval()
    return lambda x: m(x, x, x, need_weights=False)[0]


@case(f32(2, 5, 8))
def encoder_layer_eval():
    return torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


@case(f32(5, 2, 8))
def lstm():
    m = torch.nn.LSTM(8, 6, 2)

    def f(x):
        y, (h, c) = m(x)
        return y, h, c

    return f


@case(f32(5, 2, 8))
def gru():
    return torch.nn.GRU(8, 6, bidirectional=True)


@case(f32(2, 3, 8, 8))
def convolutions():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )


@case(f32(2, 3, 8, 8))
def batch_norm_state():
    m = torch.nn.BatchNorm2d(3)
    return lambda x: (m(x), m.running_mean, m.num_batches_tracked)


@case(ints(9, 2, 5))
def embedding():
    return torch.nn.Embedding(9, 4)


@case(f32(4, 6))
def lists():
    def f(x):
        joined = torch.cat([x, x * 2], 1), torch.stack([x, x]), torch.block_diag(x, x)
        parts = *x.split([1, 3]), *x.chunk(3, 1), *x.unbind(0)
        grids = torch.meshgrid(x[0], x[1], indexing="ij")
        return *joined, *parts, *grids, *torch.broadcast_tensors(x, x[0])

    return f


@case(f32(4, 6))
def tuples():
    def f(x):
        ordered = *x.topk(2), *x.sort(descending=True), *x.kthvalue(2), *x.median(0)
        reduced = *x.max(0), x.argmax(-1), *torch.var_mean(x), *torch.aminmax(x)
        return *ordered, *reduced, *x.cummax(0), x.cumsum(1)

    return f


@case(f32(4, 4))
def linalg():
    def f(x):
        solved = torch.linalg.inv(x), *torch.linalg.qr(x), torch.linalg.det(x)
        return *solved, torch.linalg.svd(x)[1], torch.fft.fft(x).real, torch.linalg.norm(x)

    return f


@case(f32(3))
def complex_numbers():
    def f(x):
        z = torch.complex(x, x)
        return torch.view_as_real(z * torch.polar(x.abs(), x)), z.conj() * 2

    return f


@case(f32(3))
def lazy_bits():
    def f(x):
        c = torch.complex(x, x * 2).conj()
        n = c.imag
        assert c.is_conj()
        assert n.is_neg()
        c.mul_(2)
        return c, n, c.resolve_conj(), c @ c, torch.view_as_real(c.resolve_conj()), n + 1

    return f


@case(f32(3))
def inference_mode():
    def f(x):
        with torch.inference_mode():
            y = x * 2 + 1
            assert y.is_inference()
        return y * 3

    return f


@case(f32(3))
def real_buffer():
    b = torch.zeros(3)

    def f(x):
        b.add_(x)
        return b * 2

    return f


@case(grad(2, 3))
def real_buffer_with_gradient():
    b = torch.zeros(2, 3)

    def f(x):
        b[0].add_(x[0])
        return torch.autograd.grad((b * 2).sum(), x)

    return f


@case(f32(2, 4))
def foreach():
    return lambda x: torch._foreach_add([x * 1, x * 2], 1.0)


@case(f32(2, 4))
def foreach_in_place():
    def f(x):
        a, b = x * 1, x[0] * 2
        torch._foreach_mul_([a, b], 2.0)
        torch._foreach_add_([a, b], [a, b])
        return a, b, *torch._foreach_norm([a, b])

    return f


@case(f32(2, 4))
def clip_grad_norm():
    def f(x):
        return torch.nn.utils.clip_grad_norm_([torch.nn.Parameter(torch.ones(3))], 1.0) + x

    return f


@case(f32(2, 4))
def default_device():
    def f(x):
        with torch.device("cpu"):
            return torch.ones(4) + x

    return f


@case(f32(8))
def resize_and_set():
    def f(x):
        y = torch.empty(0)
        y.resize_(8).copy_(x)
        z = torch.empty(0).set_(y)
        z.mul_(2)
        return y

    return f


@case(f32(2, 3), f32(4))
def out_is_resized():
    def f(x, small):
        out = torch.empty(0)
        torch.mul(x, 2, out=out)
        a, b = torch.empty(0), torch.empty(0, dtype=torch.long)
        torch.max(x, 1, out=(a, b))
        return out, a, b, small

    return f


@case(f32(6))
def aliases_of_one_storage():
    def f(x):
        y = x * 1
        a, b = y[:4], y[2:]
        a.mul_(2)
        b.add_(1)
        return y, a, b, a.data_ptr is not None

    return f


@case(f32(4, 4))
def weight_norm():
    return torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))


@case(grad(3, 4))
def in_place_through_views_with_gradients():
    def f(x):
        y = x * 1
        y[0].mul_(x[1])
        y[:, 1].copy_(x[:, 0])
        return torch.autograd.grad((y * y).sum(), x)

    return f


@case(grad(3, 4))
def saved_tensor_hooks():
    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = (x.sin() * x).sum()
        return torch.autograd.grad(y, x)

    return f


@case(f32(5), ints(4, 5))
def scatter():
    def f(x, i):
        out = torch.zeros(4)
        a = out.scatter_add_(0, i, x), torch.zeros(4).index_add_(0, i, x), x.flip(0).roll(1)
        return *a, torch.zeros(4).scatter_reduce(0, i, x, "amax"), torch.bucketize(x, x.sort()[0])

    return f


@case(f32(3))
def repeat_interleave():
    repeats = torch.tensor([1, 2, 3])

    def f(x):
        return x.repeat_interleave(2), x.repeat_interleave(repeats, output_size=6)

    return f


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    make, inputs = CASES[name]
    check(make, inputs)
