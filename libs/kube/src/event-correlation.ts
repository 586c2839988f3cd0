import { tokenBucket } from "@muster/controller";
import { recentMap } from "./recent-map.ts";

/** What an event is about. */
export type EventTarget = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** Absent for what has none; its events are kept in `default`. */
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** `spec.containers{main}` */
  readonly fieldPath?: string;
};

export type RecordedEvent = {
  readonly type: "Normal" | "Warning";
  /** For machines: `FailedCreatePod`. */
  readonly reason: string;
  /** For people; cut after 1024 characters. */
  readonly message: string;
};

export type EventLimits = {
  /** So many different messages of one reason about one object stand for themselves; further ones become one event, whose message is the last one's. */
  readonly similarMax: number;
  /** That begins anew when nothing similar came for so long. */
  readonly similarMs: number;
  /** Events about one object that are written at once, and how many more a second. */
  readonly burst: number;
  readonly perSecond: number;
  /** Events, groups and objects that are remembered, each; the ones that were not heard of for the longest are forgotten. */
  readonly remembered: number;
};

/** client-go's. */
export const DEFAULT_EVENT_LIMITS: EventLimits = {
  similarMax: 10,
  similarMs: 10 * 60_000,
  burst: 25,
  perSecond: 1 / 300,
  remembered: 4096,
};

/** One event as it is to be in the API, and how it got there. */
export type Occurrence = {
  readonly key: string;
  readonly target: EventTarget;
  readonly type: RecordedEvent["type"];
  readonly reason: string;
  message: string;
  /** Counts also those that were not written for being too many. */
  count: number;
  readonly firstMs: number;
  lastMs: number;
};

const MESSAGE_MAX = 1024;
const COMBINED = "(combined from similar events): ";

/**
 * Decides for each event which one in the API it belongs to: equal ones are counted, many that differ only in their message are combined, and an object about which there are too many
 * has none written for a while. Remembers a limited number of them.
 */
export function eventCorrelation(
  limits: EventLimits,
  now: () => number,
): {
  /** `write` is false when the object has had too many. */
  observe(target: EventTarget, event: RecordedEvent, wallMs: number): { occurrence: Occurrence; write: boolean };
  get(key: string): Occurrence | undefined;
} {
  const occurrences = recentMap<Occurrence>(limits.remembered);
  const groups = recentMap<{ messages: Set<string>; lastMs: number }>(limits.remembered);
  const buckets = recentMap<ReturnType<typeof tokenBucket>>(limits.remembered);

  function isOneTooMany(group: string, message: string): boolean {
    const nowMs = now();
    const known = groups.getOr(group, () => ({ messages: new Set(), lastMs: nowMs }));
    if (nowMs - known.lastMs > limits.similarMs) known.messages.clear();
    known.lastMs = nowMs;
    if (known.messages.has(message)) return false;
    if (known.messages.size >= limits.similarMax) return true;
    known.messages.add(message);
    return false;
  }

  return {
    observe: (target, { type, reason, message }, wallMs) => {
      const object = keyOf(target);
      const group = JSON.stringify([object, type, reason]);
      const combined = isOneTooMany(group, message);
      const key = combined ? group : JSON.stringify([group, message]);
      const text = (combined ? COMBINED + message : message).slice(0, MESSAGE_MAX);
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
