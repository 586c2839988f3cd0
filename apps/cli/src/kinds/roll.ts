import { unlessMissing } from "@muster/faults";
import { makeFarmCalls, type FarmCalls } from "../adapters/farm-calls.ts";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildRecord } from "../domain/build-record.ts";
import { buildRollLine, buildRollTable } from "../domain/build-set-views.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { decideRollEnd, decideRollWait, ROLL_CONDITIONS } from "../domain/decide-set-wait.ts";
import { SET_NOUN } from "../domain/replica-set.ts";
import type { RolloutRecord } from "../adapters/farm-messages.ts";
import { suggestName } from "../domain/suggest-name.ts";
import type { ResourceRow } from "./resource.ts";

const MIN_SUGGESTED_LENGTH = 3;

/** Rolling updates from one replica set to another. A finished one is deleted. */
export const ROLL: ResourceRow<RolloutRecord> = {
  noun: "roll",
  plural: "rolls",
  aliases: ["rollout", "rollouts"],
  none: "no rolling updates",
  get: findRoll,
  list: ({ link }) => makeFarmCalls(link).rolls(),
  nameOf: ({ id }) => id,
  table: (rolls, { nowMs, style }) => buildRollTable(rolls, nowMs, style),
  record: buildRecord,
  waiting: {
    conditions: ROLL_CONDITIONS,
    decide: decideRollWait,
    next: ({ link }, { id }) => makeFarmCalls(link).getRoll(id),
    isMetByDeletion: async ({ link }, { start, last }, goal) => {
      if (goal.kind === "delete") return true;
      if (goal.type.toLowerCase() !== "complete" || !goal.isTrue) return !goal.isTrue;
      return decideRollEnd(start, last, await unlessMissing(makeFarmCalls(link).get(last.newSet))) === "complete";
    },
    describe: buildRollLine,
    explained: ({ newSet }) => ({ kind: SET_NOUN, name: newSet }),
  },
};

/** Finds a roll by its own name, which is that of its new set, or by either of its sets. Rejects with CommandError if no such roll is open. */
export async function findRoll({ link }: Pick<ConnectedCli, "link">, name: string): Promise<RolloutRecord> {
  const farms = makeFarmCalls(link);
  const rolls = await farms.rolls();
  const found =
    rolls.find(({ id }) => id === name) ?? rolls.find(({ oldSet, newSet }) => oldSet === name || newSet === name);
  if (found !== undefined) return found;
  throw new CommandError(EXIT.refused, `no rolling update of ${name} is open`, {
    hint: await hintForNone(farms, name, rolls),
  });
}

async function hintForNone(farms: FarmCalls, name: string, rolls: readonly RolloutRecord[]): Promise<string> {
  // The set of an undone roll is deleted, but its audit remains.
  const wasThere = (await unlessMissing(farms.get(name))) !== undefined || (await farms.audit(name, 1)).length > 0;
  if (wasThere) return `none is open; \`muster audit ${name}\` lists the finished ones`;
  const names = rolls.flatMap(({ id, oldSet, newSet }) => [id, oldSet, newSet]);
  // Every name resembles a two-letter name.
  return suggestName(
    name,
    name.length < MIN_SUGGESTED_LENGTH ? [] : names,
    "`muster get rolls` shows those that are open",
  );
}
