"""How the bus is laid out: the streams, their bounds, the consumers and the key-value bucket.

Every worker makes what is missing when it connects, so the bus needs no set-up step and heals after a lost volume. The
trainer alone gives existing streams the bounds that the job has now: the others may have read the job before a change.
"""

from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    KeyValueConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import BadRequestError
from nats.js.kv import KeyValue

from steelyard_workers.config import JobConfig
from steelyard_workers.messages import Hop

BUCKET = "steelyard"
DEAD = "DEAD"
SPANS = "SPANS"
ACK_WAIT_SECONDS = 30.0
DUPLICATE_WINDOW_SECONDS = 3600.0
MAX_DEAD_LETTERS = 65536
MAX_SPANS = 1_000_000
MAX_SPAN_BYTES = 128 * 2**20  # the server sets it aside, and twice over while the stream is updated
NAME_IN_USE = 10058


def capacities(job: JobConfig) -> dict[Hop, int]:
    """How many messages each buffer holds.

    Tasks has room for every trajectory that can be open after a resume (those of the steps that were lost are open
    again), and for one retry of each.
    """
    buffer = job.spec.buffer
    return {
        Hop.TASKS: 2 * (job.open_limit + job.spec.checkpoints.every_steps * job.batch),
        Hop.TRAJECTORIES: buffer.max_trajectories,
        Hop.EXPERIENCE: buffer.max_experience,
    }


def streams(job: JobConfig) -> list[StreamConfig]:
    """The configuration of every stream."""
    hops = [
        _queue(hop.stream, f"{hop.prefix}.{job.name}.>", capacity, RetentionPolicy.WORK_QUEUE)
        for hop, capacity in capacities(job).items()
    ]
    dead = _queue(DEAD, f"dead.*.{job.name}.>", MAX_DEAD_LETTERS, RetentionPolicy.LIMITS)
    spans = StreamConfig(
        name=SPANS,
        subjects=[f"spans.{job.name}.>"],
        storage=StorageType.FILE,
        num_replicas=1,
        retention=RetentionPolicy.LIMITS,
        discard=DiscardPolicy.OLD,
        max_age=float(job.spec.tracing.retention_seconds),
        max_msgs=MAX_SPANS,
        max_bytes=MAX_SPAN_BYTES,
    )
    return [*hops, dead, spans]


def _queue(name: str, subjects: str, capacity: int, retention: RetentionPolicy) -> StreamConfig:
    """A bounded stream that refuses what does not fit and holds each id once."""
    return StreamConfig(
        name=name,
        subjects=[subjects],
        storage=StorageType.FILE,
        num_replicas=1,
        retention=retention,
        discard=DiscardPolicy.NEW,
        max_msgs=capacity,
        max_msgs_per_subject=1,
        discard_new_per_subject=True,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
    )


async def ensure(js: JetStreamContext, job: JobConfig, *, set_bounds: bool) -> KeyValue:
    """Make streams, consumers and bucket where they are missing; `set_bounds` for existing streams too."""
    for config in streams(job):
        try:
            await js.add_stream(config)
        except BadRequestError as error:
            if error.err_code != NAME_IN_USE:
                raise
            if set_bounds:
                await js.update_stream(config)
    for hop in Hop:
        await js.add_consumer(
            hop.stream,
            ConsumerConfig(
                durable_name=hop.consumer,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=ACK_WAIT_SECONDS,
                max_deliver=-1,
                max_ack_pending=-1,  # the stream's own bound
            ),
        )
    return await js.create_key_value(KeyValueConfig(bucket=BUCKET))
