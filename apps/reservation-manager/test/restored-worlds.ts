import { restoreLedger } from "../src/domain/ledger/ledger.ts";
import { buildMachines, type NodeFacts } from "../src/domain/ledger/machines.ts";
import { parsePair, type PairAmounts, type Queue } from "../src/domain/ledger/queue.ts";
import type { Need, Reservation } from "../src/domain/ledger/reservation.ts";
import { runToEnd } from "../src/domain/ledger/steps.ts";
import type { World } from "../src/domain/ledger/world.ts";
import type { Forest, QueuedRequest } from "./naive-quota.ts";
import type { PreemptionWorld, Work } from "./naive-world.ts";
import { makeNode, makeOwner, toAmounts } from "./random-world.ts";

/** Restores the ledger of a world of the reference, so that one table of cases checks both. */
export function restoreWorld({ queues, nodes, work }: PreemptionWorld): World {
  return restore(queues, nodes, work.map(toReservation));
}

/** Restores a ledger whose grants use what the forest states, on machines with plentiful room. The requests ask for parts. */
export function restoreForest({ queues, own }: Forest, waiting: readonly QueuedRequest[]): World {
  const grants = [...own].map(([queue, use], index): Reservation => {
    const grant = { atMs: 0, machines: [], use };
    return { sequence: FIRST_GRANT + index, owner: makeOwner(queue, "job"), ...EARLY, queue, grant };
  });
  const requests = waiting.map(({ ask, ...request }): Reservation => {
    return { ...request, owner: makeOwner(request.sequence, "job"), needs: partsOf(ask) };
  });
  return restore(queues, PLENTIFUL, [...grants, ...requests]);
}

/** Above the sequence of each request of a table. */
const FIRST_GRANT = 1_000_000;
const EARLY = { needs: [], priority: 0, createdAtMs: 0 };
const PLENTIFUL = [makeNode("n", "p", { allocatable: toAmounts({ cpu: 1000, memory: 1000, pods: 1000 }) })];

function restore(queues: readonly Queue[], nodes: readonly NodeFacts[], reservations: readonly Reservation[]): World {
  const ledger = runToEnd(restoreLedger(reservations, 1, { queues }));
  return { ledger, machines: buildMachines(nodes, ledger) };
}

function toReservation({ grant, notPreemptible, beyondMinimum, promise: _promise, ...asked }: Work): Reservation {
  return {
    ...asked,
    ...(notPreemptible === true && { notPreemptible }),
    ...(beyondMinimum === true && { beyondMinimum }),
    ...(grant !== undefined && {
      grant: {
        atMs: grant.atMs,
        machines: asked.needs.map((need, index) => ({ ...need, node: grant.nodes[index] ?? "" })),
        ...(asked.queue !== undefined && { use: grant.use }),
      },
    }),
  };
}

function partsOf(ask: PairAmounts): readonly Need[] {
  return [...ask].map(([pair, amount], index) => {
    const { pool, resource } = parsePair(pair);
    return { component: `c${index}`, pool, shared: toAmounts({ [resource]: amount }) };
  });
}
