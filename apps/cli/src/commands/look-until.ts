import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { keepContact } from "./keep-contact.ts";

/** Some of it changes without its record: it is asked for this often. */
const LOOK_EVERY_MS = 1000;

/** How a look ended: enough was seen, it does not exist (any more), its time is over, or somebody has had enough. */
export type Watched<Seen> = { readonly last: Seen; readonly end: "enough" | "gone" | "timeout" | "interrupted" };

/** How the next state is read; a long poll answers once the state differs from the one seen, so it needs no pause. */
export type Look<Seen> = {
  readonly look: (seen: Seen, stop: AbortSignal) => Promise<Seen>;
  readonly isLongPoll?: boolean;
};

/** Reads the state of an object until it is enough. */
export async function lookUntil<Seen>(
  cli: Cli,
  connected: Connected,
  {
    start,
    look,
    isLongPoll = false,
    isEnough,
    timeoutMs,
  }: Look<Seen> & {
    readonly start: Seen;
    readonly isEnough: (seen: Seen) => boolean;
    readonly timeoutMs: number | undefined;
  },
): Promise<Watched<Seen>> {
  const timeout = new AbortController();
  const over = new AbortController();
  if (timeoutMs !== undefined) void cli.pause(timeoutMs, over.signal).then(() => timeout.abort());
  const stop = AbortSignal.any([cli.interrupts.first, timeout.signal]);
  using contact = keepContact(cli, connected);
  let last = start;
  try {
    while (!isEnough(last)) {
      const before = last;
      if (!isLongPoll) await cli.pause(LOOK_EVERY_MS, stop);
      const seen = stop.aborted ? undefined : await contact.ask("look", () => look(before, stop), stop);
      if (seen === undefined) return { last, end: cli.interrupts.first.aborted ? "interrupted" : "timeout" };
      last = seen;
    }
    return { last, end: "enough" };
  } catch (error) {
    if (faultOf(error)?.code === "not_found") return { last, end: "gone" };
    throw error;
  } finally {
    over.abort();
  }
}
