import type { Interrupts } from "../cli.ts";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/**
 * Listens for the signals that ask this process to end. One that was started by another Node (`bin/muster.mjs`) may hear of the same signal twice: from whoever
 * sent it to the whole group, and by a message from that Node, which passes on all that it hears. So of each signal the larger count is the true one.
 */
export function listenForInterrupts(): Interrupts {
  const first = new AbortController();
  const second = new AbortController();
  const counts = new Map(SIGNALS.map((signal) => [signal, { heard: 0, passedOn: 0 }]));
  const count = (name: unknown, how: "heard" | "passedOn"): void => {
    const signal = SIGNALS.find((each) => each === name);
    const entry = signal && counts.get(signal);
    if (entry === undefined) return;
    entry[how] += 1;
    const asked = [...counts.values()].reduce((sum, { heard, passedOn }) => sum + Math.max(heard, passedOn), 0);
    if (asked >= 1) first.abort();
    if (asked >= 2) second.abort();
  };
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      count(signal, "heard");
    });
  }
  if (process.channel !== undefined) {
    process.on("message", (message) => {
      count(message, "passedOn");
    });
    // Whoever started us with a channel and is gone takes us along.
    process.once("disconnect", () => {
      first.abort();
      second.abort();
    });
    process.channel.unref();
  }
  return { first: first.signal, second: second.signal };
}
