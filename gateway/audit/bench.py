"""Measures a real log on a real disk: records of usual size, a fixed number in flight."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from gateway.audit.writer import AuditLog
from gateway.domain.chat import Pin
from gateway.domain.limits import Usage
from gateway.domain.record import (
    Actor,
    ClassifierFact,
    LimitFact,
    Phase,
    PolicyFact,
    RequestRecord,
    ResultFact,
    RouteFact,
)
from gateway.domain.stream import FilterAction


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Figures of one run. CPU is that of the whole process: load, encoding, tree, disk and signatures."""

    record_count: int
    in_flight: int
    records_per_second: int
    p50_ms: float
    p99_ms: float
    cpu_us_per_record: float


def sample_record(phase: Phase, request_id: str) -> RequestRecord:
    """A record with every part filled in, about 2 KB when stored."""
    is_intent = phase is Phase.ADMITTED
    return RequestRecord(
        phase=phase,
        request_id=request_id,
        reason_code="ok",
        endpoint="chat.completions",
        client_request_ref="c" * 32,
        actor=Actor("acme", "5" * 64, "7" * 64, "https://issuer.example", "claims-app", "k1", ("clerk",)),
        policy=PolicyFact("routing", "7", "d" * 64, ("restricted-stays", "default-deny")),
        classifier=ClassifierFact(
            ("identifiers@1", "secrets@1"), "restricted", ("pii", "fin"), ("iban",), 1, (("scanned", 3),)
        ),
        route=RouteFact(
            "assistant",
            ("private-moe",),
            None if is_intent else "private-moe",
            None if is_intent else "reference-moe",
            False,
            "eu-central",
            "restricted",
            1,
        ),
        pins=(Pin("claims-summary", "1.2.0", "e" * 64),),
        limits=LimitFact(400, None if is_intent else 333),
        filters=() if is_intent else (FilterAction("identifiers@1", "mask", "iban", 1),),
        request_hmac="f" * 64,
        response_hmac=None if is_intent else "0" * 64,
        result=None
        if is_intent
        else ResultFact(
            200, ("stop",), Usage(100, 50), (("queue", 12), ("classify", 55), ("total", 90_000)), 1234
        ),
    )


async def measure(log: AuditLog, record_count: int, in_flight: int) -> BenchResult:
    """Load a started log with pairs of intent and outcome."""
    pairs = max(1, record_count // in_flight // 2)
    latencies: list[float] = []

    async def one_client(client: int) -> None:
        for number in range(pairs):
            request_id = f"req_{client:05d}_{number:08d}"
            for phase in (Phase.ADMITTED, Phase.COMPLETED):
                record = sample_record(phase, request_id)
                begun = time.perf_counter()
                await log.record(record)
                latencies.append(time.perf_counter() - begun)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one_client(client) for client in range(in_flight)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    latencies.sort()
    count = len(latencies)
    return BenchResult(
        record_count=count,
        in_flight=in_flight,
        records_per_second=round(count / wall),
        p50_ms=round(latencies[count // 2] * 1000, 3),
        p99_ms=round(latencies[int(count * 0.99)] * 1000, 3),
        cpu_us_per_record=round(cpu / count * 1e6, 1),
    )
