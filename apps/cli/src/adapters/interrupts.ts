import type { Interrupts } from "../cli.ts";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
type Signal = (typeof SIGNALS)[number];

/**
 * The signals that ask this process to end. Until a command reads the interrupts, a signal ends the process immediately, as without a handler: a command may
 * wait for input that never comes.
 *
 * A parent with a channel (`npm start`) may deliver a signal twice: the terminal sends it to the whole group, and the parent forwards it as a message. So
 * the larger of the two counts is the true one.
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
  let isHandled = false;
  const handle = (): void => {
    if (isHandled) return;
    isHandled = true;
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
      if (isHandled) count(signal, "passedOn");
      else process.kill(process.pid, signal);
    });
    // The process ends with the parent that opened the channel.
    process.once("disconnect", () => {
      if (!isHandled) process.kill(process.pid, "SIGTERM");
      first.abort();
      second.abort();
    });
    process.channel.unref();
  }
  return {
    get first() {
      handle();
      return first.signal;
    },
    get second() {
      handle();
      return second.signal;
    },
  };
}
