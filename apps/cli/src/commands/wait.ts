import { unlessMissing } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { plain } from "../domain/build-table.ts";
import { buildWorkRecord } from "../domain/build-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { checkWish, decideWait, describeUnmet, type WaitVerdict, type Wish } from "../domain/decide-wait.ts";
import type { Work } from "../domain/work.ts";
import type { WorkCalls } from "../kinds/kind.ts";
import { follow } from "./follow.ts";
import { keepContact } from "./keep-contact.ts";
import { print, type Format } from "./output.ts";
import { oneOf, shortTarget } from "./target.ts";

export type WaitOptions = { readonly wish: Wish; readonly timeoutMs: number; readonly output: Format };

/** `muster wait NAME --for WISH`: until the work is as wished, can no longer become so, or the time is over. */
export async function wait(cli: Cli, text: string, options: WaitOptions): Promise<ExitCode> {
  const { wish, timeoutMs, output } = options;
  const { kind, name } = oneOf(cli, text);
  const wrong = checkWish(wish, kind);
  if (wrong !== undefined) throw new CommandError(EXIT.usage, wrong.message, { hint: wrong.hint });
  const met = [`${kind.noun}/${name} condition met`];
  await using connected = await cli.connect();
  const calls = kind.calls(connected.link);
  const start = wish.for === "delete" ? await unlessMissing(calls.get(name)) : await calls.get(name);
  if (start === undefined) {
    // Of what is gone already there is nothing that another form could show.
    if (output === "table") cli.io.out(met);
    return EXIT.ok;
  }
  const { work, end } = await watch({ cli, connected, calls, start }, options);
  if (end === "open" && cli.interrupts.first.aborted) return EXIT.interrupted;
  const isMet = end === (wish.for === "delete" ? "deleted" : "met");
  if (isMet || output !== "table") print(cli.io, output, { table: () => met, data: () => buildWorkRecord(work) });
  if (isMet) return EXIT.ok;
  throw new CommandError(EXIT.failed, plain(describeUnmet(work, wish, end, timeoutMs)), {
    ...(end !== "deleted" && { hint: `\`muster explain ${shortTarget(cli, work)}\` says why` }),
  });
}

type Watched = {
  readonly cli: Cli;
  readonly connected: Connected;
  readonly calls: WorkCalls;
  readonly start: Work;
};

/** How it was last seen, and what that means. Another one of the same name is none of this wait's business: this one was deleted. */
async function watch(
  { cli, connected, calls, start }: Watched,
  { wish, timeoutMs }: WaitOptions,
): Promise<{ readonly work: Work; readonly end: WaitVerdict | "deleted" }> {
  let work = start;
  const isAnother = ({ uid }: Work): boolean => uid !== start.uid;
  const changed = (now: Work): void => {
    if (!isAnother(now)) work = now;
  };
  const isEnough = (now: Work): boolean => isAnother(now) || decideWait(now, wish) !== "open";
  const timeout = new AbortController();
  const enough = new AbortController();
  void cli.pause(timeoutMs, enough.signal).then(() => timeout.abort());
  using contact = keepContact(cli, connected);
  const stop = AbortSignal.any([cli.interrupts.first, timeout.signal]);
  try {
    const last = await unlessMissing(follow({ calls, contact, changed, isEnough }, start, stop));
    const deleted = last === undefined || isAnother(last);
    return { work, end: deleted ? "deleted" : decideWait(work, wish) };
  } finally {
    enough.abort();
  }
}
