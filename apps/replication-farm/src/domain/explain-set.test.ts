import { expect, it } from "vitest";
import { makeRollout, makeSet, makeSpec, makeTransfer } from "../../test/a-set.ts";
import type { NodeCode, NodeVerdict } from "./explain-nodes.ts";
import { explainSet, getSetPhase, type ReplicaSeen, type RolloutSeen, type SetSeen } from "./explain-set.ts";
import type { ReplicaSet, SetTrouble } from "./replica-set.ts";
import type { TroubleCode } from "./troubles.ts";
import type { Rollout } from "./rollout.ts";

const NOW_MS = 1_000_000;
const TRANSFER = {
  ...makeTransfer("n-1", undefined),
  because: { code: "NODE_INELIGIBLE", detail: "it is gone" } as const,
  deadlineMs: NOW_MS,
};
const ILL = aReplica("n-2", { health: "NOT_READY", reason: "CrashLoopBackOff", message: "back-off" });
const GONE = aReplica("n-1", { health: "UNKNOWN", reason: "NODE_GONE", message: "node n-1 is gone", eligible: false });
const LEAVING = [aReplica("n-1", { eligible: false }), aReplica("n-2")];
const STATIC = makeSpec({ allocationStrategy: "static" });

function aReplica(name: string, rest: Partial<ReplicaSeen> = {}): ReplicaSeen {
  return { node: name, pod: `web-of-${name}`, health: "READY", reason: "", message: "", eligible: true, ...rest };
}

function node(name: string, code: NodeCode, message = ""): NodeVerdict {
  return { node: name, code, message };
}

function trouble(code: TroubleCode, message: string): SetTrouble {
  return { code, message, sinceMs: 7 };
}

function inRollout(rollout: Partial<Rollout> = {}): RolloutSeen {
  const counts = { oldHealthy: 1, oldCurrent: 1, newHealthy: 0, newCurrent: 1 };
  return { rollout: makeRollout({ target: 2, minimum: 1, createdAtMs: 6, ...rollout }), ...counts, waitingBecause: "" };
}

/** A set with two ready replicas and these changes. */
function seen(set: Partial<ReplicaSet>, rest: Partial<SetSeen> = {}): SetSeen {
  const replicas = [aReplica("n-1"), aReplica("n-2")];
  return {
    ...{ farm: "farm-1", desired: 2, healthy: 2, replicas, rollout: undefined, nodes: [] },
    ...rest,
    set: makeSet(set),
  };
}

const WAITING = trouble("WAITING_FOR_MACHINE", "it is waiting for a machine of pool gpu: POOL_AVAILABILITY");

function onPool(set: Partial<ReplicaSet>, rest: Partial<SetSeen> = {}): SetSeen {
  return seen({ spec: makeSpec({ nodeSelector: "", pool: "gpu" }), ...set }, rest);
}

it.each<[code: string, seen: SetSeen, message: RegExp, next: RegExp]>([
  ["READY", seen({}), /2 wanted, 2 placed, 2 ready/, /^$/],
  ["DELETING", seen({ deletion: { keepPods: false, atMs: 0 } }, { replicas: [] }), /0 replicas left/, /^$/],
  ["NO_FARM", seen({}, { farm: "" }), /no farm owns it now/, /doctor/],
  ["IN_ROLL", seen({ rollout: "web-2" }, { rollout: inRollout() }), /web-2 has 1 of 2/, /roll undo web-2/],
  [
    "IN_ROLL",
    seen({ rollout: "web-2" }, { rollout: inRollout({ phase: "PAUSED" }) }),
    /web-2 has 1 of 2/,
    /roll resume web-2/,
  ],
  [
    "IN_ROLL",
    seen(
      { rollout: "web-2", trouble: trouble("POD_REFUSED", "exceeded quota: pods") },
      { rollout: { ...inRollout(), waitingBecause: "it waits" } },
    ),
    /^roll web-2 RUNNING: web-2 has 1 of 2, 0 ready; web has 1, 1 ready; at least 1 stay ready \(it waits\); exceeded quota: pods$/,
    /^`muster roll status web-2` follows it, `muster roll undo web-2` reverses it$/,
  ],
  [
    "IN_ROLL",
    seen({ rollout: "web-2" }, { rollout: inRollout({ undone: 1, trouble: trouble("ROLL_STUCK", "it waits") }) }),
    /\(ROLL_STUCK: it waits\)$/,
    /roll undo web-2 --minimum N/,
  ],
  [
    "TRANSFERRING",
    seen({ transfer: TRANSFER }, { nodes: [node("n-3", "FREE")] }),
    /leaves n-1, and needs another node: it is gone/,
    /^$/,
  ],
  [
    "TRANSFERRING",
    seen(
      { transfer: TRANSFER },
      { replicas: [aReplica("n-1", { eligible: false }), aReplica("n-2", { eligible: false })] },
    ),
    /no eligible node is free \(no nodes\);.*; n-2 is left after that$/,
    /uncordon or add a node for disk=ssd, or `muster scale web --replicas 1`/,
  ],
  ["TRANSFERRING", seen({ transfer: { ...TRANSFER, newNode: "n-9" } }), /leaves n-1 for n-9/, /^$/],
  ["DISABLED", seen({ disabled: true }), /no pod is created/, /muster enable web/],
  ["NODES_UNKNOWN", seen({}, { nodes: undefined }), /watcher is silent/, /doctor/],
  [
    "TRANSFER_FAILED",
    seen({ trouble: trouble("TRANSFER_FAILED", "given up"), transferNotBeforeMs: NOW_MS + 5000 }),
    /given up/,
    /retried in 5.0s/,
  ],
  [
    "TOO_FEW_NODES",
    seen({}, { desired: 4, nodes: [node("n-1", "REPLICA"), node("n-2", "REPLICA"), node("n-3", "TAKEN")] }),
    /2 more nodes are needed, and 0 are free \(2 REPLICA, 1 TAKEN\)/,
    /disk=ssd.*muster scale web --replicas 2/,
  ],
  [
    "ROLL_SET_MISSING",
    seen({ rollout: "web-2", trouble: trouble("ROLL_SET_MISSING", "update web-2 is not there") }),
    /update web-2 is not there/,
    /muster delete web --force/,
  ],
  ["PLACING", seen({}, { desired: 3, nodes: [node("n-3", "FREE")] }), /follows now/, /^$/],
  ["REMOVING", seen({}, { desired: 1 }), /removed now/, /^$/],
  [
    "NOT_HEALTHY",
    seen({}, { healthy: 1, replicas: [aReplica("n-1"), ILL] }),
    /web-of-n-2 on n-2 is NOT_READY: CrashLoopBackOff: back-off$/,
    /kubectl logs web-of-n-2/,
  ],
  [
    "NOT_HEALTHY",
    seen({}, { healthy: 1, replicas: [aReplica("n-1"), aReplica("n-2", { health: "UNKNOWN", reason: "NO_POD" })] }),
    /web-of-n-2 on n-2 is UNKNOWN: NO_POD/,
    /kubectl get events .*=web-of-n-2/,
  ],
  [
    "NOT_HEALTHY",
    seen(
      {},
      { healthy: 1, replicas: [aReplica("n-1"), aReplica("n-2", { health: "UNKNOWN", reason: "NODE_UNUSABLE" })] },
    ),
    /web-of-n-2 on n-2 is UNKNOWN: NODE_UNUSABLE/,
    /kubectl describe node n-2/,
  ],
  ["RENEWING", seen({}, { healthy: 1 }), /earlier template/, /^$/],
  [
    "TRANSFERS_HELD",
    seen({ transfersHeld: { by: "ada@pc", because: "repair", atMs: 0 } }, { replicas: LEAVING }),
    /n-1 is no longer eligible, and transfers are held by ada@pc: repair/,
    /--release/,
  ],
  ["STATIC", seen({ spec: STATIC }, { replicas: LEAVING }), /never moved/, /--from n-1/],
  [
    "STATIC",
    seen(
      { spec: STATIC, trouble: trouble("NOT_HEALTHY", "pods have been unready for too long on 1 nodes, such as n-1") },
      {
        replicas: [GONE, aReplica("n-2")],
        healthy: 1,
        nodes: [node("n-1", "REPLICA", "the node is gone"), node("n-2", "REPLICA")],
      },
    ),
    /^n-1 \(the node is gone\) is no longer eligible, and a Static set is never moved$/,
    /--from n-1/,
  ],
  [
    "NOT_HEALTHY",
    seen({ trouble: trouble("NOT_HEALTHY", "on 1 nodes, such as n-2") }, { healthy: 0, replicas: [GONE, ILL] }),
    /web-of-n-2 on n-2 is NOT_READY: CrashLoopBackOff: back-off$/,
    /kubectl logs web-of-n-2/,
  ],
  [
    "LEAVING",
    seen({ transferFailures: 1, transferNotBeforeMs: NOW_MS + 5000 }, { replicas: LEAVING }),
    /begins in 5.0s, after 1 failure/,
    /^$/,
  ],
  [
    "WAITING_FOR_MACHINE",
    onPool({ trouble: WAITING }, { desired: 3 }),
    /^it is waiting for a machine of pool gpu: POOL_AVAILABILITY$/,
    /get reservations.*pool gpu.*muster nodes.*muster scale web --replicas 2/,
  ],
  [
    "MACHINE_REFUSED",
    onPool({ trouble: trouble("MACHINE_REFUSED", "no machine of pool gpu: it has 2") }, { desired: 3 }),
    /^no machine of pool gpu: it has 2$/,
    /get pools.*spec\.pool.*--replicas 2/,
  ],
  [
    "MACHINES_GONE",
    onPool({ trouble: trouble("MACHINES_GONE", "the ledger has none of its machines") }),
    /^the ledger has none of its machines$/,
    /get reservations/,
  ],
  [
    "LEDGER_AWAY",
    onPool({ trouble: trouble("LEDGER_AWAY", "the ledger does not answer") }, { desired: 3 }),
    /^the ledger does not answer$/,
    /stay where they are.*muster doctor.*reservation-manager/,
  ],
  [
    "DELETING",
    onPool(
      { deletion: { keepPods: false, atMs: 0 }, trouble: trouble("LEDGER_AWAY", "the ledger does not answer") },
      { replicas: [] },
    ),
    /^it is being deleted: 0 replicas left; the ledger does not answer$/,
    /muster doctor/,
  ],
  [
    "TRANSFERRING",
    onPool({ transfer: TRANSFER, trouble: WAITING }),
    /needs another node.*; it is waiting for a machine of pool gpu/,
    /get reservations/,
  ],
])("a set is explained as %s", (code, given, message, next) => {
  const explanation = explainSet(given, NOW_MS);
  expect(explanation.code).toBe(code);
  expect(explanation.message).toMatch(message);
  expect(explanation.next).toMatch(next);
});

it.each<[phase: string, sinceMs: number, seen: SetSeen]>([
  ["READY", 0, seen({})],
  ["CHANGING", 0, seen({}, { healthy: 1 })],
  ["TROUBLED", 7, seen({ trouble: WAITING })],
  ["TRANSFERRING", 5, seen({ transfer: { ...TRANSFER, startedAtMs: 5 }, trouble: WAITING })],
  ["DISABLED", 0, seen({ disabled: true, transfer: TRANSFER })],
  ["ROLLING", 6, seen({ rollout: "web-2", disabled: true }, { rollout: inRollout() })],
  ["ROLLING", 0, seen({ rollout: "web-2" })],
  ["DELETING", 4, seen({ rollout: "web-2", deletion: { keepPods: true, atMs: 4 } })],
])("a set is %s since %i", (phase, sinceMs, given) => {
  expect(getSetPhase(given)).toEqual({ phase, sinceMs });
});
