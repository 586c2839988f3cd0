import { FarmService, type muster } from "@muster/proto";
import type { SetDocument, SetSpec } from "../domain/set-document.ts";
import type { ServiceLink } from "../kinds/kind.ts";
import { buildCallerName } from "./caller.ts";
import { CALL_TIMEOUT_MS, readPages, STATUS_TIMEOUT_MS } from "./read-pages.ts";
import { toSetAudit, toExplainedSet, toRollout, toReplicaSet, toWireSetSpec } from "./farm-messages.ts";
import { pickFields } from "./message-fields.ts";

export type RequestOutcome = "created" | "changed" | "unchanged";

type RollRequest = {
  readonly oldSet: string;
  readonly newSet: string;
  /** The spec of the new set, which the farm creates; undefined if the set exists. */
  readonly spec: SetSpec | undefined;
  /** Undefined keeps the number of replicas of the old set. */
  readonly replicas: number | undefined;
  readonly minimum: number;
  readonly leaveOld: boolean;
  readonly delayMs: number;
};

export type RollChange = "PAUSE" | "RESUME" | "UNDO" | "REDO";

/** Calls the farms. Every call rejects only with FaultError. */
export function makeFarmCalls({ client, stop }: ServiceLink) {
  const farms = client(FarmService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const identified = (): { requestId: string; by: string } => ({
    requestId: crypto.randomUUID(),
    by: buildCallerName(),
  });
  const setOf = async (reply: Promise<Pick<muster.farm.v1.GetReplicaSetReply, "set">>) =>
    toReplicaSet((await reply).set);
  const rollOf = async (reply: Promise<Pick<muster.farm.v1.GetRollReply, "roll">>) => toRollout((await reply).roll);
  return {
    apply: async ({ name, spec }: SetDocument, how: { readonly replace: boolean; readonly dryRun: boolean }) => {
      const reply = await farms.applyReplicaSet({ ...identified(), name, spec: toWireSetSpec(spec), ...how }, options);
      return { set: toReplicaSet(reply.set), outcome: outcomeOf(reply.outcome) };
    },
    get: (name: string) => setOf(farms.getReplicaSet({ name }, options)),
    list: (labelSelector = "") =>
      readPages((page) => farms.listReplicaSets({ ...page, labelSelector }, options), "sets", toReplicaSet),
    /** Lists sets whose records the farms cannot read. */
    unreadable: async () =>
      (await farms.listReplicaSets({ limit: 1 }, { timeoutMs: STATUS_TIMEOUT_MS, signal: stop })).unreadable.map(
        (each) => pickFields(each, "name", "because"),
      ),
    /** Returns undefined if the farm has a version that cannot explain sets. */
    explain: async (name: string) => toExplainedSet(await farms.explainReplicaSet({ name }, options)),
    scale: (name: string, replicasDesired: number, expected: number | undefined) =>
      setOf(farms.scaleReplicaSet({ ...identified(), name, replicasDesired, expected }, options)),
    enable: (name: string, enabled: boolean) =>
      setOf(farms.enableReplicaSet({ ...identified(), name, enabled }, options)),
    /** Undefined if the record of the deleted set could not be read. */
    delete: async (name: string, how: { readonly force: boolean; readonly keepPods: boolean }) => {
      const { set } = await farms.deleteReplicaSet({ ...identified(), name, ...how }, options);
      return set && toReplicaSet(set);
    },
    /** If `newNode` is empty, the farm chooses the node. */
    transfer: (name: string, node: string, newNode: string) =>
      setOf(farms.transferNode({ ...identified(), name, node, newNode }, options)),
    hold: (name: string, hold: { readonly by: string; readonly because: string } | undefined) =>
      setOf(farms.holdTransfers({ ...identified(), name, hold: hold !== undefined, ...hold }, options)),
    audit: async (name: string, limit: number) =>
      (await farms.listAudit({ name, limit }, options)).records.map(toSetAudit),
    roll: ({ spec, replicas, minimum, delayMs, ...sets }: RollRequest) => {
      const numbers = { replicasDesired: replicas, minimumReplicas: minimum, rollDelayMs: delayMs };
      const request = { ...identified(), ...sets, ...numbers, spec: spec && toWireSetSpec(spec) };
      return rollOf(farms.createRoll(request, options));
    },
    getRoll: (id: string) => rollOf(farms.getRoll({ id }, options)),
    rolls: () => readPages((page) => farms.listRolls(page, options), "rolls", toRollout),
    /** If `minimum` is undefined, the roll keeps its minimum. */
    changeRoll: (id: string, change: RollChange, minimum: number | undefined) =>
      rollOf(farms.changeRoll({ ...identified(), id, change, minimumReplicas: minimum }, options)),
  };
}

export type FarmCalls = ReturnType<typeof makeFarmCalls>;

function outcomeOf(word: string): RequestOutcome {
  if (word === "CREATED") return "created";
  return word === "UNCHANGED" ? "unchanged" : "changed";
}
