"""More of what capture sees of Python programs; see test_capture_cases.py."""

import copy

import numpy
import pytest
import torch
import torch.nn.functional as F
from capture_cases import f32, grad, ints, registry
from capture_harness import check

CASES, case = registry()


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


@case(f32(2, 5, 16))
def convolutions_of_transposed_sequences():
    whole, by_channel = torch.nn.Conv1d(8, 4, 3), torch.nn.Conv1d(8, 8, 4, padding=3, groups=8)
    wide = torch.nn.Conv1d(8, 8, 1)

    def f(x):
        part = x.transpose(1, 2).chunk(2, 1)[0]
        return whole(part), by_channel(part), wide(part), wide(part[:, :, :1])

    return f


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
def products_of_conjugates():
    def f(x):
        a = torch.complex(x, x + 1)
        b = torch.complex(x * 2, x - 1).conj()
        pairs = [(p, q) for p in (a, b) for q in (a, b)]
        return *(torch.dot(p, q) for p, q in pairs), *(torch.vdot(p, q) for p, q in pairs)

    return f


@case(f32(2, 64))
def results_reshaped_in_place():
    window = torch.hann_window(8)

    def f(x):
        spectrum = torch.stft(x, 8, window=window, return_complex=True)
        return spectrum, spectrum * 2

    return f


@case(f32(2, 3, 8, 8))
def batch_norm_into_given_tensors():
    mean, var = torch.zeros(3), torch.ones(3)
    torch_out = torch.ops.aten._native_batch_norm_legit.out

    def f(x):
        outs = [torch.empty(0) for _ in range(3)]
        torch_out(
            x, None, None, mean, var, True, 0.1, 1e-5,
            out=outs[0], save_mean=outs[1], save_invstd=outs[2],
        )  # fmt: skip
        return outs

    return f


@case(f32(4, 6))
def searches_into_given_tensors():
    def f(x):
        values, indices = torch.empty(0), torch.empty(0, dtype=torch.long)
        torch.mode(x.round(), 1, out=(values, indices))
        return values, indices, *torch.histogram(x, 5), *torch.geqrf(x)

    return f


@case(f32(8, 16), f32(16, 4))
def products_of_narrow_floats():
    def f(x, y):
        one = torch.ones(())
        a, b = x.to(torch.float8_e4m3fn), y.to(torch.float8_e4m3fn)
        whole = torch._scaled_mm(a, b, one, one, out_dtype=torch.float32)
        return whole, torch._scaled_mm(a[:, ::2], b[::2], one, one, out_dtype=torch.bfloat16)

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


@case(f32(2, 4))
def geometry_of_a_view_of_another_dtype():
    def f(x):
        y = x[0:1]
        v = y.view(torch.int32)
        v.transpose_(0, 1)
        v.resize_(2, 1)
        return v, y

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
