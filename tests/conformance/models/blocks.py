"""Plain torch.nn: convolution, recurrence, graphs, recommendation, generation."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conformance.models.workload import Builder, Workload


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        self.a = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Identity()
        if inputs != outputs or stride != 1:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.skip = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.a(x) + self.skip(x), inplace=True)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 16, 3, 2, 1)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 1, 1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x: Tensor) -> Tensor:
        a = F.silu(self.first(x))
        b = F.silu(self.norm(self.middle(F.silu(self.down(a)))))
        return self.out(torch.cat([self.up(b), F.interpolate(a, scale_factor=1.0)], 1))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.rnn(x)
        return self.head(y), h, c


class WrittenOutLSTM(nn.Module):
    """A Python loop over time."""

    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(8, 64), nn.Linear(16, 64)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], 16)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (self.x(x[:, t]) + self.h(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, 1)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.edge = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(32, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, sink = edges[0], edges[1]
        h = F.relu(self.w1(x))
        for _ in range(2):
            attention = torch.sigmoid(self.edge(torch.cat([h[source], h[sink]], -1)))
            message = self.w2(h)[source] * attention
            gathered = torch.zeros_like(h).index_add(0, sink, message)
            ones = torch.ones(sink.shape[0])
            degree = torch.zeros(h.shape[0]).scatter_add(0, sink, ones).clamp(min=1)
            h = F.relu(h + gathered / degree[:, None])
        parity = (torch.arange(h.shape[0]) % 2)[:, None].expand_as(h)
        return torch.zeros(2, 16).scatter_reduce(0, parity, h, "amax", include_self=False)


class Mixer(nn.Module):
    def __init__(self, patches: int = 16, channels: int = 24):
        super().__init__()
        self.embed = nn.Conv2d(3, channels, 4, 4)
        self.n1, self.n2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens = nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches))
        self.channels = nn.Sequential(nn.Linear(channels, 48), nn.GELU(), nn.Linear(48, channels))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return (x + self.channels(self.n2(x))).mean(1)


class Recommender(nn.Module):
    """DLRM: bags of embeddings, and the products of all pairs."""

    def __init__(self):
        super().__init__()
        modes = ("sum", "mean", "sum")
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode=mode) for mode in modes)
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        d = self.bottom(dense)
        z = torch.stack([d] + [bag(indices, offsets) for bag in self.bags], 1)
        products = torch.bmm(z, z.mT)
        i, j = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([d, products[:, i, j]], 1)))


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Linear(16, 32)
        self.net = nn.Sequential(nn.Linear(34, 64), nn.SiLU(), nn.Linear(64, 2))
        self.register_buffer("alpha", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0))

    def forward(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        a = self.alpha[t][:, None]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        frequency = torch.exp(-torch.arange(8) * 0.5)
        time = torch.cat([torch.sin(t[:, None] * frequency), torch.cos(t[:, None] * frequency)], -1)
        return F.mse_loss(self.net(torch.cat([noisy, F.silu(self.t(time))], -1)), noise)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 8), nn.Linear(4, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, -1)
        z = mean
        if self.training:
            z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        y = self.decoder(z)
        divergence = -0.5 * torch.mean(1 + log_variance - mean**2 - log_variance.exp())
        return F.mse_loss(y, x) + divergence, y


class DroppingMLP(nn.Module):
    def __init__(self):
        super().__init__()
        layers = (nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 16), nn.Dropout(0.1))
        self.net = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.net(x), -1)


def _residual_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.MaxPool2d(2),
        Residual(8, 8),
        Residual(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape)


def _integers(below: int, *shape: int) -> Tensor:
    return torch.randint(0, below, shape)


def _bags() -> tuple[Tensor, Tensor, Tensor]:
    return _normal(3, 4), _integers(20, 9), torch.tensor([0, 2, 5])


BLOCKS: dict[str, Builder] = {
    "own_resnet": lambda: Workload(_residual_net(), lambda: (_normal(2, 3, 16, 16),)),
    "own_unet": lambda: Workload(UNet(), lambda: (_normal(2, 1, 16, 16),)),
    "own_lstm": lambda: Workload(LSTM(), lambda: (_normal(3, 6, 8),)),
    "own_hand_lstm": lambda: Workload(WrittenOutLSTM(), lambda: (_normal(3, 6, 8),)),
    "own_gnn": lambda: Workload(GraphNet(), lambda: (_normal(10, 8), _integers(10, 2, 30))),
    "own_mixer": lambda: Workload(Mixer(), lambda: (_normal(2, 3, 16, 16),)),
    "own_dlrm": lambda: Workload(Recommender(), _bags),
    "own_diffusion": lambda: Workload(
        Diffusion(), lambda: (_normal(5, 2), _integers(100, 5), _normal(5, 2))
    ),
    "own_vae": lambda: Workload(VAE(), lambda: (_normal(4, 16),)),
    "own_drop_mlp": lambda: Workload(DroppingMLP(), lambda: (_normal(4, 16),)),
    "own_encoder_layer": lambda: Workload(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), lambda: (_normal(2, 5, 16),)
    ),
}
