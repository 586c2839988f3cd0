import { client } from "@muster/bus";
import { FarmService } from "@muster/proto";
import type { ExplainedSet, ReplicaSet, Roll, SetAudit, UnreadableSet } from "../domain/replica-set.ts";
import type { SetDocument, SetSpec } from "../domain/set-document.ts";
import type { Link } from "../kinds/kind.ts";
import { caller } from "./caller.ts";
import { CALL_TIMEOUT_MS, readPages, STATUS_TIMEOUT_MS } from "./asking.ts";
import {
  auditFromMessage,
  explainedFromMessage,
  rollFromMessage,
  setFromMessage,
  setSpecToMessage,
} from "./farm-messages.ts";

export type Outcome = "created" | "changed" | "unchanged";

export type RollRequest = {
  readonly oldSet: string;
  readonly newSet: string;
  /** Of the new set, which is made; undefined: it exists. */
  readonly spec: SetSpec | undefined;
  /** Undefined: as many as the old one has. */
  readonly replicas: number | undefined;
  readonly minimum: number;
  readonly leaveOld: boolean;
  readonly delayMs: number;
};

export type RollChange = "PAUSE" | "RESUME" | "UNDO" | "REDO";

/** The calls of the farms. Every one rejects with FaultError and nothing else. */
export type FarmCalls = {
  apply(
    document: SetDocument,
    options: { readonly replace: boolean; readonly dryRun: boolean },
  ): Promise<{ readonly set: ReplicaSet; readonly outcome: Outcome }>;
  get(name: string): Promise<ReplicaSet>;
  list(): Promise<ReplicaSet[]>;
  /** Sets whose records the farms cannot read. */
  unreadable(): Promise<UnreadableSet[]>;
  explain(name: string): Promise<ExplainedSet>;
  scale(name: string, replicas: number, expected: number | undefined): Promise<ReplicaSet>;
  enable(name: string, enabled: boolean): Promise<ReplicaSet>;
  /** Undefined: its record could not be read, and is gone. */
  delete(
    name: string,
    options: { readonly force: boolean; readonly keepPods: boolean },
  ): Promise<ReplicaSet | undefined>;
  /** `to` empty: the farm chooses. */
  transfer(name: string, from: string, to: string): Promise<ReplicaSet>;
  hold(name: string, hold: { readonly by: string; readonly because: string } | undefined): Promise<ReplicaSet>;
  audit(name: string, limit: number): Promise<SetAudit[]>;
  roll(request: RollRequest): Promise<Roll>;
  getRoll(id: string): Promise<Roll>;
  rolls(): Promise<Roll[]>;
  /** `minimum` undefined: as before. */
  changeRoll(id: string, change: RollChange, minimum: number | undefined): Promise<Roll>;
};

export function farmCalls({ bus, stop }: Link): FarmCalls {
  const farms = client(bus, FarmService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  const identified = (): { requestId: string; by: string } => ({ requestId: crypto.randomUUID(), by: caller() });
  return {
    apply: async ({ name, spec }, how) => {
      const reply = await farms.applyReplicaSet(
        { ...identified(), name, spec: setSpecToMessage(spec), ...how },
        options,
      );
      return { set: setFromMessage(reply.set), outcome: outcomeOf(reply.outcome) };
    },
    get: async (name) => setFromMessage((await farms.getReplicaSet({ name }, options)).set),
    list: () =>
      readPages(async (page) => {
        const reply = await farms.listReplicaSets({ continue: page }, options);
        return { items: reply.sets.map(setFromMessage), next: reply.continue };
      }),
    unreadable: async () =>
      (await farms.listReplicaSets({ limit: 1 }, { timeoutMs: STATUS_TIMEOUT_MS, signal: stop })).unreadable.map(
        ({ name, because }) => ({ name, because }),
      ),
    explain: async (name) => explainedFromMessage(await farms.explainReplicaSet({ name }, options)),
    scale: async (name, replicasDesired, expected) => {
      const { set } = await farms.scaleReplicaSet({ ...identified(), name, replicasDesired, expected }, options);
      return setFromMessage(set);
    },
    enable: async (name, enabled) =>
      setFromMessage((await farms.enableReplicaSet({ ...identified(), name, enabled }, options)).set),
    delete: async (name, how) => {
      const { set } = await farms.deleteReplicaSet({ ...identified(), name, ...how }, options);
      return set && setFromMessage(set);
    },
    transfer: async (name, node, newNode) =>
      setFromMessage((await farms.transferNode({ ...identified(), name, node, newNode }, options)).set),
    hold: async (name, hold) => {
      const request = { ...identified(), name, hold: hold !== undefined, ...hold };
      return setFromMessage((await farms.holdTransfers(request, options)).set);
    },
    audit: async (name, limit) => (await farms.listAudit({ name, limit }, options)).records.map(auditFromMessage),
    roll: async ({ oldSet, newSet, spec, replicas, minimum, leaveOld, delayMs }) => {
      const request = {
        ...identified(),
        oldSet,
        newSet,
        spec: spec && setSpecToMessage(spec),
        replicasDesired: replicas,
        minimumReplicas: minimum,
        leaveOld,
        rollDelayMs: delayMs,
      };
      return rollFromMessage((await farms.createRoll(request, options)).roll);
    },
    getRoll: async (id) => rollFromMessage((await farms.getRoll({ id }, options)).roll),
    rolls: () =>
      readPages(async (page) => {
        const reply = await farms.listRolls({ continue: page }, options);
        return { items: reply.rolls.map(rollFromMessage), next: reply.continue };
      }),
    changeRoll: async (id, change, minimum) => {
      const request = {
        ...identified(),
        id,
        change,
        minimumReplicas: minimum,
      };
      return rollFromMessage((await farms.changeRoll(request, options)).roll);
    },
  };
}

function outcomeOf(word: string): Outcome {
  if (word === "CREATED") return "created";
  return word === "UNCHANGED" ? "unchanged" : "changed";
}
