"""What `spec.algorithm.args` may say to the trainer; everything else is the user's mistake."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from steelyard_workers.termination import UserError


class Settings(BaseModel):
    """The settings of GRPO, with the defaults of the field."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, allow_inf_nan=False)

    learning_rate: float = Field(default=1e-6, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip: float = Field(default=0.2, gt=0)
    """How far a token's probability ratio to the sampler may move before it stops to matter."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    micro_batch: int = Field(default=16, ge=1)
    """Trajectories in one forward pass. It bounds memory and does not change the update."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the forward pass and type of the published weights. The optimiser always keeps float32."""

    @classmethod
    def parse(cls, args: Mapping[str, str]) -> "Settings":
        """Read `algorithm.args`; UserError names the argument."""
        try:
            return cls.model_validate(dict(args))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            known = ", ".join(field.alias or name for name, field in cls.model_fields.items())
            raise UserError(f"spec.algorithm.args.{first['loc'][0]}: {first['msg']}; GRPO takes {known}") from error
