import type { QueueState, Reservation } from "../adapters/messages.ts";

/** A queue with its position in its tree. */
export type PlacedQueue = { readonly state: QueueState; readonly name: string; readonly depth: number };

/** Arranges queues as trees: each queue after its parent, siblings by name. A queue with a missing parent, or in a cycle, is a root. */
export function placeQueues(queues: readonly QueueState[]): readonly PlacedQueue[] {
  const named = queues.map((state) => ({ state, name: state.queue?.name ?? "", parent: state.queue?.parent ?? "" }));
  const sorted = named.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const byParent = Map.groupBy(sorted, ({ parent }) => parent);
  const names = new Set(named.map(({ name }) => name));
  const placed = new Map<string, PlacedQueue>();
  const place = (each: (typeof named)[number], depth: number): void => {
    if (placed.has(each.name)) return;
    placed.set(each.name, { state: each.state, name: each.name, depth });
    for (const child of byParent.get(each.name) ?? []) place(child, depth + 1);
  };
  for (const each of sorted) if (!names.has(each.parent)) place(each, 0);
  // The remaining queues are in cycles.
  for (const each of sorted) place(each, 0);
  return [...placed.values()];
}

/** The use of one resource of one pool by a queue. */
export type QueueBar = {
  readonly pool: string;
  readonly resource: string;
  readonly used: number;
  readonly nominal: number;
  /** The part of `used` beyond the quota. */
  readonly borrowed: number;
};

/** Returns one bar for each resource that the queue uses or has quota for. */
export function barsOfQueue({ used, borrowed, quota }: QueueState): readonly QueueBar[] {
  const bars = new Map<string, QueueBar>();
  const add = (uses: QueueState["used"], field: "used" | "nominal" | "borrowed"): void => {
    for (const { pool, amounts } of uses)
      for (const [resource, amount] of Object.entries(amounts)) {
        const key = `${pool}/${resource}`;
        const known = bars.get(key) ?? { pool, resource, used: 0, nominal: 0, borrowed: 0 };
        bars.set(key, { ...known, [field]: amount });
      }
  };
  add(quota, "nominal");
  add(used, "used");
  add(borrowed, "borrowed");
  return [...bars].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, bar]) => bar);
}

/** Returns waiting requests in the order of the ledger: higher priorities first, then older ones. */
export function waitingIn(queue: string, reservations: readonly Reservation[]): readonly Reservation[] {
  return reservations
    .filter((each) => each.queue === queue && each.state === "WAITING")
    .sort((one, other) => other.priority - one.priority || one.sequence - other.sequence);
}

const QUEUE_PROBLEMS: Readonly<Record<string, string>> = {
  PARENT_MISSING: "its parent does not exist",
  CYCLE: "it is below itself",
  TOO_DEEP: "its tree is too deep",
  UNREADABLE: "its resource cannot be read",
  HELD: "it is held",
};

/** Describes why a queue admits nothing, for people. */
export function describeQueueProblem(problem: string): string {
  return QUEUE_PROBLEMS[problem] ?? problem;
}
