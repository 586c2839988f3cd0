import { acceptsNode, type NodeSelection, type Taint } from "@muster/resources";
import type { Demand } from "../src/domain/demand.ts";
import type { Owner } from "@muster/names";
import type { PoolPolicy } from "../src/domain/pool.ts";
import type { KubeNode, Machine, Machines } from "../src/domain/sightings.ts";

type Reservation = {
  readonly id: string;
  readonly owner: Owner;
  readonly pool: string;
  readonly size: number;
  readonly atMs: number;
  readonly selection: NodeSelection | undefined;
  readonly topology?: string;
  /** Names of Kubernetes nodes; undefined while the reservation waits. */
  machines: readonly string[] | undefined;
};

/** `tainted` means that another client has set a taint that no work tolerates. */
type LedgerNode = KubeNode & { readonly tainted?: boolean; readonly taints?: readonly Taint[] };

function isOpen({ cordoned, hasStartupTaint, tainted }: LedgerNode): boolean {
  return !cordoned && !hasStartupTaint && tainted !== true;
}

/** This ledger grants whole machines only. */
const NO_PARTS = { sharedHolders: [], allocatable: new Map(), free: new Map() };

/** Implements the ledger's guarantees in few lines: all machines or none, the oldest reservation first, and only nodes that its own view shows as usable. */
export class SmallLedger {
  readonly reservations = new Map<string, Reservation>();
  #view: readonly { readonly node: LedgerNode; readonly pool: string }[] = [];
  #ids = 0;

  reserve(pool: string, size: number, atMs: number, selection?: NodeSelection): string {
    this.#ids += 1;
    const id = `${this.#ids}`;
    const owner = { kind: "job", id: `j-${id}` };
    this.reservations.set(id, { id, owner, pool, size, atMs, selection, machines: undefined });
    return id;
  }

  /** Reserves nodes with the same value of the label. */
  reserveTogether(pool: string, size: number, atMs: number, topology: string): string {
    const id = this.reserve(pool, size, atMs);
    const reservation = this.reservations.get(id);
    if (reservation !== undefined) this.reservations.set(id, { ...reservation, topology });
    return id;
  }

  release(id: string): void {
    this.reservations.delete(id);
  }

  /** Applies the reports of the watcher since the last call. */
  observe(nodes: readonly { readonly node: LedgerNode; readonly pool: string }[]): void {
    this.#view = nodes;
  }

  grant(): void {
    for (const reservation of this.reservations.values()) {
      if (reservation.machines !== undefined) continue;
      const { selection, topology } = reservation;
      const free = this.#view.filter(
        ({ node, pool }) =>
          pool === reservation.pool &&
          node.ready &&
          isOpen(node) &&
          acceptsNode(selection, { ...node, taints: node.taints ?? [] }) &&
          this.holderOf(node.name) === undefined,
      );
      const domains = Map.groupBy(free, ({ node }) => (topology === undefined ? "" : node.labels[topology]));
      const [, found = []] =
        [...domains].find(([value, nodes]) => value !== undefined && nodes.length >= reservation.size) ?? [];
      if (found.length > 0) reservation.machines = found.slice(0, reservation.size).map(({ node }) => node.name);
    }
  }

  holderOf(kubeNode: string): Reservation | undefined {
    return [...this.reservations.values()].find(({ machines }) => machines?.includes(kubeNode) === true);
  }

  machines(): Machines {
    const known = this.#view.map(({ node, pool }): Machine => {
      const holder = this.holderOf(node.name);
      const taints = node.hasStartupTaint ? [] : (node.taints ?? []);
      const granted = holder === undefined ? "FREE" : "HELD";
      const toleratedStanding = node.ready ? (isOpen(node) ? granted : "CORDONED") : "NOT_READY";
      return {
        node: node.name,
        pool,
        standing: taints.length > 0 && node.ready ? "CORDONED" : toleratedStanding,
        toleratedStanding,
        taints,
        cordoned: node.cordoned,
        holder: holder && { owner: holder.owner, reservationId: holder.id },
        ...NO_PARTS,
      };
    });
    const names = new Set(known.map(({ node }) => node));
    const lost = [...this.reservations.values()].flatMap(({ id, owner, pool, machines = [] }) =>
      machines
        .filter((name) => !names.has(name))
        .map((node): Machine => ({
          node,
          pool,
          standing: "LOST",
          toleratedStanding: "LOST",
          taints: [],
          cordoned: false,
          holder: { owner, reservationId: id },
          ...NO_PARTS,
        })),
    );
    return { byNode: new Map([...known, ...lost].map((machine) => [machine.node, machine])), complete: true };
  }

  demands(policies: ReadonlyMap<string, PoolPolicy>): Demand[] {
    return [...this.reservations.values()].flatMap(({ owner, pool, size, atMs, machines, selection, topology }) => {
      const policy = policies.get(pool);
      if (machines !== undefined || policy === undefined) return [];
      return Array.from({ length: size }, (_, index) => ({
        name: `${owner.kind}/${owner.id}/${index}`,
        group: `${owner.kind}/${owner.id}`,
        pool,
        createdAtMs: atMs,
        instanceTypes: policy.instanceTypes.map(({ name }) => name),
        spot: policy.spot,
        zone: undefined,
        gpus: 0,
        volumeGib: undefined,
        privateIpOnly: false,
        ...(selection !== undefined && { selection }),
        ...(topology !== undefined && { topology: { key: topology } }),
      }));
    });
  }
}
