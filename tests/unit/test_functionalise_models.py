"""Real models with random weights, in training mode: their buffers, masks and dropouts."""

import pytest
import torch

from tests.unit.passes_check import check

transformers = pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


def tokens():
    return torch.randint(0, 64, (2, 8))


def image():
    return torch.randn(2, 3, 32, 32)


@model
def llama():
    config = transformers.LlamaConfig(
        **SMALL, vocab_size=64, num_key_value_heads=2, attention_dropout=0.1, use_cache=False
    )
    return transformers.LlamaForCausalLM(config), tokens


@model
def gpt2():
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64, use_cache=False)
    return transformers.GPT2LMHeadModel(config), tokens


@model
def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, vocab_size=64)), tokens


@model
def t5():
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=64, use_cache=False
    )
    module = transformers.T5ForConditionalGeneration(config)
    return lambda ids: module(input_ids=ids, decoder_input_ids=ids), tokens, module


@model
def vit():
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)
    return transformers.ViTForImageClassification(config), image


@model
def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    return transformers.ResNetForImageClassification(config), image


@model
def mobilenet():
    config = transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32)
    return transformers.MobileNetV2ForImageClassification(config), image


def forward(name):
    run, _, *module = MODELS[name]()
    (module[0] if module else run).train()
    return lambda x: run(x).logits


def with_gradients(name):
    run, _, *module = MODELS[name]()
    module = (module[0] if module else run).train()
    parameters = [p for p in module.parameters() if p.requires_grad]

    def step(x):
        with torch.enable_grad():
            logits = run(x).logits
            gradients = torch.autograd.grad(logits.float().square().mean(), parameters)
        return logits.detach(), *gradients

    return step


@pytest.mark.parametrize("make", [forward, with_gradients])
@pytest.mark.parametrize("name", MODELS)
def test_model(name, make):
    inputs = MODELS[name]()[1]
    with torch.no_grad():
        check(lambda: make(name), [inputs])
