import { makeTokenBucket } from "@muster/controller";
import { makeRecentMap } from "./recent-map.ts";

export type EventTarget = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** Absent for cluster-scoped objects; their events are kept in `default`. */
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Path inside the object: `spec.containers{main}`. */
  readonly fieldPath?: string;
};

export type RecordedEvent = {
  readonly type: "Normal" | "Warning";
  /** Machine-readable reason: `FailedCreatePod`. */
  readonly reason: string;
  /** Text for operators; truncated to 1024 characters. */
  readonly message: string;
};

export type EventLimits = {
  /** Maximum different messages of one reason about one object with separate events. Further messages share one event, which carries the last message. */
  readonly maxSimilar: number;
  /** The count of similar messages restarts after this time without one. */
  readonly similarMs: number;
  /** Events about one object that are written without delay, and the rate after that. */
  readonly burst: number;
  readonly perSecond: number;
  /** Maximum remembered events, groups and objects, each; the least recently used are forgotten. */
  readonly maxRemembered: number;
};

/** The limits of client-go. */
export const DEFAULT_EVENT_LIMITS: EventLimits = {
  maxSimilar: 10,
  similarMs: 10 * 60_000,
  burst: 25,
  perSecond: 1 / 300,
  maxRemembered: 4096,
};

/** One event in the form of the API. */
export type Occurrence = {
  readonly key: string;
  readonly target: EventTarget;
  readonly type: RecordedEvent["type"];
  readonly reason: string;
  message: string;
  /** Also counts occurrences that the rate limit kept from being written. */
  count: number;
  readonly firstMs: number;
  lastMs: number;
};

const MAX_MESSAGE_LENGTH = 1024;
const COMBINED = "(combined from similar events): ";

/**
 * Decides which event of the API an occurrence belongs to. Counts equal events, and combines many that differ only in their message. Withholds events of an
 * object that exceeds its rate limit. Remembers a limited number of events, groups and objects.
 */
export function makeEventCorrelation(
  limits: EventLimits,
  now: () => number,
): {
  /** `write` is false when the object has exceeded its rate limit. */
  observe(target: EventTarget, event: RecordedEvent, wallMs: number): { occurrence: Occurrence; write: boolean };
  get(key: string): Occurrence | undefined;
} {
  const occurrences = makeRecentMap<Occurrence>(limits.maxRemembered);
  const groups = makeRecentMap<{ messages: Set<string>; lastMs: number }>(limits.maxRemembered);
  const buckets = makeRecentMap<ReturnType<typeof makeTokenBucket>>(limits.maxRemembered);

  function isOverSimilarLimit(group: string, message: string): boolean {
    const nowMs = now();
    const known = groups.getOr(group, () => ({ messages: new Set(), lastMs: nowMs }));
    if (nowMs - known.lastMs > limits.similarMs) known.messages.clear();
    known.lastMs = nowMs;
    if (known.messages.has(message)) return false;
    if (known.messages.size >= limits.maxSimilar) return true;
    known.messages.add(message);
    return false;
  }

  return {
    observe: (target, { type, reason, message }, wallMs) => {
      const object = buildTargetKey(target);
      const group = JSON.stringify([object, type, reason]);
      const combined = isOverSimilarLimit(group, message);
      const key = combined ? group : JSON.stringify([group, message]);
      const text = (combined ? COMBINED + message : message).slice(0, MAX_MESSAGE_LENGTH);
      const occurrence = occurrences.getOr(key, () => {
        return { key, target, type, reason, message: text, count: 0, firstMs: wallMs, lastMs: wallMs };
      });
      occurrence.count += 1;
      occurrence.lastMs = wallMs;
      occurrence.message = text;
      const bucket = buckets.getOr(object, () => makeTokenBucket(limits, now));
      return { occurrence, write: bucket.tryTake() };
    },
    get: (key) => occurrences.get(key),
  };
}

function buildTargetKey({ apiVersion, kind, namespace, name, uid, fieldPath }: EventTarget): string {
  return JSON.stringify([apiVersion, kind, namespace, name, uid, fieldPath]);
}
