"""(c) A GPT-2 and a Llama from transformers: configured here, with random weights.

How many operators were captured, how long it took, whether the results are eager's, and the time
of a call against eager's.
"""

import time

import torch
import transformers

import fulgurite


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=1000, n_positions=128, n_embd=128, n_layer=4, n_head=4
    )
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    return transformers.LlamaForCausalLM(config)


def best_of(call, repeats=30):
    """Milliseconds of the fastest of some calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def report(name, model):
    torch.manual_seed(0)
    model = model.eval()
    tokens = torch.randint(0, 1000, (2, 32))
    compiled = fulgurite.jit(model)

    with torch.no_grad():
        start = time.perf_counter()
        logits = compiled(input_ids=tokens, use_cache=False).logits
        first = 1e3 * (time.perf_counter() - start)
        expected = model(input_ids=tokens, use_cache=False).logits
        mine = best_of(lambda: compiled(input_ids=tokens, use_cache=False))
        eager = best_of(lambda: model(input_ids=tokens, use_cache=False))

    captured = fulgurite.last_traces(compiled)[0]
    stats = fulgurite.compile_stats(compiled)
    print(f"\n{name}")
    print(f"  calls captured            {len(captured.bound_symbols)}")
    print(f"  capture                   {stats.milliseconds['capture']:.1f} ms")
    print(f"  passes and plan           {stats.milliseconds['compile']:.1f} ms")
    print(f"  first call, all included  {first:.1f} ms")
    difference = (logits - expected).abs().max().item()
    agrees = torch.allclose(logits, expected, rtol=1e-4, atol=1e-5)
    print(f"  agrees with eager         {agrees}, largest difference {difference:.1e}")
    print(f"  a call: fulgurite         {mine:.2f} ms, eager {eager:.2f} ms")


def main():
    torch.set_num_threads(1)
    report("GPT-2, 4 layers", gpt2())
    report("Llama, 2 layers", llama())


if __name__ == "__main__":
    main()
