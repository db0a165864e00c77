"""A model as the cache sees it: its layers, before they are spread over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

# Bytes of an element of the types that models and states are computed in.
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class AttentionLayer:
    """A layer that caches keys and values: `num_kv_heads` of `head_dim` and `head_dim_v` values.

    Heads are those of the whole model, before tensor parallelism. `window` is the number of tokens
    that a query sees, itself included; None is all of them.
    """

    index: int  # 0-based, among all layers of its model; pipeline stages are made of it
    num_kv_heads: int
    head_dim: int
    head_dim_v: int
    window: int | None = None
    drafter: bool = False


@dataclass(frozen=True)
class StateTensor:
    """One tensor of a recurrent state, of the whole model: what ranks share out, and of what type.

    Elements: `split` (divided by the ranks, must divide) x `per_split` x (`width` + drafts), the
    last where the tensor keeps one more column for each draft token.
    """

    name: str
    split: int
    per_split: int
    dtype: str
    width: int = 1
    grows_with_drafts: bool = False

    def size_bytes(self, tensor_parallel: int, draft_tokens: int) -> int:
        """Return the bytes on one rank; the caller has checked that the ranks divide `split`."""
        width = self.width + (draft_tokens if self.grows_with_drafts else 0)
        return prod((self.split // tensor_parallel, self.per_split, width, ITEM_BYTES[self.dtype]))


@dataclass(frozen=True)
class StateLayer:
    """A layer with a recurrent state of fixed size (gated delta net, Mamba) and no keys.

    With a `chunk`, the tokens that its kernel takes at once, states inside a sequence can be kept.
    """

    index: int
    tensors: tuple[StateTensor, ...]
    drafter: bool = False
    chunk: int | None = None


Layer = AttentionLayer | StateLayer


@dataclass(frozen=True)
class Model:
    """A model and its drafter, layers in the order in which vLLM meets them."""

    name: str  # what its user calls it: a file or folder
    architecture: str
    dtype: str
    num_layers: int  # of the target alone, as pipeline stages divide them
    num_attention_heads: int
    max_model_len: int  # tokens, as its config.json says
    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = ()  # what was assumed, for people
    has_experts: bool = False  # a mixture of experts

    @property
    def attention(self) -> tuple[AttentionLayer, ...]:
        """The layers that cache keys and values."""
        return tuple(layer for layer in self.layers if isinstance(layer, AttentionLayer))

    @property
    def states(self) -> tuple[StateLayer, ...]:
        """The layers with a recurrent state."""
        return tuple(layer for layer in self.layers if isinstance(layer, StateLayer))

    @property
    def is_hybrid(self) -> bool:
        """Whether recurrent states and keys share the blocks."""
        return bool(self.states) and bool(self.attention)
