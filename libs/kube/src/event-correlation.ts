import { tokenBucket } from "@muster/controller";
import { recentMap } from "./recent-map.ts";

/** The subject of an event. */
export type EventTarget = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** Absent for cluster-scoped objects; their events are kept in `default`. */
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** `spec.containers{main}` */
  readonly fieldPath?: string;
};

export type RecordedEvent = {
  readonly type: "Normal" | "Warning";
  /** For programs: `FailedCreatePod`. */
  readonly reason: string;
  /** For people; truncated to 1024 characters. */
  readonly message: string;
};

export type EventLimits = {
  /** Different messages of one reason about one object that have events of their own. Further ones share one event, which carries the last message. */
  readonly maxSimilar: number;
  /** The count of similar messages restarts after this time without one. */
  readonly similarMs: number;
  /** Events about one object that are written without delay, and the rate after that. */
  readonly burst: number;
  readonly perSecond: number;
  /** Events, groups and objects that are remembered, each; the least recently used are forgotten. */
  readonly maxRemembered: number;
};

/** client-go's. */
export const DEFAULT_EVENT_LIMITS: EventLimits = {
  maxSimilar: 10,
  similarMs: 10 * 60_000,
  burst: 25,
  perSecond: 1 / 300,
  maxRemembered: 4096,
};

/** One event as the API should show it. */
export type Occurrence = {
  readonly key: string;
  readonly target: EventTarget;
  readonly type: RecordedEvent["type"];
  readonly reason: string;
  message: string;
  /** Counts also the occurrences that the rate limit kept from being written. */
  count: number;
  readonly firstMs: number;
  lastMs: number;
};

const MAX_MESSAGE_LENGTH = 1024;
const COMBINED = "(combined from similar events): ";

/**
 * Decides for each event which event in the API it belongs to. Equal events are counted, and many that differ only in their message are combined. An object
 * with too many events has none written for a while. Remembers a limited number of them.
 */
export function eventCorrelation(
  limits: EventLimits,
  now: () => number,
): {
  /** `write` is false when the object has exceeded its rate limit. */
  observe(target: EventTarget, event: RecordedEvent, wallMs: number): { occurrence: Occurrence; write: boolean };
  get(key: string): Occurrence | undefined;
} {
  const occurrences = recentMap<Occurrence>(limits.maxRemembered);
  const groups = recentMap<{ messages: Set<string>; lastMs: number }>(limits.maxRemembered);
  const buckets = recentMap<ReturnType<typeof tokenBucket>>(limits.maxRemembered);

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
      const object = keyOf(target);
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
      const bucket = buckets.getOr(object, () => tokenBucket(limits, now));
      return { occurrence, write: bucket.tryTake() };
    },
    get: (key) => occurrences.get(key),
  };
}

function keyOf({ apiVersion, kind, namespace, name, uid, fieldPath }: EventTarget): string {
  return JSON.stringify([apiVersion, kind, namespace, name, uid, fieldPath]);
}
