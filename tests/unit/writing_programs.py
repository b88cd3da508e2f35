"""Programs that write: in place, through views, into out=, to inputs, to geometry.

Each entry of `PROGRAMS` is (make, inputs): `make()` gives the function afresh, `inputs` are
functions that make its arguments.
"""

import torch
import torch.nn.functional as F

PROGRAMS = {}


def f32(*sizes):
    return lambda: torch.randn(*sizes)


def leaf(*sizes):
    return lambda: torch.randn(*sizes, requires_grad=True)


def window(*sizes):
    """A window into something larger."""

    def make():
        large = torch.randn(*[n + 2 for n in sizes])
        return large[tuple(slice(1, n + 1) for n in sizes)]

    return make


class Overlap:
    """Two inputs over one storage, made anew for every run."""

    base = None

    @staticmethod
    def first():
        Overlap.base = torch.randn(12)
        return Overlap.base[:8]

    @staticmethod
    def second():
        return Overlap.base[4:12]

    @staticmethod
    def whole():
        return Overlap.base


def program(*inputs):
    def register(function):
        PROGRAMS[function.__name__] = (lambda: function, inputs)
        return function

    return register


def made(*inputs):
    """Registers a function that makes the program: one with state."""

    def register(make):
        PROGRAMS[make.__name__] = (make, inputs)
        return make

    return register


# Writes through views.


@program(f32(4, 6))
def index_put_transposed(x):
    y = x.t()[1:4]
    y.index_put_((torch.tensor([0, 2]),), torch.tensor(5.0))
    return x * 2, y


@program(f32(4, 6))
def chunk_add(x):
    a, b = x.chunk(2, 1)
    b.add_(a)
    return x.sum(), a


@program(f32(4, 6))
def copy_into_slice(x):
    y = x * 1
    y[1:].copy_(y[:-1] * 2)
    return y, y[0]


@program(f32(4, 6))
def view_then_base(x):
    y = x * 1
    v = y.view(-1)
    y.mul_(2)
    v[3:5] = 0
    y.add_(1)
    return v, y


@program(f32(4, 6))
def nested_views(x):
    v = x.unflatten(1, (2, 3))[:, 1].transpose(0, 1)[::2]
    v.mul_(-1)
    return v.clone(), x


@program(f32(4, 6))
def diagonals(x):
    x.diagonal().fill_(9)
    x.diagonal(1).add_(1)
    return x.trace()


@program(f32(4, 6))
def as_strided(x):
    v = torch.as_strided(x, (3, 2), (5, 3), 1)
    v.mul_(2)
    return v, x[0]


@program(f32(12))
def overlapping_slices(x):
    a = x[:8]
    b = x[4:]
    a.add_(1)
    b.mul_(2)
    a.add_(b.clone())
    return a, b, x


@program(f32(12))
def unfold_read(x):
    w = x.unfold(0, 4, 2)
    x.add_(1)
    return w * 1, w


@program(f32(3, 4))
def expand_read(x):
    y = x[0].expand(3, 4)
    x[0].add_(1)
    return y + x, y


@program(f32(3, 4))
def split_and_unbind(x):
    a, b, c = x.unbind(0)
    b.add_(a)
    p, q = x.split([1, 3], 1)
    q.mul_(2)
    p.copy_(q[:, :1])
    r = torch.narrow(x, 1, 1, 2)
    r.fill_(3)
    return a, b, p, x.select(1, 2), c


@program(f32(3, 4))
def view_as_integers(x):
    v = x.view(torch.int32)
    v.bitwise_and_(-2)
    w = x.view(torch.uint8)[..., 0::4]
    w.zero_()
    return x * 1, v


@program(f32(3, 2))
def complex_views(x):
    c = torch.view_as_complex(x)
    c.mul_(2j)
    c.real.add_(1)
    c.imag[0] = 4
    d = c.conj()
    return x * 1, d * 1, c


@program(f32(3, 4))
def write_to_a_conjugate(x):
    c = torch.complex(x, x)
    d = c.conj()
    d.mul_(1j)
    return c, d * 1


@program(f32(3, 4))
def conjugates_as_outputs(x):
    c = torch.complex(x, x + 1)
    d = c.conj()
    c.add_(1j)
    e = d.imag
    e.add_(2)
    return c, d, e


@program(lambda: torch.complex(torch.ones(3), torch.arange(3.0)).conj())
def conjugate_input(c):
    c.mul_(2j)
    c.real.add_(1)
    return c * 1, c[1:]


@program(f32(4, 4))
def empty_views(x):
    x[2:2].add_(1)
    x[:0] = 1
    y = torch.empty(0, 3)
    y.add_(1)
    return x * 1, y


@program(f32(2, 3, 4, 4))
def channels_last(x):
    y = x.contiguous(memory_format=torch.channels_last)
    y.add_(torch.ones(2, 3, 4, 4))
    y[:, 0].mul_(2)
    return y, y.permute(0, 2, 3, 1).reshape(-1), x.add_(y)


@program(f32(3, 4))
def fill_with_steps(x):
    y = x * 1
    y[::2, 1::2] = 7
    y[..., -1] = y[..., 0]
    y[1] = torch.arange(4)
    return y, y[::2]


@program(f32(3, 4))
def alias_and_detach(x):
    y = x * 1
    a = torch.ops.aten.alias(y)
    d = y.detach()
    a.add_(1)
    d.mul_(2)
    return y, a, d


# Inputs.


@program(Overlap.first, Overlap.second)
def inputs_that_share(a, b):
    a.add_(1)
    c = b * 2
    b.mul_(3)
    return a + 1, c, b[2:]


@program(Overlap.first, Overlap.second)
def inputs_that_share_through_views(a, b):
    a[4:].zero_()
    return b.sum(), b.view(2, 4)


@program(Overlap.first, Overlap.second, Overlap.whole)
def inputs_one_of_which_is_all(a, b, c):
    a.add_(1)
    b[2:].mul_(2)
    return c * 1, a[5:], c[3:]


@program(window(3, 4))
def window_input(x):
    x.add_(1)
    y = x.t()
    y[0] = 3
    return x.contiguous() + 1, y


@program(window(3, 4))
def write_beyond_the_input(x):
    v = x.as_strided((2,), (1,), 0)
    v.fill_(7)
    return x * 1, v


@program(lambda: torch.randn(4).expand(3, 4))
def expanded_input(x):
    x[1].add_(1)
    return x * 2, x[0]


@program(f32(3, 4))
def transposed_input(x):
    x.t_()
    x.add_(1)
    return x * 2


@program(f32(3, 4))
def return_input(x):
    return x, x.view(-1), x[1], x.detach()


@program(f32(3, 4))
def return_written_input(x):
    x.add_(1)
    return x, x.view(3, 4), x, x.view(-1)


@program(f32(8), f32(3, 4))
def input_set_to_intermediate(x, z):
    w = z * 2
    x.set_(w)
    x.add_(1)
    return x.sum(), w


@program(f32(8), f32(3, 4))
def input_set_to_input(x, z):
    x.set_(z)
    x.add_(1)
    return x.sum(), z[0]


@program(lambda: torch.arange(4.0))
def input_grows(x):
    v = x[1:3]
    x.resize_(6)
    x[4:] = 5
    v.add_(1)
    return x.sum(), v


@program(f32(3), f32(3))
def swap_inputs(a, b):
    t = a.clone()
    a.copy_(b)
    b.copy_(t)
    return a + b


@program(f32(3), f32(3))
def copy_between_inputs(a, b):
    a.copy_(b)
    b.add_(1)
    return a * 1


# Geometry.


@program(f32(3, 4))
def metadata_of_intermediate(x):
    y = x * 1
    y.t_()
    y[0].zero_()
    y.unsqueeze_(0)
    y.transpose_(1, 2)
    y.add_(1)
    return y, y.squeeze_(0)


@program(f32(8))
def resize_grows(x):
    y = x * 1
    v = y[2:4]
    y.resize_(12)
    y[8:] = 1
    v.add_(1)
    return y[:12], v


@program(f32(8))
def resize_shrinks(x):
    y = x * 1
    v = y[6:]
    y.resize_(4)
    y.add_(1)
    v.mul_(2)
    return y, v


@program(f32(8), f32(3, 4))
def set_to_input(x, z):
    y = x * 1
    y.set_(z)
    y.add_(1)
    return y, z * 1


@program(f32(6))
def as_strided_in_place(x):
    y = x * 1
    y.as_strided_((2, 3), (3, 1))
    y[0].add_(1)
    return y


@program(f32(4, 4))
def data_attribute(x):
    y = x * 2
    y.data.add_(1)
    y.data[0] = 3
    z = y.data
    z.mul_(2)
    return y


@program(f32(4, 4))
def data_assigned(x):
    y = x * 2
    v = y[0]
    y.data = x * 5
    y.add_(1)
    return y, v


@program(f32(3, 4))
def detach_and_write(x):
    y = x.sin()
    d = y.detach()
    d.add_(1)
    return y, d


@program(f32(3, 4))
def geometry_then_view(x):
    y = x * 1
    v = y[1]
    y.t_()
    v.add_(1)
    y[0].mul_(3)
    return v, y, y.reshape(-1)


# out=, lists, optimisers.


@program(f32(3, 4))
def out_arguments(x):
    y = torch.empty(3, 4)
    torch.mul(x, 2, out=y)
    z = torch.empty(4, 3)
    torch.add(y.t(), 1, out=z)
    v = torch.empty(2, 3, 4)
    v.zero_()
    torch.exp(x, out=v[1])
    a = torch.empty(3)
    i = torch.empty(3, dtype=torch.long)
    torch.max(x, 1, out=(a, i))
    return y, z, v[1], a, i


@program(f32(3, 4))
def out_resizes(x):
    y = torch.empty(0)
    torch.mul(x, 2, out=y)
    y.add_(1)
    return y, y[0]


@program(f32(3, 4))
def out_is_input(x):
    torch.cat([x[:1] * 2, x[1:] + 1], out=x)
    return x[0]


@program(f32(3, 400))
def out_decides_the_dtype(x):
    y = torch.empty(3, dtype=torch.double)
    torch.sum(x, 1, out=y)
    z = torch.empty(3, 400, dtype=torch.double)
    torch.cumsum(x, 1, out=z)
    return y, z


@program(f32(4, 4))
def linalg_out(x):
    q = torch.empty(0)
    r = torch.empty(0)
    torch.linalg.qr(x, out=(q, r))
    return q, r


@program(f32(3, 4))
def foreach(x):
    tensors = [x[0], x[1] * 1]
    torch._foreach_add_(tensors, 1.0)
    torch._foreach_mul_(tensors, tensors)
    torch._foreach_addcdiv_(tensors, tensors, [x[2].exp()] * 2, 0.5)
    torch._foreach_sqrt_([tensors[1].abs_()])
    return tensors


@program(f32(3, 4))
def foreach_meets_itself(x):
    y = x * 1
    torch._foreach_mul_([y[0], y[0]], [y[0], y[1]])
    torch._foreach_addcmul_([y[1], y[2, :3]], [y[2], y[1, 1:]], [y[0], y[0, :3]])
    return y


@made(f32(2, 4))
def sgd_step():
    linear = torch.nn.Linear(4, 3)
    momentum = [torch.zeros_like(p) for p in linear.parameters()]

    def step(x):
        parameters = list(linear.parameters())
        with torch.enable_grad():
            gradients = torch.autograd.grad(linear(x).square().mean(), parameters)
        for p, m, g in zip(parameters, momentum, gradients, strict=True):
            m.mul_(0.9).add_(g)
            p.sub_(m, alpha=0.1)
        return linear(x)

    return step


@made(f32(2, 4))
def fused_adamw():
    linear = torch.nn.Linear(4, 3).requires_grad_(False)

    def step(x):
        parameters = list(linear.parameters())
        first = [torch.zeros_like(p) for p in parameters]
        second = [torch.zeros_like(p) for p in parameters]
        steps = [torch.ones(()) for _ in parameters]
        gradients = [p * 0.5 for p in parameters]
        torch._fused_adamw_(
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            lr=0.1,
            beta1=0.9,
            beta2=0.99,
            weight_decay=0.1,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
        return linear(x), *first

    return step


# Indexing, masks, dtypes, random numbers.


@program(f32(3, 4))
def dtypes(x):
    y = x.half()
    y.add_(x.double().mean())
    y.mul_(torch.ones(3, 4, dtype=torch.double))
    z = torch.zeros(3, 4, dtype=torch.int32)
    z.add_(x > 0)
    w = torch.zeros(3, 4)
    w.copy_(torch.arange(4))
    w.logical_not_()
    return y, z, w


@program(f32(3, 4))
def masks(x):
    x[x > 0] = 0
    x.masked_fill_(x < -1, 5)
    x.clamp_(-0.5, 4)
    return x * 1


@program(f32(3, 4))
def scatters(x):
    x.scatter_(0, torch.tensor([[0, 1, 2, 0]]), 7.0)
    x.index_add_(0, torch.tensor([1]), torch.ones(1, 4))
    x.index_fill_(1, torch.tensor([2]), 1.0)
    x.put_(torch.tensor([3]), torch.tensor([8.0]))
    x.index_copy_(0, torch.tensor([2]), torch.ones(1, 4))
    return x


@program(f32(3, 4))
def random_in_place(x):
    x.normal_()
    y = torch.empty(3, 4).uniform_(1, 2)
    z = torch.empty(3).bernoulli_(0.5)
    w = torch.empty(2).exponential_()
    r = torch.empty(4).random_(9)
    return x * 1, y, z, w, r


@program(f32(8, 40))
def random_through_views(x):
    y = x * 1
    y[:, 3:33].normal_()
    y.t()[5:25].uniform_()
    y[::2].bernoulli_(0.25)
    return y, torch.rand(3)


@program(f32(4, 4))
def triangles(x):
    x.tril_()
    x.triu_(-1)
    x.fill_diagonal_(2)
    x.cumsum_(0)
    x.squeeze_()
    return x.t()


@program(f32(4, 4))
def copies_of_itself(x):
    x[1:].copy_(x[:-1].clone())
    x[:, 0], x[:, 1] = x[:, 1].clone(), x[:, 0].clone()
    x.copy_(x.t().clone())
    return x.sum(0)


@program(f32(4, 4))
def activations_in_place(x):
    a = F.rrelu(x, training=True)
    b = F.dropout(x, 0.3)
    c = F.dropout(x, 0.3, inplace=True)
    d = F.relu_(x)
    return a, b, c, d, F.alpha_dropout(x, 0.2), F.leaky_relu_(x, 0.1)


@program(f32(3, 4))
def outputs_share(x):
    y = x + 1
    return y, y.t(), y[1:], y.view(-1)


@program(f32(3, 4))
def written_outputs_share(x):
    y = x + 1
    v = y[1:]
    w = y.view(3, 4)
    v.add_(1)
    return y, v, w, y.t()


# Modules with state.


@made(f32(2, 3, 9, 9))
def batch_norm_twice():
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(inplace=True),
        torch.nn.Dropout(0.2),
        torch.nn.BatchNorm2d(4, track_running_stats=False),
        torch.nn.InstanceNorm2d(4, track_running_stats=True),
    )
    return lambda x: (module(module(x)[:, :3]), module[1].running_mean)


@made(f32(3))
def buffer_of_a_closure():
    buffer = torch.zeros(3)

    def count(x):
        buffer.add_(x)
        return buffer * 2

    return count


@made(f32(2, 3))
def cache_of_keys():
    cache = torch.zeros(2, 8, 3)

    def append(x):
        cache[:, 4:5].copy_(x[:, None])
        cache.index_copy_(1, torch.tensor([6]), x[:, None])
        return cache[:, :7].sum(1), cache

    return append
