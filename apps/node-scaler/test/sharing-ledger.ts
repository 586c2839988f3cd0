import type { V1Node } from "@kubernetes/client-node";
import { serve, type Handlers, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import type { KubeCalls } from "@muster/kube";
import { labels, taints, type muster, ReservationService } from "@muster/proto";
import { allocatedFraction, amountsOf, fitsInto, freeOf, useOf, type Amounts } from "@muster/resources";

type Part = { readonly owner: string; readonly requests: Amounts; node: string | undefined };

type Seen = {
  readonly name: string;
  readonly isOpen: boolean;
  readonly cordoned: boolean;
  readonly allocatable: Amounts;
};

const notAsked = (): never => throwFault({ code: "internal", operation: "not asked for here" });

/** A ledger that grants parts of machines in the order in which they were asked for, each to the most allocated node that has room. */
export class SharingLedger {
  readonly parts: Part[] = [];

  /** Asks for one part; the owner is a lease of this name. */
  reserve(owner: string, requests: Readonly<Record<string, string>>): void {
    this.parts.push({ owner, requests: amountsOf(requests), node: undefined });
  }

  serve(bus: NatsBus, calls: KubeCalls): Promise<AsyncDisposable> {
    const handlers: Handlers<typeof ReservationService> = {
      reserve: notAsked,
      checkReservation: notAsked,
      unreserve: notAsked,
      limitConcurrency: notAsked,
      getReservation: notAsked,
      listReservations: notAsked,
      explainReservation: notAsked,
      listPools: notAsked,
      listDemand: () => Promise.resolve({ reservations: this.#waiting() }),
      listMachines: async () => ({ machines: this.#machines(await nodesOf(calls)), complete: true }),
    };
    return serve(bus, ReservationService, handlers, { version: "1.0.0", description: "for a test" });
  }

  #waiting(): muster.reservation.v1.Reservation.$Properties[] {
    const waiting = this.parts.filter(({ node }) => node === undefined);
    return waiting.map(({ owner, requests }, index) => ({
      id: owner,
      owner: { kind: "lease", id: owner },
      createdAtMs: 1000 + index,
      needs: [{ component: "main", pool: "elastic", shared: { requests: Object.fromEntries(requests) } }],
    }));
  }

  #freeOn({ name, allocatable }: Seen): Amounts {
    const uses = this.parts.filter(({ node }) => node === name).map(({ requests }) => useOf(requests));
    return freeOf({ allocatable, overhead: new Map(), uses });
  }

  #grant(nodes: readonly Seen[]): void {
    for (const part of this.parts.filter(({ node }) => node === undefined)) {
      const able = nodes
        .filter((node) => node.isOpen && fitsInto(part.requests, this.#freeOn(node)))
        .map((node) => ({ name: node.name, score: allocatedFraction(this.#freeOn(node), node.allocatable) }))
        .sort((one, other) => other.score - one.score || (one.name < other.name ? -1 : 1));
      part.node = able[0]?.name;
    }
  }

  #machines(nodes: readonly Seen[]): muster.reservation.v1.MachineState.$Properties[] {
    this.#grant(nodes);
    return nodes.map((node) => {
      const holders = this.parts.filter((part) => part.node === node.name);
      const standing = holders.length > 0 ? "SHARED" : "FREE";
      return {
        node: node.name,
        pool: "elastic",
        standing: node.isOpen ? standing : node.cordoned ? "CORDONED" : "NOT_READY",
        cordoned: node.cordoned,
        allocatable: Object.fromEntries(node.allocatable),
        free: Object.fromEntries(this.#freeOn(node)),
        sharedHolders: holders.map(({ owner }) => ({
          owner: { kind: "lease", id: owner },
          reservationId: owner,
          machines: 1,
          sinceMs: 1000,
        })),
      };
    });
  }
}

async function nodesOf(calls: KubeCalls): Promise<readonly Seen[]> {
  const { items } = await calls.list<V1Node>({ apiVersion: "v1", plural: "nodes" });
  return items
    .filter(({ metadata }) => metadata?.labels?.[labels.scaledNode] !== undefined)
    .map(({ metadata, spec, status }) => {
      const isReady = status?.conditions?.some(
        (condition) => condition.type === "Ready" && condition.status === "True",
      );
      const isClosed = spec?.taints?.some(({ key }) => key === taints.startup) === true;
      const cordoned = spec?.unschedulable === true;
      return {
        name: metadata?.name ?? "",
        isOpen: isReady === true && !isClosed && !cordoned,
        cordoned,
        allocatable: amountsOf(status?.allocatable ?? {}),
      };
    });
}
