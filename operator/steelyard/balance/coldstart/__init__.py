"""The cold-start planner: a plan before the first run, from model, hardware, lengths and GPUs. Pure."""

from steelyard.balance.coldstart.lengths import CONTEXT, Lengths, lognormal, parse
from steelyard.balance.coldstart.plan import Plan, Question, plan
from steelyard.balance.coldstart.polish import polish
from steelyard.balance.coldstart.rows import HardwareRow, ModelRow, hardware_names, hardware_row, model_names, model_row
from steelyard.balance.coldstart.words import BadInput, Infeasible

__all__ = [
    "CONTEXT",
    "BadInput",
    "HardwareRow",
    "Infeasible",
    "Lengths",
    "ModelRow",
    "Plan",
    "Question",
    "hardware_names",
    "hardware_row",
    "lognormal",
    "model_names",
    "model_row",
    "parse",
    "plan",
    "polish",
]
