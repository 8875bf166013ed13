"""A policy of a few thousand random parameters, quick to make, load and train."""

from pathlib import Path

from transformers import Qwen2Config, Qwen2ForCausalLM


def small_model(folder: Path, *, hidden: int = 16) -> Path:
    """Write it as a model folder; its vocabulary has 32 tokens."""
    Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=32,
            hidden_size=hidden,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=False,
            pad_token_id=0,
        )
    ).save_pretrained(folder)
    return folder
