import { faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { keepContact } from "./keep-contact.ts";

/** Some of it changes without its record: it is asked for this often. */
const LOOK_EVERY_MS = 1000;

/** How a look ended: enough was seen, it does not exist (any more), its time is over, or somebody has had enough. */
export type Watched<Seen> = { readonly last: Seen; readonly end: "enough" | "gone" | "timeout" | "interrupted" };

/** Looks at something again and again until that is enough. */
export async function lookUntil<Seen>(
  cli: Cli,
  connected: Connected,
  {
    start,
    look,
    isEnough,
    timeoutMs,
  }: {
    readonly start: Seen;
    readonly look: () => Promise<Seen>;
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
      await cli.pause(LOOK_EVERY_MS, stop);
      const seen = stop.aborted ? undefined : await contact.ask("look", look, stop);
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
