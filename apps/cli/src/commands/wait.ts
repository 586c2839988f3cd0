import { unlessMissing } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { plain } from "../domain/build-table.ts";
import { buildWorkRecord } from "../domain/build-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import {
  checkWish,
  decideWait,
  describeUnmet,
  describeWork,
  type WaitVerdict,
  type Wish,
} from "../domain/decide-wait.ts";
import type { Work } from "../domain/work.ts";
import { lookUntil, type Look } from "./look-until.ts";
import { print, type Format } from "./output.ts";
import { oneOf, shortTarget } from "./target.ts";

export type WaitOptions = { readonly wish: Wish; readonly timeoutMs: number; readonly output: Format };

/** What `wait` needs to know of one kind of object. */
export type Waited<Seen extends object> = {
  readonly noun: string;
  readonly conditions: readonly string[];
  readonly nameOf: (start: Seen | undefined) => string;
  /** Undefined where a deletion that is waited for is over. Rejects with CommandError where the object is missing otherwise. */
  readonly find: (connected: Connected, wish: Wish) => Promise<Seen | undefined>;
  readonly look: (connected: Connected, start: Seen) => Look<Seen>;
  /** Whether the object is another one of the same name. Absent: names are never used again. */
  readonly isAnother?: (seen: Seen, start: Seen) => boolean;
  readonly decide: (seen: Seen, wish: Wish) => WaitVerdict;
  /** Whether the deletion meets the wish. Absent: only where the wish is the deletion. */
  readonly isMetByDeletion?: (connected: Connected, start: Seen, last: Seen, wish: Wish) => Promise<boolean>;
  readonly record: (seen: Seen) => unknown;
  /** What standard error shows of a wish that is met in an unexpected way. */
  readonly note?: (last: Seen) => readonly string[];
  /** A sentence. */
  readonly describe: (seen: Seen) => string;
  /** The argument of `muster explain`. */
  readonly explained: (seen: Seen) => string;
};

/** Waits until the object is as wished, can no longer become so, or the time is over. */
export async function waitFor<Seen extends object>(
  cli: Cli,
  waited: Waited<Seen>,
  { wish, timeoutMs, output }: WaitOptions,
): Promise<ExitCode> {
  const wrong = checkWish(wish, waited);
  if (wrong !== undefined) throw new CommandError(EXIT.usage, wrong.message, { hint: wrong.hint });
  await using connected = await cli.connect();
  const start: Seen | undefined = await waited.find(connected, wish);
  const met = [`${waited.noun}/${waited.nameOf(start)} condition met`];
  if (start === undefined) {
    // No object is left for the other formats to show.
    if (output === "table") cli.io.out(met);
    return EXIT.ok;
  }
  let last = start;
  const verdictOf = (seen: Seen): WaitVerdict | "deleted" => {
    if (waited.isAnother?.(seen, start) === true) return "deleted";
    last = seen;
    return waited.decide(seen, wish);
  };
  const isEnough = (seen: Seen): boolean => verdictOf(seen) !== "open";
  const watched = await lookUntil<Seen>(cli, connected, {
    start,
    ...waited.look(connected, start),
    isEnough,
    timeoutMs,
  });
  if (watched.end === "interrupted") return EXIT.interrupted;
  let verdict = watched.end === "gone" ? "deleted" : verdictOf(watched.last);
  if (verdict === "deleted") {
    const isMet = waited.isMetByDeletion?.(connected, start, last, wish) ?? wish.for === "delete";
    if (await isMet) verdict = "met";
  }
  if (verdict === "met" && waited.note !== undefined) cli.io.err(waited.note(last));
  if (verdict === "met" || output !== "table")
    print(cli.io, output, { table: () => met, data: () => waited.record(last) });
  if (verdict === "met") return EXIT.ok;
  const about = { named: `${waited.noun} ${waited.nameOf(start)}`, state: waited.describe(last) };
  throw new CommandError(EXIT.failed, plain(describeUnmet(about, wish, verdict, timeoutMs)), {
    ...(verdict !== "deleted" && { hint: `\`muster explain ${waited.explained(last)}\` says why` }),
  });
}

/** Where a deletion is waited for, undefined of an object that is missing. */
export function findUnlessDeleted<Seen>(wish: Wish, found: Promise<Seen>): Promise<Seen | undefined> {
  return wish.for === "delete" ? unlessMissing(found) : found;
}

/** `muster wait NAME --for WISH` of a session or a job. */
export function waitForWork(cli: Cli, text: string, options: WaitOptions): Promise<ExitCode> {
  const { kind, name } = oneOf(cli, text);
  const waited: Waited<Work> = {
    noun: kind.noun,
    conditions: kind.conditions,
    nameOf: () => name,
    find: ({ link }, wish) => findUnlessDeleted(wish, kind.calls(link).get(name)),
    look: ({ link }) => ({ look: kind.calls(link).after, isLongPoll: true }),
    isAnother: ({ uid }, start) => uid !== start.uid,
    decide: decideWait,
    record: buildWorkRecord,
    describe: describeWork,
    explained: (work) => shortTarget(cli, work),
  };
  return waitFor(cli, waited, options);
}
