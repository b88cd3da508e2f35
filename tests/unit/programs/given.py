"""Writes to inputs, and changes of geometry."""

import torch

from tests.unit.programs.registry import Overlap, f32, program, window


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
