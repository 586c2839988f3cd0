import { buildTooOldError } from "../adapters/ask-explanation.ts";
import { makeFarmCalls } from "../adapters/farm-calls.ts";
import { APPLY_SETS, buildSetTimeout } from "../commands/apply-sets.ts";
import { followGoal } from "../commands/follow.ts";
import { printLine } from "../commands/output.ts";
import { buildRecord } from "../domain/build-record.ts";
import { buildSetExplanation } from "../domain/build-set-explanation.ts";
import { buildSetDescription, buildSetTable, describeSetState, buildSetRecord } from "../domain/build-set-views.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { decideSetWait, SET_CONDITIONS } from "../domain/decide-set-wait.ts";
import { SET_NOUN, UNREADABLE } from "../domain/replica-set.ts";
import type { ReplicaSet, UnreadableSet } from "../adapters/farm-messages.ts";
import { readSetDocument } from "../domain/read-set-document.ts";
import { buildSetSchema, SET_KIND, type SetDocument } from "../domain/set-document.ts";
import { askAboutSet } from "./farm-refusals.ts";
import type { DocumentRow, ResourceRow } from "./resource.ts";

export const SET_DOCUMENTS: DocumentRow<SetDocument> = {
  words: [SET_KIND],
  elsewhere: () => "a PinnedReplicaSet runs until it is deleted: use `muster apply -f FILE`",
  read: readSetDocument,
  applying: APPLY_SETS,
};

/** Pods on chosen nodes, which the replication farms own. A list includes sets whose records the farms cannot read. */
export const REPLICA_SET: ResourceRow<ReplicaSet | UnreadableSet> = {
  noun: SET_NOUN,
  plural: "replica-sets",
  aliases: ["rs", "pinned-replica-set", "pinned-replica-sets", "prs"],
  shortName: "rs",
  none: "no replica sets",
  get: ({ link }, name) => makeFarmCalls(link).get(name),
  hasLabels: true,
  list: async ({ link }, selector) => {
    const sets = await makeFarmCalls(link).list(selector);
    // The labels of an unreadable set are unknown.
    return selector === undefined ? [...sets, ...(await makeFarmCalls(link).unreadable())] : sets;
  },
  nameOf: ({ name }) => name,
  ask: (connected, name, question) => askAboutSet(connected, name, question),
  table: (sets, { nowMs, style }) =>
    buildSetTable(sets.filter(isReadable), sets.filter((set) => !isReadable(set)) as UnreadableSet[], nowMs, style),
  record: (set) => (isReadable(set) ? buildSetRecord(set) : { kind: SET_NOUN, phase: UNREADABLE, ...set }),
  describe: (set, { style }) => (isReadable(set) ? buildSetDescription(set, style) : [set.because]),
  waiting: {
    conditions: SET_CONDITIONS,
    decide: (set, goal) => (isReadable(set) ? decideSetWait(set, goal) : "open"),
    uidOf: (set) => (isReadable(set) ? set.uid : ""),
    describe: (set) => (isReadable(set) ? describeSetState(set) : set.because),
  },
  explain: async (_cli, { link }, name) => {
    const explained = await makeFarmCalls(link).explain(name);
    if (explained === undefined) throw buildTooOldError("replication-farm");
    const { set, phase, reason, roll, ...nodes } = explained;
    return {
      table: (style) => buildSetExplanation(explained, style),
      data: () => ({
        [SET_NOUN]: set.name,
        phase,
        ...reason,
        owner: set.farm,
        set: buildSetRecord(set),
        roll: roll && buildRecord(roll),
        ...nodes,
      }),
    };
  },
  // The ledger knows the machines of a set by separate ids.
  hasOwnerIds: true,
  delete: async (cli, name, { force, keepPods, wait, timeoutMs, output }) => {
    await using connected = await cli.connect();
    const { link } = connected;
    const set = await askAboutSet(connected, name, () =>
      makeFarmCalls(link).delete(name, { force: force || keepPods, keepPods }),
    );
    if (set === undefined) {
      const line = `the record of ${SET_NOUN}/${name}, which could not be read, is gone; its pods follow within minutes`;
      printLine(cli.io, output, line, () => ({ kind: SET_NOUN, name, phase: UNREADABLE }));
      return EXIT.ok;
    }
    const pods = set.deletion?.keepPods === true ? ", and its pods stay" : "";
    if (!wait) {
      printLine(cli.io, output, `${SET_NOUN}/${name} is being deleted${pods}`, () => buildSetRecord(set));
      return EXIT.ok;
    }
    const { last, verdict } = await followGoal(
      cli,
      connected,
      { decide: () => "open", uidOf: ({ uid }) => uid, next: () => makeFarmCalls(link).get(name) },
      set,
      { goal: { kind: "delete" }, timeoutMs },
    );
    if (verdict === "interrupted") return EXIT.interrupted;
    if (verdict === "open") throw buildSetTimeout(last, "deletion", timeoutMs);
    printLine(cli.io, output, `${SET_NOUN}/${name} deleted${pods}`, () => buildSetRecord(last));
    return EXIT.ok;
  },
  refusals: {
    cancel: {
      message: `a ${SET_NOUN} has no end, and cannot be cancelled`,
      hint: (name) => `\`muster delete ${SET_NOUN}/${name}\` deletes it with its pods`,
    },
    logs: {
      message: `Muster keeps no logs of the pods of a ${SET_NOUN}`,
      hint: (name) =>
        `\`muster describe ${SET_NOUN}/${name}\` names them: kubectl logs POD, with --previous for the run before`,
    },
  },
  documents: SET_DOCUMENTS,
  schema: { word: "pinned-replica-set", build: buildSetSchema },
};

function isReadable(set: ReplicaSet | UnreadableSet): set is ReplicaSet {
  return "spec" in set;
}
