import { farmCalls } from "../adapters/farm-calls.ts";
import type { ReplicaSet } from "../adapters/farm-messages.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { describeCounts, describeSetState } from "../domain/build-set-views.ts";
import { plain } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { decideSetWait } from "../domain/decide-set-wait.ts";
import { describeTimeout } from "../domain/decide-wait.ts";
import { phaseOfSet, SET_NOUN } from "../domain/replica-set.ts";
import { followGoal } from "./follow.ts";

const SETS = {
  decide: decideSetWait,
  next: ({ link }: Connected, { name }: ReplicaSet) => farmCalls(link).get(name),
};
export const READY = { kind: "condition", type: "Ready", isTrue: true } as const;

export function setTimedOut(set: ReplicaSet, what: string, timeoutMs: number): CommandError {
  return new CommandError(EXIT.failed, describeTimeout(timeoutMs, what, describeSetState(set)), {
    hint: `\`muster explain ${SET_NOUN}/${set.name}\` says why`,
  });
}

/** Waits until the set has all replicas, and they are ready. Throws CommandError when that takes too long. */
export async function followSet(
  cli: Cli,
  connected: Connected,
  start: ReplicaSet,
  timeoutMs: number | undefined,
): Promise<ExitCode> {
  const target = `${SET_NOUN}/${start.name}`;
  const { last, verdict } = await followGoal(cli, connected, SETS, start, {
    ...{ goal: READY, timeoutMs },
    line: (set) => {
      const trouble = set.trouble === undefined ? "" : ` (${plain(set.trouble.message)})`;
      return `${target} ${phaseOfSet(set)}: ${describeCounts(set)}${trouble}`;
    },
    left: () => `${SET_NOUN} ${start.name} continues; \`muster explain ${target}\` says how far it is`,
  });
  if (verdict === "interrupted") return EXIT.interrupted;
  if (verdict === "open") throw setTimedOut(last, "all replicas to be ready", timeoutMs ?? 0);
  if (verdict !== "met" || last.deletion !== undefined)
    throw new CommandError(EXIT.failed, `${SET_NOUN} ${start.name} was deleted before its replicas were ready`);
  return EXIT.ok;
}
