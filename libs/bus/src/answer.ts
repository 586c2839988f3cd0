import { faultOf } from "@muster/faults";
import type { Endpoint, Message, Reply } from "./bus.ts";
import { replyOfFault } from "./wire-headers.ts";

/** When to ask an endpoint again that has all hands full. */
export const BUSY_RETRY_MS = 100;

/** The answers of one endpoint, and what they cost; the numbers only grow. */
export type Answering = {
  /** Never rejects: a fault of the handler is a reply, anything else is answered as internal. */
  readonly answer: (message: Message) => Promise<Reply>;
  readonly counts: { requests: number; faults: number; refused: number; processingMs: number };
};

/** Bounds an endpoint: beyond its concurrency a request is refused at once, never queued. */
export function answering(endpoint: Endpoint): Answering {
  const counts = { requests: 0, faults: 0, refused: 0, processingMs: 0 };
  let inHand = 0;
  const answer = async (message: Message): Promise<Reply> => {
    counts.requests += 1;
    if (inHand >= endpoint.concurrency) {
      counts.refused += 1;
      return busy(endpoint.name, endpoint.concurrency);
    }
    inHand += 1;
    const startMs = performance.now();
    try {
      return await endpoint.handler(message);
    } catch (error) {
      counts.faults += 1;
      return replyOfFault(faultOf(error) ?? { code: "internal", operation: endpoint.name });
    } finally {
      inHand -= 1;
      counts.processingMs += performance.now() - startMs;
    }
  };
  return { answer, counts };
}

export function busy(endpoint: string, limit: number): Reply {
  return replyOfFault({
    code: "limit_exceeded",
    what: `number of requests in hand of ${endpoint}`,
    limit,
    retryAfterMs: BUSY_RETRY_MS,
  });
}
