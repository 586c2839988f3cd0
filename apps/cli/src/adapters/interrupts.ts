import type { Interrupts } from "../cli.ts";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
type Signal = (typeof SIGNALS)[number];

/**
 * The signals that ask this process to end. Until a command looks at the interrupts, nobody would heed them, as while a key is read from a pipe that nobody writes to: so long
 * they end the process at once, as those of any process do.
 *
 * A parent with a channel (`npm start`) may deliver the same signal twice: the terminal sends it to the whole group, and the parent passes it on by a message. So of
 * each signal the larger count is the true one.
 */
export function listenForInterrupts(): Interrupts {
  const first = new AbortController();
  const second = new AbortController();
  const counts = new Map(SIGNALS.map((signal) => [signal, { heard: 0, passedOn: 0 }]));
  const count = (signal: Signal, how: "heard" | "passedOn"): void => {
    const entry = counts.get(signal);
    if (entry === undefined) return;
    entry[how] += 1;
    const asked = [...counts.values()].reduce((sum, { heard, passedOn }) => sum + Math.max(heard, passedOn), 0);
    if (asked >= 1) first.abort();
    if (asked >= 2) second.abort();
  };
  let isHeeded = false;
  const heed = (): void => {
    if (isHeeded) return;
    isHeeded = true;
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        count(signal, "heard");
      });
    }
  };
  if (process.channel !== undefined) {
    process.on("message", (message) => {
      const signal = SIGNALS.find((each) => each === message);
      if (signal === undefined) return;
      if (isHeeded) count(signal, "passedOn");
      else process.kill(process.pid, signal);
    });
    // Whoever started us with a channel and is gone takes us along.
    process.once("disconnect", () => {
      if (!isHeeded) process.kill(process.pid, "SIGTERM");
      first.abort();
      second.abort();
    });
    process.channel.unref();
  }
  return {
    get first() {
      heed();
      return first.signal;
    },
    get second() {
      heed();
      return second.signal;
    },
  };
}
