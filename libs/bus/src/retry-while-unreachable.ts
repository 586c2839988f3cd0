import { FaultError } from "@muster/faults";
import { computeBackoffMs, pause } from "@muster/backoff";
import { toNatsError, toNatsFault } from "./nats-fault.ts";
import type { NatsLink } from "./nats-link.ts";

/** Time limit of one publish or configuration change, reconnects and retries included. */
const PATIENCE_MS = 5000;
const RETRY = { firstMs: 50, maxMs: 500 };

/** Retries while the server is unreachable or times out; the work must be idempotent. */
export async function retryWhileUnreachable<Result>(
  link: NatsLink,
  operation: string,
  work: () => Promise<Result>,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  const endMs = performance.now() + patienceMs;
  for (let attempt = 1; ; attempt += 1) {
    let cause: unknown;
    if (await link.whenUp(endMs - performance.now())) {
      try {
        return await work();
      } catch (error) {
        const fault = toNatsFault(error, { operation });
        if (fault.code !== "unavailable" && fault.code !== "deadline_exceeded") throw toNatsError(error, { operation });
        cause = error;
      }
    } else if (link.connection.isClosed()) {
      throw new FaultError({ code: "cancelled", operation });
    }
    const waitMs = computeBackoffMs(attempt, RETRY);
    if (performance.now() + waitMs >= endMs)
      throw new FaultError(
        { code: "unavailable", dependency: "nats", retryAfterMs: RETRY.maxMs },
        { cause, doing: operation },
      );
    await pause(waitMs);
  }
}
