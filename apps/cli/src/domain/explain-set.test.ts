import { expect, it } from "vitest";
import { aReplica, aReplicaSet, aRollOf } from "../../test/a-replica-set.ts";
import { buildSetExplanation, explainSet } from "./explain-set.ts";
import type { ExplainedSet, NodeVerdict, ReplicaSet, Trouble } from "./replica-set.ts";

const NOW_MS = 1_000_000;
const TRANSFER = { oldNode: "n-1", newNode: "", because: "it is gone", startedAtMs: 0, givenUpAtMs: NOW_MS };
const ILL = aReplica("n-2", { health: "NOT_READY", reason: "CrashLoopBackOff", message: "back-off" });

const GONE = aReplica("n-1", { health: "UNKNOWN", reason: "NODE_GONE", message: "node n-1 is gone", eligible: false });

function node(name: string, code: string, message = ""): NodeVerdict {
  return { node: name, code, message };
}

function explained(set: Partial<ReplicaSet>, rest: Partial<ExplainedSet> = {}): ExplainedSet {
  return { set: aReplicaSet(set), roll: undefined, nodesKnown: true, nodes: [], nodesMore: 0, ...rest };
}

function trouble(code: string, message: string): Trouble {
  return { code, message, sinceMs: 0 };
}

const WAITING = trouble("WAITING_FOR_MACHINE", "it is waiting for a machine of pool gpu: POOL_AVAILABILITY");

function onPool(set: Partial<ReplicaSet>, rest: Partial<ExplainedSet> = {}): ExplainedSet {
  return explained({ spec: { ...aReplicaSet().spec, nodeSelector: "", pool: "gpu" }, ...set }, rest);
}

it.each<[code: string, explained: ExplainedSet, message: RegExp, next: RegExp]>([
  ["READY", explained({}), /2 wanted, 2 placed, 2 ready/, /^$/],
  ["DELETING", explained({ deletion: { keepPods: false, atMs: 0 }, replicas: [] }), /0 replicas left/, /^$/],
  ["NO_FARM", explained({ farm: "" }), /no farm owns it now/, /doctor/],
  ["IN_ROLL", explained({ roll: "web-2" }, { roll: aRollOf() }), /web-2 has 1 of 2/, /roll undo web-2/],
  [
    "IN_ROLL",
    explained({ roll: "web-2" }, { roll: aRollOf({ phase: "PAUSED" }) }),
    /web-2 has 1 of 2/,
    /roll resume web-2/,
  ],
  [
    "IN_ROLL",
    explained({ roll: "web-2", trouble: trouble("POD_REFUSED", "exceeded quota: pods") }, { roll: aRollOf() }),
    /web-2 has 1 of 2.*; exceeded quota: pods$/,
    /roll undo web-2/,
  ],
  [
    "TRANSFERRING",
    explained({ transfer: TRANSFER }, { nodes: [node("n-3", "FREE")] }),
    /leaves n-1, and needs another node: it is gone/,
    /^$/,
  ],
  [
    "TRANSFERRING",
    explained({
      transfer: TRANSFER,
      replicas: [aReplica("n-1", { eligible: false }), aReplica("n-2", { eligible: false })],
    }),
    /no eligible node is free \(no nodes\);.*; n-2 is left after that$/,
    /uncordon or add a node for disk=ssd, or `muster scale web --replicas 1`/,
  ],
  ["TRANSFERRING", explained({ transfer: { ...TRANSFER, newNode: "n-9" } }), /leaves n-1 for n-9/, /^$/],
  ["DISABLED", explained({ disabled: true }), /no pod is created/, /muster enable web/],
  ["NODES_UNKNOWN", explained({}, { nodesKnown: false }), /watcher is silent/, /doctor/],
  [
    "TRANSFER_FAILED",
    explained({
      trouble: { code: "TRANSFER_FAILED", message: "given up", sinceMs: 0 },
      transferNotBeforeAtMs: NOW_MS + 5000,
    }),
    /given up/,
    /again in 5.0s/,
  ],
  [
    "TOO_FEW_NODES",
    explained({ desired: 4 }, { nodes: [node("n-1", "REPLICA"), node("n-2", "REPLICA"), node("n-3", "TAKEN")] }),
    /2 nodes more would do, 0 of them are free \(2 REPLICA, 1 TAKEN\)/,
    /disk=ssd.*muster scale web --replicas 2/,
  ],
  [
    "ROLL_SET_MISSING",
    explained({
      roll: "web-2",
      trouble: { code: "ROLL_SET_MISSING", message: "update web-2 is not there", sinceMs: 0 },
    }),
    /update web-2 is not there/,
    /muster delete web --force/,
  ],
  ["PLACING", explained({ desired: 3 }, { nodes: [node("n-3", "FREE")] }), /follows now/, /^$/],
  ["REMOVING", explained({ desired: 1 }), /removed now/, /^$/],
  [
    "NOT_HEALTHY",
    explained({ healthy: 1, replicas: [aReplica("n-1"), ILL] }),
    /web-of-n-2 on n-2 is NOT_READY: CrashLoopBackOff: back-off$/,
    /kubectl logs web-of-n-2/,
  ],
  [
    "NOT_HEALTHY",
    explained({ healthy: 1, replicas: [aReplica("n-1"), aReplica("n-2", { health: "UNKNOWN", reason: "NO_POD" })] }),
    /web-of-n-2 on n-2 is UNKNOWN: NO_POD/,
    /kubectl get events .*=web-of-n-2/,
  ],
  [
    "NOT_HEALTHY",
    explained({
      healthy: 1,
      replicas: [aReplica("n-1"), aReplica("n-2", { health: "UNKNOWN", reason: "NODE_UNUSABLE" })],
    }),
    /web-of-n-2 on n-2 is UNKNOWN: NODE_UNUSABLE/,
    /kubectl describe node n-2/,
  ],
  ["RENEWING", explained({ healthy: 1 }), /earlier template/, /^$/],
  [
    "TRANSFERS_HELD",
    explained({
      replicas: [aReplica("n-1", { eligible: false }), aReplica("n-2")],
      held: { by: "ada@pc", because: "repair", atMs: 0 },
    }),
    /n-1 is no longer eligible, and transfers are held by ada@pc: repair/,
    /--release/,
  ],
  [
    "STATIC",
    explained({
      replicas: [aReplica("n-1", { eligible: false }), aReplica("n-2")],
      spec: { ...aReplicaSet().spec, allocationStrategy: "Static" },
    }),
    /never moved/,
    /--from n-1/,
  ],
  [
    "STATIC",
    explained(
      {
        replicas: [GONE, aReplica("n-2")],
        healthy: 1,
        spec: { ...aReplicaSet().spec, allocationStrategy: "Static" },
        trouble: trouble("NOT_HEALTHY", "pods have not been ready for long on 1 nodes, such as n-1"),
      },
      { nodes: [node("n-1", "REPLICA", "the node is gone"), node("n-2", "REPLICA")] },
    ),
    /^n-1 \(the node is gone\) is no longer eligible, and a Static set is never moved$/,
    /--from n-1/,
  ],
  [
    "NOT_HEALTHY",
    explained({ healthy: 0, replicas: [GONE, ILL], trouble: trouble("NOT_HEALTHY", "on 1 nodes, such as n-2") }),
    /web-of-n-2 on n-2 is NOT_READY: CrashLoopBackOff: back-off$/,
    /kubectl logs web-of-n-2/,
  ],
  [
    "LEAVING",
    explained({
      replicas: [aReplica("n-1", { eligible: false }), aReplica("n-2")],
      transferFailures: 1,
      transferNotBeforeAtMs: NOW_MS + 5000,
    }),
    /begins in 5.0s, after 1 failure/,
    /^$/,
  ],
  [
    "WAITING_FOR_MACHINE",
    onPool({ desired: 3, trouble: WAITING }),
    /^it is waiting for a machine of pool gpu: POOL_AVAILABILITY$/,
    /get reservations.*pool gpu.*muster nodes.*muster scale web --replicas 2/,
  ],
  [
    "MACHINE_REFUSED",
    onPool({ desired: 3, trouble: trouble("MACHINE_REFUSED", "no machine of pool gpu: it has 2") }),
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
    onPool({ desired: 3, trouble: trouble("LEDGER_AWAY", "the ledger does not answer") }),
    /^the ledger does not answer$/,
    /stay where they are.*muster doctor.*reservation-manager/,
  ],
  [
    "DELETING",
    onPool({
      deletion: { keepPods: false, atMs: 0 },
      replicas: [],
      trouble: trouble("LEDGER_AWAY", "the ledger does not answer"),
    }),
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

it("shows the nodes that matter, and only counts those that are not selected", () => {
  const nodes = [
    node("n-1", "REPLICA"),
    node("n-3", "CORDONED", "it is cordoned"),
    ...["a", "b", "c", "d"].map((name) => node(name, "NOT_SELECTED")),
  ];
  const lines = buildSetExplanation(explained({}, { nodes, nodesMore: 6 }), NOW_MS, { columns: 80, colours: false });
  expect(lines).toEqual([
    "replica-set web READY",
    "  2 wanted, 2 placed, 2 ready",
    "owner: farm-1",
    "",
    "NODE  WHAT      POD         HEALTH  WHY",
    "n-1   REPLICA   web-of-n-1  READY",
    "n-3   CORDONED  -           -       it is cordoned",
    "10 other nodes (a, b, c, ...) do not match disk=ssd",
  ]);
});

it("names no selector where the nodes are those of a pool, and only counts those", () => {
  const nodes = [node("n-3", "NOT_GRANTED", "it holds none"), node("n-4", "NOT_SELECTED")];
  expect(buildSetExplanation(onPool({}, { nodes }), NOW_MS, { columns: 80, colours: false }).at(-1)).toBe(
    "2 other nodes (n-3, n-4) are no machines of pool gpu that it has",
  );
});
