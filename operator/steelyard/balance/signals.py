"""The names of the measurement contract that the balance reads: the only place of the operator that spells them."""

from __future__ import annotations

STAGE_SECONDS = "steelyard_stage_seconds_total"
STAGE_SLOTS = "steelyard_stage_slots"
STAGE_INFLIGHT = "steelyard_stage_inflight"
STAGE_UNITS = "steelyard_stage_units_total"
BUFFER_DEPTH = "steelyard_buffer_depth"
STEP_COUNT = "steelyard_train_step_seconds_count"
REWARD_SUM = "steelyard_reward_sum"
REWARD_COUNT = "steelyard_reward_count"
POLICY_VERSION = "steelyard_policy_version"
TOKENS_GENERATED = "vllm:generation_tokens_total"
REQUESTS_RUNNING = "vllm:num_requests_running"
REQUESTS_WAITING = "vllm:num_requests_waiting"
TOKEN_LATENCY_SUM = "vllm:inter_token_latency_seconds_sum"  # noqa: S105 - tokens of a language model, no secret
TOKEN_LATENCY_COUNT = "vllm:inter_token_latency_seconds_count"  # noqa: S105 - likewise
KV_USAGE = "vllm:kv_cache_usage_perc"

REQUIRED: tuple[str, ...] = (
    STAGE_SECONDS,
    STAGE_SLOTS,
    STAGE_INFLIGHT,
    STAGE_UNITS,
    BUFFER_DEPTH,
    STEP_COUNT,
    REWARD_SUM,
    REWARD_COUNT,
    POLICY_VERSION,
    TOKENS_GENERATED,
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
    TOKEN_LATENCY_SUM,
    TOKEN_LATENCY_COUNT,
    KV_USAGE,
)
"""What a decision rests on: a source that cannot answer for one of them answers for nothing."""

IO_WAITING = "container_pressure_io_waiting_seconds_total"
IO_STALLED = "container_pressure_io_stalled_seconds_total"
CPU_WAITING = "container_pressure_cpu_waiting_seconds_total"
MEMORY_WAITING = "container_pressure_memory_waiting_seconds_total"
CLAIM_USED = "kubelet_volume_stats_used_bytes"
CLAIM_CAPACITY = "kubelet_volume_stats_capacity_bytes"
DEVICE_USED = "DCGM_FI_DEV_FB_USED"
DEVICE_FREE = "DCGM_FI_DEV_FB_FREE"
TRAJECTORY_TOKENS = "steelyard_trajectory_tokens_bucket"

PRESSURE: tuple[str, ...] = (IO_WAITING, IO_STALLED, CPU_WAITING, MEMORY_WAITING)
CLAIMS: tuple[str, ...] = (CLAIM_USED, CLAIM_CAPACITY)
DEVICES: tuple[str, ...] = (DEVICE_USED, DEVICE_FREE)
OPTIONAL: tuple[str, ...] = (*PRESSURE, *CLAIMS, *DEVICES, TRAJECTORY_TOKENS)
"""What only a diagnosis uses: absent is unknown, and no decision waits for it."""

ALL: tuple[str, ...] = (*REQUIRED, *OPTIONAL)

TOOL_SECONDS = "steelyard_tool_seconds"
SERVICE_SECONDS = "steelyard_stage_service_seconds"
BUFFER_WAIT_SECONDS = "steelyard_buffer_wait_seconds"
STEP_SECONDS = "steelyard_train_step_seconds"
STEP_INTERVAL_SECONDS = "steelyard_train_step_interval_seconds"
STALENESS = "steelyard_staleness"
BUFFER_CAPACITY = "steelyard_buffer_capacity"
"""What only pages about the past read; the first six are histograms."""
