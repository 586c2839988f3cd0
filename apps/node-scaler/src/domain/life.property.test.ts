import fc from "fast-check";
import { expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import { buildInstance, buildKubeNode, buildMachine, buildPod, holder } from "../../test/build-sightings.ts";
import { decideChange, type NodeChange } from "./change-node.ts";
import type { NodePhase, ScaledNode, TerminationCode } from "./node.ts";
import { planNodeClaims } from "./plan-node-claims.ts";
import { planHeartbeat } from "./plan-heartbeat.ts";
import { planReap } from "./plan-reap.ts";
import { planScan } from "./plan-scan.ts";
import {
  isHeld,
  type Instances,
  type KubeNode,
  type KubeNodes,
  type ListedInstance,
  type Machine,
  type Machines,
  type PodOnNode,
} from "./sightings.ts";

const NOW = 1_000_000;
const phases: NodePhase[] = ["Creating", "Created", "Available", "Claimed", "Cleaning", "Terminating", "Terminated"];
const withdrawn: TerminationCode[] = ["IDLE", "RETURNED", "POOL_REMOVED"];
const forced: TerminationCode[] = ["UNHEALTHY", "BOOT_TIMEOUT", "SPOT_NOTICE", "VANISHED", "REQUESTED"];
const policies = new Map([["a", buildPolicy()]]);
const time = fc.constantFrom(0, NOW - 400_000, NOW - 10, NOW, NOW + 10);

type Sight = {
  readonly node: ScaledNode;
  readonly instance: ListedInstance | undefined;
  readonly kubeNode: KubeNode | undefined;
  readonly machine: Machine | undefined;
  readonly pods: readonly PodOnNode[];
};

function sight(name: string): fc.Arbitrary<Sight> {
  const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
  return fc
    .record({
      phase: fc.constantFrom(...phases),
      phaseSinceMs: time,
      code: maybe(fc.constantFrom(...withdrawn, ...forced)),
      drainUntilMs: time,
      hasJoined: fc.boolean(),
      unhealthySinceMs: maybe(time),
      isReached: fc.boolean(),
      reservationId: fc.constantFrom("1", "2"),
      trouble: maybe(fc.constant({ code: "BOOT_REFUSED" as const, message: "it failed" })),
      term: fc.constantFrom(1, 2),
      pool: fc.constantFrom("a", "a", "removed"),
      instance: maybe(fc.record({ state: fc.constantFrom("pending", "running", "stopping"), lostAtMs: maybe(time) })),
      kubeNode: maybe(fc.record({ ready: fc.boolean(), cordoned: fc.boolean(), hasStartupTaint: fc.boolean() })),
      standing: maybe(
        fc.constantFrom("FREE", "HELD", "OCCUPIED", "NOT_READY", "CORDONED", "LOST", "SHARED", "FOREIGN_USE"),
      ),
      held: fc.constantFrom("not", "whole", "part"),
      pods: fc.array(fc.record({ isOwned: fc.boolean(), deleting: fc.boolean() }), { maxLength: 2 }),
    })
    .map((seen) => {
      const { phase, code, drainUntilMs, term, pool, phaseSinceMs, unhealthySinceMs, trouble } = seen;
      const terminate = code === undefined ? undefined : { code, message: "", atMs: 0, drainUntilMs };
      const isGiven = phase === "Claimed" || phase === "Cleaning";
      const claim = isGiven ? { ...holder, reservationId: seen.reservationId, reached: seen.isReached } : undefined;
      const kubernetesNode = seen.hasJoined || isGiven ? `k-${name}` : undefined;
      const status = { phase, phaseSinceMs, kubernetesNode, unhealthySinceMs, claim, trouble, term };
      return {
        node: buildNode(name, { spec: { pool, terminate }, status }),
        instance: seen.instance && buildInstance(name, seen.instance),
        kubeNode: seen.kubeNode && buildKubeNode(name, seen.kubeNode),
        machine:
          seen.standing &&
          buildMachine(name, seen.standing, seen.held === "whole" ? holder : undefined, {
            sharedHolders: seen.held === "part" ? [holder] : [],
          }),
        pods: seen.pods.map(({ isOwned, deleting }, index) =>
          buildPod(`${name}-${index}`, { deleting, owner: isOwned ? holder.owner : undefined }),
        ),
      };
    });
}

const sights = fc.tuple(sight("n1"), sight("n2"), sight("n3"));
const silences = fc.record({
  isProviderSilent: fc.boolean(),
  isWatcherSilent: fc.boolean(),
  isLedgerSilent: fc.boolean(),
  isLedgerCut: fc.boolean(),
  isBooting: fc.boolean(),
});
type Silences = typeof silences extends fc.Arbitrary<infer Value> ? Value : never;

function planAll(all: readonly Sight[], silent: Silences) {
  const nodes = all.map(({ node }) => node);
  const instances: Instances = {
    all: silent.isProviderSilent ? [] : all.flatMap(({ instance }) => instance ?? []),
    silent: new Set(silent.isProviderSilent ? ["cloud"] : []),
    askedAtMs: new Map([["cloud", Infinity]]),
  };
  const kubeNodes: KubeNodes = {
    byName: new Map(all.flatMap(({ kubeNode }) => (kubeNode ? [[kubeNode.name, kubeNode] as const] : []))),
    known: !silent.isWatcherSilent,
  };
  const machines: Machines = {
    byNode: new Map(all.flatMap(({ machine }) => (machine ? [[machine.node, machine] as const] : []))),
    complete: !silent.isLedgerCut,
  };
  const pods = new Map(all.map(({ node, pods: running }) => [`k-${node.name}`, running]));
  const booting = new Set(silent.isBooting ? ["n1"] : []);
  const common = { nowMs: NOW, nodes, policies, instances, kubeNodes, booting };
  const ledger = silent.isLedgerSilent ? undefined : machines;
  return {
    heartbeat: planHeartbeat({ ...common, machines: ledger, leadingSinceMs: 0, term: 2 }),
    claims: planNodeClaims({ ...common, machines, pods }),
    reap: planReap({ ...common, machines: ledger, pods, stops: new Map() }),
    scan: (suspects: ReadonlySet<string>) =>
      planScan({ ...common, machines: ledger, pods, newcomers: new Set(), suspects, stops: new Map() }),
  };
}

function changesOf(all: readonly Sight[], silent: Silences): NodeChange[] {
  const { heartbeat, claims, reap, scan } = planAll(all, silent);
  const steps = [...heartbeat, ...claims, ...reap, ...scan(scan(new Set()).suspects).steps];
  return steps.flatMap((step) => (step.kind === "change" ? [step] : []));
}

it("changes phases only as allowed, in health, claims, endings and scans", () => {
  fc.assert(
    fc.property(sights, silences, (all, silent) => {
      for (const change of changesOf(all, silent)) {
        const node = all.find((one) => one.node.name === change.node)?.node;
        expect(decideChange(node, change, NOW)).not.toMatchObject({ kind: "refuse" });
      }
    }),
    { numRuns: 1000 },
  );
});

it("changes nothing if a change is repeated, or applied after any other of the same round", () => {
  fc.assert(
    fc.property(sights, silences, (all, silent) => {
      const changes = changesOf(all, silent);
      for (const change of changes) {
        const node = all.find((one) => one.node.name === change.node)?.node;
        const first = decideChange(node, change, NOW);
        if (first.kind !== "write") continue;
        expect(decideChange(first.node, change, NOW)).toMatchObject({ kind: "nothing" });
        for (const other of changes.filter((one) => one.node === change.node)) {
          expect(decideChange(first.node, other, NOW)).not.toMatchObject({ kind: "refuse" });
        }
      }
    }),
    { numRuns: 1000 },
  );
});

it("ends no idle node while the ledger has it granted", () => {
  fc.assert(
    fc.property(sights, silences, (all, silent) => {
      const { reap } = planAll(all, { ...silent, isLedgerSilent: false });
      for (const { node, kubeNode, machine } of all) {
        const code = node.spec.terminate?.code;
        if (code === undefined || !withdrawn.includes(code) || node.status.phase === "Terminated") continue;
        if (!isHeld(machine) || kubeNode === undefined) continue;
        // A provider without any instance of the node needs no stop.
        const mine = reap.filter((step) => step.node === node.name);
        expect(mine.filter(({ kind }) => ["stop", "evict", "purge"].includes(kind))).toEqual([]);
        expect(mine).not.toContainEqual(expect.objectContaining({ phase: "Terminating" }));
      }
    }),
    { numRuns: 1000 },
  );
});

it("ends, and evicts unless forced, only after the ledger cannot grant the node, unless it is late or its machine is gone", () => {
  fc.assert(
    fc.property(sights, silences, (all, silent) => {
      const { reap } = planAll(all, { ...silent, isLedgerSilent: false, isLedgerCut: false });
      for (const { node, instance, kubeNode, machine } of all) {
        const { terminate } = node.spec;
        if (terminate?.code === "VANISHED" && instance === undefined && kubeNode?.ready !== true) continue;
        const isLate = terminate !== undefined && !withdrawn.includes(terminate.code) && terminate.drainUntilMs <= NOW;
        if (isLate || kubeNode === undefined || machine?.standing !== "FREE" || isHeld(machine)) continue;
        if (node.status.phase === "Terminating" || node.status.phase === "Terminated") continue;
        const mine = reap.filter((step) => step.node === node.name);
        const isForced = terminate !== undefined && !withdrawn.includes(terminate.code);
        const harmless = isForced ? ["cordon", "wait", "evict"] : ["cordon", "wait"];
        expect(mine.filter(({ kind }) => !harmless.includes(kind))).toEqual([]);
      }
    }),
    { numRuns: 1000 },
  );
});

it("decides about each node the same in whatever order nodes are given", () => {
  fc.assert(
    fc.property(sights, silences, (all, silent) => {
      const byNode = (sorted: readonly Sight[]) => {
        const { heartbeat, claims, reap } = planAll(sorted, silent);
        const steps = [...heartbeat, ...claims, ...reap];
        return new Map(all.map(({ node }) => [node.name, steps.filter((step) => step.node === node.name)]));
      };
      expect(byNode(all.toReversed())).toEqual(byNode(all));
    }),
    { numRuns: 300 },
  );
});

it("ignores the first finding of a scan, and anything healthy in the second", () => {
  fc.assert(
    fc.property(sights, sights, silences, silences, (before, after, silent, silentLater) => {
      const first = planAll(before, silent).scan(new Set());
      expect(first.steps).toEqual([]);
      const { scan } = planAll(after, silentLater);
      const both = new Set([...scan(new Set()).suspects].filter((suspect) => first.suspects.has(suspect)));
      expect(scan(first.suspects).steps).toEqual(scan(both).steps);
      if (both.size === 0) expect(scan(first.suspects).steps).toEqual([]);
    }),
    { numRuns: 500 },
  );
});
