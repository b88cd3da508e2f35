"""out= arguments, lists, optimisers, masks, random numbers, modules."""

import torch
import torch.nn.functional as F

from tests.unit.programs.registry import f32, made, program


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
