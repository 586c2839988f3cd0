/** An order that its user may not have yet, or for which there is no room. */
export type WaitingOrder = { readonly order: { readonly id: string; readonly user: string } };

/** Orders that are tried again later. What a user ordered waits behind what he ordered before, which it may need: a container mounts a volume. */
export type WaitingOrders<Job extends WaitingOrder> = {
  has(id: string): boolean;
  /** Whether another one of its user waits that was there before it. */
  isBehind(job: Job): boolean;
  /** One that waits already may go on to. */
  hasRoom(id: string): boolean;
  /** Keeps the place of one of the same id. Returns false where that was there. */
  put(job: Job): boolean;
  /** Whether it is still that which waits under its id. */
  isCurrent(job: Job): boolean;
  drop(id: string): void;
  /** Those of each user in the order in which they came. */
  byUser(): readonly (readonly Job[])[];
  /** The ids of all of them. */
  ids(): readonly string[];
};

/** Holds at most so many, and a few more that are tried at the same moment. */
export function waitingOrders<Job extends WaitingOrder>(maxOrders: number): WaitingOrders<Job> {
  const jobs = new Map<string, Job>();
  return {
    has: (id) => jobs.has(id),
    isBehind: ({ order }) => {
      for (const { order: before } of jobs.values()) {
        if (before.id === order.id) return false;
        if (before.user === order.user) return true;
      }
      return false;
    },
    hasRoom: (id) => jobs.has(id) || jobs.size < maxOrders,
    put: (job) => {
      const isNew = !jobs.has(job.order.id);
      jobs.set(job.order.id, job);
      return isNew;
    },
    isCurrent: (job) => jobs.get(job.order.id) === job,
    drop: (id) => void jobs.delete(id),
    byUser: () => [...Map.groupBy(jobs.values(), ({ order }) => order.user).values()],
    ids: () => [...jobs.keys()],
  };
}
