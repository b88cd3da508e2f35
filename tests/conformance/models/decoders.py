"""Language models that predict the next token."""

from typing import Any

from tests.conformance.models.hugging_face import (
    HEADS,
    HIDDEN,
    INNER,
    LAYERS,
    POSITIONS,
    VOCABULARY,
    build,
    language,
)
from tests.conformance.models.workload import Builder

_ENDS = {"bos_token_id": 1, "eos_token_id": 2}
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
}
_GROUPED = {  # two heads of queries share one of keys and values
    **_SIZES,
    **_ENDS,
    "intermediate_size": INNER,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
    "num_key_value_heads": 2,
}


def _decoder(name: str, **options: Any) -> Builder:
    return build(f"{name}Config", f"{name}ForCausalLM", language, options)


DECODERS: dict[str, Builder] = {
    "llama": _decoder("Llama", **_GROUPED),
    "gpt2": build(
        "GPT2Config",
        "GPT2LMHeadModel",
        language,
        {
            **_ENDS,
            "vocab_size": VOCABULARY,
            "n_positions": POSITIONS,
            "n_embd": HIDDEN,
            "n_layer": LAYERS,
            "n_head": HEADS,
        },
    ),
    "nemotron": _decoder("Nemotron", **_GROUPED),
    "qwen2": _decoder("Qwen2", **_GROUPED),
    "qwen3": _decoder("Qwen3", head_dim=8, **_GROUPED),
    "mistral": _decoder("Mistral", sliding_window=8, **_GROUPED),
    "mixtral": _decoder("Mixtral", num_local_experts=4, **_GROUPED),
    "phi3": _decoder("Phi3", **_GROUPED),
    "gemma2": _decoder("Gemma2", head_dim=8, **_GROUPED),
    "falcon": _decoder("Falcon", **_SIZES, **_ENDS),
    "opt": _decoder(
        "OPT",
        **_SIZES,
        word_embed_proj_dim=HIDDEN,
        ffn_dim=INNER,
        max_position_embeddings=POSITIONS,
    ),
    "mamba": build(
        "MambaConfig",
        "MambaForCausalLM",
        language,
        {
            **_ENDS,
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "state_size": 8,
            "num_hidden_layers": LAYERS,
            "pad_token_id": 0,
        },
    ),
}
