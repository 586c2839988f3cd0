import type { ListenOptions, Message } from "./bus.ts";
import { WorkInFlight } from "./work-in-flight.ts";

/** Default limit of signals that wait for one listener. */
const DEFAULT_MAX_PENDING = 1000;

type Listening = {
  /** Queues the message for the handler. */
  readonly take: (message: Message) => void;
  /** Resolves once no message waits or is in the handler. */
  readonly idle: () => Promise<void>;
};

/** A listener that is too slow for its subject. */
export type SlowListener = {
  readonly subject: string;
  readonly maxPending: number;
  /** Signals lost since the listener fell behind; 1 in the first report. */
  readonly dropped: number;
};

/**
 * Passes messages to one handler in order, each after the previous one is finished. Drops new messages beyond the limit of waiting ones. Reports a loss when it
 * begins, and the total once the listener has caught up.
 */
export function openListener(
  subject: string,
  handler: (message: Message) => unknown,
  options: ListenOptions,
  onSlow: (slow: SlowListener) => void,
): Listening {
  const { maxPending = DEFAULT_MAX_PENDING } = options;
  const inFlight = new WorkInFlight();
  const waiting: Message[] = [];
  let dropped = 0;
  const drain = async (first: Promise<unknown>): Promise<void> => {
    await first;
    for (let message = waiting.shift(); message !== undefined; message = waiting.shift()) await handler(message);
    if (dropped > 1) onSlow({ subject, maxPending, dropped });
    dropped = 0;
  };
  return {
    take: (message) => {
      if (inFlight.count === 0) {
        const done = handler(message);
        if (done instanceof Promise) void inFlight.run(() => drain(done));
      } else if (waiting.length < maxPending) {
        waiting.push(message);
      } else {
        dropped += 1;
        if (dropped === 1) onSlow({ subject, maxPending, dropped });
      }
    },
    idle: () => inFlight.idle(),
  };
}

/** Describes the problem and its remedy for an operator. */
export function describeSlowListener({ subject, maxPending, dropped }: SlowListener): string {
  const what = `${maxPending} signals of ${subject} wait for their handler; ${dropped} dropped`;
  return `${what}; it has to do less for each, or allow for more to wait`;
}
