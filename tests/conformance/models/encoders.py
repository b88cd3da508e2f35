"""Encoders of text, images and sound, and models of an encoder and a decoder."""

from typing import Any

from tests.conformance.models.hugging_face import (
    HEADS,
    HIDDEN,
    INNER,
    LAYERS,
    POSITIONS,
    VOCABULARY,
    build,
    captioned_image,
    image,
    masked,
    speech,
    translation,
)
from tests.conformance.models.workload import Builder

_LAYERS = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
}
_TEXT = {**_LAYERS, "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS}
_VISION = {**_LAYERS, "image_size": 32, "patch_size": 8}
_TWO_STACKS = {
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def _fills_masks(name: str, **options: Any) -> Builder:
    options = {**_TEXT, "pad_token_id": 0, **options}
    return build(f"{name}Config", f"{name}ForMaskedLM", masked, options)


ENCODERS: dict[str, Builder] = {
    "bert": _fills_masks("Bert"),
    "roberta": _fills_masks("Roberta"),
    "electra": _fills_masks("Electra", embedding_size=HIDDEN),
    "deberta_v2": _fills_masks(
        "DebertaV2",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        max_relative_positions=16,
    ),
    "t5": build(
        "T5Config",
        "T5ForConditionalGeneration",
        translation,
        {
            "vocab_size": VOCABULARY,
            "d_model": HIDDEN,
            "d_kv": 8,
            "d_ff": INNER,
            "num_layers": LAYERS,
            "num_heads": HEADS,
            "decoder_start_token_id": 0,
        },
    ),
    "bart": build(
        "BartConfig",
        "BartForConditionalGeneration",
        translation,
        {**_TWO_STACKS, "max_position_embeddings": POSITIONS},
    ),
    "whisper": build(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        speech,
        {
            **_TWO_STACKS,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 32,
        },
    ),
    "vit": build("ViTConfig", "ViTForImageClassification", image, _VISION),
    "clip": build(
        "CLIPConfig",
        "CLIPModel",
        captioned_image,
        {
            "text_config": {**_TEXT, "eos_token_id": 2},
            "vision_config": _VISION,
            "projection_dim": 16,
        },
    ),
}
