"""Writes through views."""

import torch

from tests.unit.programs.registry import f32, program


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
