import { DRIVERS, WORKERS } from "./plan-session-shapes.ts";
import { type Random, makeRandom } from "./random.ts";

/** The queue of one team. Amounts are numbers of whole machines. */
export type TeamQueue = {
  readonly name: string;
  readonly weight: number;
  /** The queue reclaims its quota from work that borrows it. */
  readonly isReclaiming: boolean;
  /** Quotas by pool. */
  readonly quotas: Readonly<Record<string, { readonly nominal: number; readonly borrowingLimit: number }>>;
};

/** The parent of all teams. It owns nothing itself. */
export const ROOT_QUEUE = "company";
/** The queue of all sessions, beside the teams. It has no quota, so that sessions wait only for machines. */
export const SESSION_QUEUE = "sessions";
/** Amounts of one simulated node. */
export const MACHINE = { cpu: 4, memoryGi: 8 } as const;
/** Machines that the teams own together. Fewer than exist, so that jobs wait for quota. */
const OWNED = { [WORKERS]: 14, [DRIVERS]: 4 };
/** Machines of the largest job. */
const LARGEST = { [WORKERS]: 12, [DRIVERS]: 2 };

/** Plans the queues of one run: two teams that own machines, and one that only borrows. Each may borrow enough for every job. */
export function planQueues(seed: number): readonly TeamQueue[] {
  const random = makeRandom(seed, "queues");
  const large = random.integer(7, 10);
  const owned = [
    { name: "team-a", weight: 1, [WORKERS]: large, [DRIVERS]: 2 },
    { name: "team-b", weight: random.pick([1, 2]), [WORKERS]: OWNED[WORKERS] - large, [DRIVERS]: 2 },
    { name: "team-c", weight: random.pick([0, 1]), [WORKERS]: 0, [DRIVERS]: 0 },
  ];
  return owned.map(({ name, weight, ...machines }) => {
    const quotaOf = (pool: typeof WORKERS | typeof DRIVERS) => {
      const nominal = machines[pool];
      return { nominal, borrowingLimit: random.integer(LARGEST[pool], OWNED[pool]) - nominal };
    };
    return {
      name,
      weight,
      isReclaiming: name === "team-a",
      quotas: { [WORKERS]: quotaOf(WORKERS), [DRIVERS]: quotaOf(DRIVERS) },
    };
  });
}

/** The team of a job: in the first half mostly those that own little, which borrow; the owner of most comes later. */
export function planTeam(random: Random, isFirstHalf: boolean): string {
  return random.weighted(
    isFirstHalf ? { "team-a": 1, "team-b": 3, "team-c": 2 } : { "team-a": 5, "team-b": 2, "team-c": 1 },
  );
}

/** Builds the manifests of all queues, the parent of the teams first. */
export function buildQueues(teams: readonly TeamQueue[]) {
  const apiVersion = "muster.dev/v1";
  const kind = "Queue";
  const root = { apiVersion, kind, metadata: { name: ROOT_QUEUE }, spec: {} };
  const children = teams.map(({ name, weight, isReclaiming, quotas }) => ({
    apiVersion,
    kind,
    metadata: { name },
    spec: {
      parent: ROOT_QUEUE,
      weight,
      namespaceSelector: {},
      ...(isReclaiming && { preemption: { reclaim: "Any" } }),
      quotas: Object.entries(quotas).map(([pool, { nominal, borrowingLimit }]) => ({
        pool,
        resources: [
          { name: "cpu", nominal: nominal * MACHINE.cpu, borrowingLimit: borrowingLimit * MACHINE.cpu },
          {
            name: "memory",
            nominal: `${nominal * MACHINE.memoryGi}Gi`,
            borrowingLimit: `${borrowingLimit * MACHINE.memoryGi}Gi`,
          },
        ],
      })),
    },
  }));
  const sessions = { apiVersion, kind, metadata: { name: SESSION_QUEUE }, spec: { namespaceSelector: {} } };
  return [root, ...children, sessions];
}
