"""Libra's released planner on our inputs: `python -m benchmarks.planner.libra SOURCE GPUS REQUESTS`, one JSON line.

SOURCE is a checkout of NetX-lab/Libra. Nothing of it is changed or kept here: its own optimizer, cost model and
defaults run on the same lengths, with the hardware and model rows of its authors' A800 runs.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.planner.inputs import BATCH, CONTEXT, history

PACKAGE = "RL_Framework"
A800 = {
    "flops_peak": 3.12e14,
    "mem_bw": 2.0e12,
    "mem_capacity": 8.0e10,
    "bw_intra_node": 4.0e11,
    "bw_inter_node": 1.0e11,
    "gpus_per_node": 8,
    "tp_comm_overhead": 8e-6,
}
QWEN3_14B = {
    "num_params": 14.0e9,
    "d_model": 5120,
    "n_layers": 40,
    "n_heads": 40,
    "n_kv_heads": 8,
    "vocab_size": 151936,
    "intermediate_size": 17408,
}


def load(source: Path) -> tuple[ModuleType, ModuleType, ModuleType]:
    """Its config, cost model and optimizer, without what its package would import beside them."""
    for name, folder in ((PACKAGE, source), (f"{PACKAGE}.infra", source / "infra")):
        bare = ModuleType(name)
        bare.__path__ = [str(folder)]
        sys.modules[name] = bare
    planner = ModuleType(f"{PACKAGE}.infra.cost_model")
    planner.__path__ = [str(source / "infra" / "cost_model")]
    sys.modules[planner.__name__] = planner
    config, model, optimizer = (
        importlib.import_module(f"{PACKAGE}.{name}")
        for name in ("config", "infra.cost_model.model", "infra.cost_model.optimizer")
    )
    return config, model, optimizer


def run(source: Path, gpus: int, requests: int) -> dict[str, Any]:
    """One call of its optimizer."""
    config, model, optimizer = load(source)
    costs = model.CostModel(config.HardwareConfig(**A800), config.ModelArchConfig(**QWEN3_14B), max_seq_length=CONTEXT)
    lengths = history(requests)
    pairs = [
        model.RequestInfo(int(prompt), int(generated))
        for prompt, generated in zip(lengths.prompt, lengths.generated, strict=True)
    ]
    started, processor = time.perf_counter(), time.process_time()
    found = optimizer.TwoLevelNestedOptimizer(costs).optimize(
        gpus,
        pairs,
        B_global=BATCH,
        allowed_train_tp=[1, 2, 4, 8],
        allowed_train_pp=[1, 2, 4, 8],
        micro_batch_sizes=[1, 2, 4, 8],
    )
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    result: dict[str, Any] = {
        "gpus": gpus,
        "requests": requests,
        "seconds": round(seconds, 4),
        "processorSeconds": round(processor, 4),
        "plan": None,
    }
    if found.train_config and found.rollout_config:
        train, sizes = found.train_config, found.rollout_config.tp_list
        result["plan"] = {
            "train": {"tp": train.tp, "pp": train.pp, "dp": train.dp, "microBatch": train.b_micro},
            "samplers": {str(tp): sizes.count(tp) for tp in sorted(set(sizes))},
        }
    return result


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
