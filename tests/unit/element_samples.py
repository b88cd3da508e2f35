"""A few calls of every operator with a rule for where its elements come from.

The parameters are tensors: x is [4, 6, 8], y like it; what is made of them is part of the program.
"""

import torch
import torch.nn.functional as F

aten = torch.ops.aten

MADE = {
    "zeros": [lambda x: torch.zeros(4, 6, 8, dtype=x.dtype).logical_or(x)],
    "ones": [lambda x: torch.ones(6, 8, dtype=x.dtype) == x],
    "full": [
        lambda x: torch.full((6, 8), 3) == x,
        lambda x: torch.where(x > 1, x, torch.full((8,), 0.3)),
    ],
    "scalar_tensor": [lambda x: torch.where(x > 1, x, aten.scalar_tensor(2, dtype=x.dtype))],
    "new_zeros": [lambda x: torch.where(x > 1, x, x.new_zeros(8))],
    "new_ones": [lambda x: torch.where(x > 1, x, x.new_ones(6, 1))],
    "new_full": [lambda x: torch.where(x > 1, x, x.new_full((6, 1), 2))],
    "eye": [
        lambda x: torch.where(torch.eye(8)[:6] > 0, x, 0),
        lambda x: x[:, :, :6] == torch.eye(6),
    ],
    "eye.m": [lambda x: torch.where(x > 1, x, torch.eye(6, 8, dtype=x.dtype))],
    "arange": [
        lambda x: torch.arange(8) == x,
        lambda x: (torch.arange(6)[:, None] <= torch.arange(8)) & (x > 0),
        lambda x: torch.where(x > 1, x, torch.arange(8, dtype=x.dtype)),
    ],
    "arange.start": [lambda x: torch.arange(-3, 5) == x, lambda x: torch.arange(2.0, 10.0) >= x],
    "arange.start_step": [
        lambda x: torch.arange(20, 4, -2) == x,
        lambda x: torch.arange(0, 16, 2, dtype=torch.int32) == x,
        lambda x: torch.arange(7.0, -9.0, -2.0) >= x,
    ],
}
JOINED = {
    "cat": [
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.cat([x, y], 1),
        lambda x, y: torch.cat([x, y, x[:, :, :3]], -1) == 1,
        lambda x, y: torch.cat([x[:, :, 4:].neg(), x[:, :, :4]], -1),
        lambda x, y: torch.cat([x[:, :, :1], y[:, :, :0], y.flip(-1)], -1),
        lambda x, y: torch.cat([torch.zeros(0, dtype=x.dtype), x[0, 0], y[1, 1]]),
        lambda x, y: torch.cat([x, y > 0], 1),
        lambda x: torch.cat([x, torch.ones(4, 2, 8, dtype=torch.float64)], 1),
        lambda x, y: torch.cat([x, torch.cat([y, x], 2)], 2),
        lambda x, y: torch.cat([x, y], 1).amax(-1),
    ],
    "stack": [
        lambda x, y: torch.stack([x, y]),
        lambda x, y: torch.stack([x, y, x], 1),
        lambda x, y: torch.stack([x.flatten(), y.flatten()]),
    ],
    "constant_pad_nd": [
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(x, (0, 0, 3, 0), value=1),
        lambda x: F.pad(x, (-1, 2, 1, -2, 1, 1)),
        lambda x: F.pad(x, (-1, -2)),
    ],
    "reflection_pad1d": [lambda x: F.pad(x, (3, 2), mode="reflect")],
    "reflection_pad2d": [lambda x: F.pad(x, (3, 2, 1, 5), mode="reflect")],
    "reflection_pad3d": [lambda x: F.pad(x[None], (3, 2, 1, 5, 0, 3), mode="reflect")],
    "replication_pad1d": [lambda x: F.pad(x, (3, 2), mode="replicate")],
    "replication_pad2d": [lambda x: F.pad(x, (3, 2, 10, 1), mode="replicate")],
    "replication_pad3d": [lambda x: F.pad(x[None], (3, 2, 0, 1, 4, 0), mode="replicate")],
    "roll": [
        lambda x: x.roll(3, -1),
        lambda x: x.roll((-1, 13), (0, 2)),
        lambda x: x[1, 2].roll(7),
        lambda x: x.roll(0, 1),
    ],
    "tril": [lambda x: x.tril(), lambda x: x.tril(2), lambda x: x.transpose(1, 2).tril(-3)],
    "triu": [lambda x: x.triu(), lambda x: x.triu(1), lambda x: x.triu(-2)],
    "select_scatter": [
        lambda x, y: x.select_scatter(y[:, 0], 1, 2),
        lambda x, y: x.select_scatter(y[:, :, 3], 2, -1),
    ],
    "slice_scatter": [
        lambda x, y: x.slice_scatter(y[:, 1:4], 1, 2, 5),
        lambda x, y: x.slice_scatter(y[:, :, :3], 2, -3),
        lambda x, y: x.slice_scatter(y),
    ],
    "diagonal_scatter": [
        lambda x, y: x.diagonal_scatter(y[:, 0, :6], 1, 1, 2),
        lambda x, y: x.diagonal_scatter(y[0, :, :3].contiguous(), -1, 0, 2),
    ],
    "select_backward": [lambda x: aten.select_backward(x, [4, 6, 5, 8], 2, 3)],
    "slice_backward": [
        lambda x: aten.slice_backward(x, [4, 6, 20], 2, 4, 12, 1),
        lambda x: aten.slice_backward(x, [9, 6, 8], 0, 5, 9223372036854775807, 1),
        lambda x: aten.slice_backward(x, [4, 6, 8], 0, 0, 9223372036854775807, 1),
    ],
    "diagonal_backward": [lambda x: aten.diagonal_backward(x, [4, 9, 9, 6], 1, 1, 2)],
    "diag_embed": [lambda x: torch.diag_embed(x), lambda x: torch.diag_embed(x, -2, 1, 3)],
}
MOVED = {
    "repeat": [
        lambda x: x.repeat(2, 1, 3),
        lambda x: x.repeat(2, 1, 1, 1),
        lambda x: x[:, :1].repeat(1, 5, 1),
    ],
    "unfold": [lambda x: x.neg().unfold(2, 3, 2).abs(), lambda x: x.neg().unfold(0, 2, 1).abs()],
    "diagonal": [
        lambda x: x.neg().diagonal(0, 1, 2).abs(),
        lambda x: x.neg().diagonal(-1, 2, 0).abs(),
    ],
    "narrow_copy": [lambda x: x.narrow_copy(1, 2, 3)],
    "unsafe_split.Tensor": [lambda x: x.neg().unsafe_split(4, 1)[1].abs()],
    "unsafe_split_with_sizes": [lambda x: x.neg().unsafe_split_with_sizes([1, 5], 1)[1].abs()],
}

# Of floats alone, in test_loops_losses.py.
LOSSES = {
    "nll_loss_forward",
    "nll_loss2d_forward",
    "nll_loss_backward",
    "nll_loss2d_backward",
    "mse_loss_backward",
    "smooth_l1_loss_backward",
    "huber_loss_backward",
    "binary_cross_entropy_backward",
}


def long(*numbers):
    return torch.tensor(numbers)


# Tables, and index tensors for them.
FOUND = {
    "embedding": [
        (aten.embedding, lambda x: (x.reshape(24, 8), long(3, 0, 23, 5, 5))),
        (aten.embedding, lambda x: (x.reshape(24, 8), long(3, 0, 23, 5).view(2, 2).int())),
        (aten.embedding, lambda x: (x.reshape(192, 1), long(4))),
    ],
    "index_select": [
        (lambda t, i: t.index_select(1, i), lambda x: (x, long(5, 0, 0, 3))),
        (lambda t, i: t.index_select(-1, i), lambda x: (x, long(7, 1, 2))),
        (lambda t, i: t.index_select(0, i), lambda x: (x, torch.tensor(2))),
    ],
    "gather": [
        (lambda t, i: t.gather(2, i), lambda x: (x, torch.arange(48).view(2, 3, 8) % 8)),
        (lambda t, i: t.gather(0, i), lambda x: (x, torch.arange(60).view(3, 5, 4) % 4)),
        (
            lambda t, i: t.gather(-1, i[:, :, None].expand(4, 6, 3)),
            lambda x: (x, torch.arange(24).view(4, 6) % 8),
        ),
    ],
    "index.Tensor": [
        (lambda t, i: t[i], lambda x: (x, long(-4, 3, 0, 0))),
        (lambda t, i: t[:, i], lambda x: (x, long(-1, 3, 0, 0).view(2, 2))),
        (lambda t, i: t[:, :, i], lambda x: (x, long(-1, 3, 0, 0).int())),
        (lambda t, i, j: t[i, j], lambda x: (x, long(0, 3), long(1, -6))),
        (lambda t, i, j: t[i, :, j], lambda x: (x, long(0, 3), long(1, -6))),
        (lambda t, i, j: t[i, j], lambda x: (x, long(0, 3)[:, None], long(1, -6, 2))),
        (lambda t, i: t[None, i, 1:3, None], lambda x: (x, long(2, 1))),
    ],
    "take": [(torch.take, lambda x: (x.flatten(), long(-1, 3, 190).view(3, 1)))],
    "one_hot": [(lambda t, i: F.one_hot(i, 7) + t, lambda x: (x[0, 0, 0], long(3, 0, 6, 5)))],
}
