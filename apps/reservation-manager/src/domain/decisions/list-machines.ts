import { getReservation, type Ledger } from "../ledger/ledger.ts";
import type { Amounts, Taint } from "@muster/resources";
import {
  getNodeStanding,
  findUncountedUse,
  withTaintsTolerated,
  type MachineRecord,
  type NodeUse,
  type Standing,
} from "../ledger/machines.ts";
import type { Reservation } from "../ledger/reservation.ts";
import type { World } from "../ledger/world.ts";
import { computeExcess, findFreeAmounts } from "./summarise-pools.ts";

export type MachinePageRequest = {
  /** Only machines of this pool; undefined: all pools. */
  readonly pool: string | undefined;
  /** Only this node; absent: all. */
  readonly node?: string | undefined;
  /** The `next` of the page before; undefined: from the beginning. */
  readonly after: string | undefined;
  readonly limit: number;
};

/** The state of one node in the ledger. */
export type MachineState = {
  readonly node: string;
  readonly pool: string;
  /** `lost`: an owner holds the machine, but the node is missing. */
  readonly standing: Standing | "lost";
  /** As `standing`, for needs that tolerate all of its taints. */
  readonly toleratedStanding: Standing | "lost";
  readonly taints: readonly Taint[];
  readonly cordoned: boolean;
  /** Absent: unknown. */
  readonly zone?: string;
  /** Undefined: no owner holds the whole machine. */
  readonly holder: Reservation | undefined;
  /** Owners of parts of the machine, in the order of arrival. */
  readonly partHolders: readonly Reservation[];
  /** Undefined: unknown. */
  readonly allocatable: Amounts | undefined;
  /** The amounts that can be granted in parts now to needs that tolerate the machine's taints; undefined: none. */
  readonly free: Amounts | undefined;
  readonly foreign: NodeUse | undefined;
  /** The use beyond the allocatable amounts; empty: none. */
  readonly excess: Amounts;
};

/** `next` is set if more machines follow. `complete`: every node is known. */
export type MachinePage = {
  readonly machines: readonly MachineState[];
  readonly next: string | undefined;
  readonly complete: boolean;
};

/** Returns one page of the nodes in name order. Omits nodes without a pool, which are no machines. */
export function buildMachinePage({ ledger, machines }: World, request: MachinePageRequest): MachinePage {
  const { pool, node: only, after, limit } = request;
  const { complete } = machines;
  const listed: MachineState[] = [];
  for (const [node, record] of machines.nodes.entries(only ?? after)) {
    if (only !== undefined && node !== only) break;
    if (node === after) continue;
    const state = stateOf(node, record, ledger);
    if (state === undefined || (pool !== undefined && state.pool !== pool)) continue;
    if (listed.length === limit) return { machines: listed, next: listed.at(-1)?.node, complete };
    listed.push(state);
  }
  return { machines: listed, next: undefined, complete };
}

/** A missing node, or one without its pool label, belongs to the pool of its grant. */
function stateOf(node: string, record: MachineRecord, ledger: Ledger): MachineState | undefined {
  const sequence = ledger.holders.get(node);
  const holder = sequence === undefined ? undefined : getReservation(ledger, sequence);
  const granted = holder ?? firstPartHolder(record, ledger);
  const pool = record.facts?.pool ?? granted?.grant?.machines.find((machine) => machine.node === node)?.pool;
  if (pool === undefined) return undefined;
  const partHolders = [...new Set(record.parts?.map(({ sequence }) => sequence))].map((each) =>
    getReservation(ledger, each),
  );
  const held = { node, pool, holder, partHolders, excess: NO_EXCESS };
  const { facts } = record;
  if (facts === undefined) return { ...held, ...LOST };
  const standing = getNodeStanding(facts, record);
  const tolerated = withTaintsTolerated(facts);
  const toleratedStanding = getNodeStanding(tolerated, record);
  const { allocatable, cordoned, taints } = facts;
  const free = findFreeAmounts(tolerated, record, toleratedStanding);
  const foreign = findUncountedUse(facts, record);
  const excess = computeExcess(facts, record, foreign);
  const zone = facts.labels[ZONE];
  const place = { ...(zone !== undefined && { zone }) };
  return { ...held, ...place, standing, toleratedStanding, taints, cordoned, allocatable, free, foreign, excess };
}

/** The label of a node's zone. */
const ZONE = "topology.kubernetes.io/zone";

const NO_EXCESS: Amounts = new Map();

const LOST = {
  standing: "lost",
  toleratedStanding: "lost",
  taints: [],
  cordoned: false,
  allocatable: undefined,
  free: undefined,
  foreign: undefined,
} as const;

function firstPartHolder({ parts }: MachineRecord, ledger: Ledger): Reservation | undefined {
  const first = parts?.[0];
  return first && getReservation(ledger, first.sequence);
}
