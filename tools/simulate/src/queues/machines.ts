import { bucketKeys, muster } from "@muster/proto";
import type { Machine } from "@muster/reservation-manager/reservation";
import { writeKey } from "../sim-bucket.ts";
import type { World } from "../world.ts";

type Amounts = Readonly<Record<string, number>>;

/** A machine as the watcher publishes it. */
export type SimMachine = {
  readonly name: string;
  readonly pool: string;
  allocatable: Amounts;
  ready: boolean;
  cordoned: boolean;
  /** Whether the API server has it. */
  exists: boolean;
  /** Requests of foreign pods, by pod. */
  readonly foreign: Map<string, Amounts>;
  /** Pods of owners, by owner and component; of a whole machine without requests. */
  readonly pods: Map<string, { readonly owner: Owner; readonly shared: Amounts | undefined }>;
};

type Owner = { readonly kind: string; readonly id: string };

export type Machines = {
  readonly all: readonly SimMachine[];
  /** Publishes the current state of the machine. */
  readonly publish: (machine: SimMachine) => void;
  /** Starts and ends the pods of a grant. */
  readonly startPods: (owner: Owner, machines: readonly Machine[]) => void;
  readonly endPods: (owner: Owner) => void;
  /** The machines with pods of the owner. */
  readonly machinesOf: (owner: Owner) => readonly SimMachine[];
};

export const SIZE: Amounts = { cpu: 8, memory: 16, pods: 8 };
const POOLS = { a: 4, b: 3 };
/** The watcher renews its mark at least every 30 seconds. */
const MARK_EVERY_MS = 20_000;
const POOL_LABEL = "pool";
const wire = muster.watch.v1;

/** Starts machines of two pools, all of one size, and publishes them like a watcher that never fails. */
export function startMachines(world: World): Machines {
  const all = Object.entries(POOLS).flatMap(([pool, count]) =>
    Array.from({ length: count }, (_, index): SimMachine => {
      const good = { allocatable: SIZE, ready: true, cordoned: false, exists: true };
      return { name: `${pool}-${index}`, pool, ...good, foreign: new Map(), pods: new Map() };
    }),
  );
  const publish = (machine: SimMachine): void => {
    if (!machine.exists) machine.pods.clear();
    writeKey(world.nodeStates, machine.name, machine.exists ? encode(machine) : undefined);
  };
  const machinesOf = ({ id }: Owner): readonly SimMachine[] =>
    all.filter(({ pods }) => [...pods.values()].some(({ owner }) => owner.id === id));
  const mark = (): void => {
    const atMs = world.time.nowMs;
    writeKey(world.nodeStates, bucketKeys.nodesComplete, wire.NodesComplete.encode({ atMs }).finish());
    world.time.after(MARK_EVERY_MS, undefined, mark);
  };
  for (const machine of all) publish(machine);
  mark();
  return {
    all,
    publish,
    startPods: (owner, machines) => {
      for (const { node, component, shared } of machines) {
        const machine = all.find(({ name }) => name === node);
        if (machine?.exists !== true) continue;
        machine.pods.set(`${owner.id}/${component}`, { owner, shared: shared && Object.fromEntries(shared) });
        publish(machine);
      }
    },
    endPods: (owner) => {
      for (const machine of machinesOf(owner)) {
        for (const [name, pod] of [...machine.pods]) if (pod.owner.id === owner.id) machine.pods.delete(name);
        publish(machine);
      }
    },
    machinesOf,
  };
}

function encode({ name, pool, allocatable, ready, cordoned, foreign, pods }: SimMachine): Uint8Array {
  const byOwner = Map.groupBy(pods.values(), ({ owner }) => owner.id);
  const occupants = [...pods.values()].filter(({ shared }) => shared === undefined).map(({ owner }) => owner);
  const shared = [...byOwner.values()].flatMap((ofOwner) => {
    const parts = ofOwner.flatMap(({ shared: requests }) => (requests === undefined ? [] : [requests]));
    const [first] = ofOwner;
    return first === undefined || parts.length === 0 ? [] : [{ owner: first.owner, use: sumUses(parts) }];
  });
  return wire.NodeState.encode({
    name,
    uid: name,
    labels: { [POOL_LABEL]: pool },
    ready,
    cordoned,
    schedulable: !cordoned,
    allocatable: { ...allocatable },
    foreign: sumUses([...foreign.values()]),
    occupants,
    shared,
  }).finish();
}

function sumUses(requests: readonly Amounts[]) {
  const sums: Record<string, number> = {};
  for (const amounts of requests)
    for (const [resource, amount] of Object.entries(amounts)) sums[resource] = (sums[resource] ?? 0) + amount;
  return { pods: requests.length, requests: sums, examples: [] };
}
