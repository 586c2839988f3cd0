import { FaultError } from "@muster/faults";
import type { Reservation, WaitReason } from "@muster/ledger-client";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { makeLeaseQueue, findQueueWait } from "./lease-queue.ts";

const { ListQueuesReply, QueueState } = muster.reservation.v1;
const { signal } = new AbortController();
const REQUEST = { owner: "1-1-1", pool: "n", needs: [{ component: "machine-0", pool: "n" }] };
const { needs } = REQUEST;

function reservation(state: "waiting" | "granted", queue?: string, because?: WaitReason): Reservation {
  const common = {
    id: "r",
    ownerId: "1-1-1",
    sequence: 1,
    revision: 1,
    createdAtMs: 0,
    needs,
    ...(queue !== undefined && { queue }),
  };
  return state === "granted" ? { ...common, state, machines: [] } : { ...common, state, because };
}

type Given = {
  /** The reservation of the lease in the ledger. */
  readonly found?: Reservation;
  readonly queues: readonly string[];
};

/** A ledger that grants everything in a known queue, and the requests that it received. */
function ledgerOf({ found, queues }: Given) {
  let present = found;
  const calls: string[] = [];
  const requireQueue = (queue: string | undefined): Promise<void> =>
    queue === undefined || queues.includes(queue)
      ? Promise.resolve()
      : Promise.reject(new FaultError({ code: "queue_unknown", queue }));
  const ledger: Parameters<typeof makeLeaseQueue>[0] = {
    listQueues: () => Promise.resolve(ListQueuesReply.create({ queues: queues.map(() => QueueState.create()) })),
    ask: () => Promise.resolve(present),
    release: () => {
      calls.push("release");
      present = undefined;
      return Promise.resolve(true);
    },
    check: async (_owner, _needs, { queue } = {}) => {
      await requireQueue(queue);
      return undefined;
    },
    reserve: async (_owner, _needs, { queue } = {}) => {
      if (present === undefined) await requireQueue(queue);
      calls.push(`reserve in ${queue ?? "none"}`);
      present ??= reservation("granted", queue);
      return present;
    },
  };
  return { ledger, calls };
}

const NONE = { queues: [] };
const TEAM = { queues: ["team"] };

it.each<[string, string | undefined, Given, readonly string[], string]>([
  ["has no queue as long as none exists", undefined, NONE, ["reserve in none"], "granted"],
  ["has the queue of the setting", "team", TEAM, ["reserve in team"], "granted team"],
  ["waits without a setting once a queue exists", undefined, TEAM, [], "PROVISION_QUEUE"],
  ["keeps its machines without a setting", undefined, { ...TEAM, found: reservation("granted") }, [], "granted"],
  [
    "leaves its place without a queue",
    undefined,
    { ...TEAM, found: reservation("waiting") },
    ["release"],
    "PROVISION_QUEUE",
  ],
  ["waits for a queue that does not exist", "other", TEAM, [], "queue other does not exist"],
  [
    "moves to the queue of the setting while it waits",
    "team",
    { ...TEAM, found: reservation("waiting", "other") },
    ["reserve in team", "release", "reserve in team"],
    "granted team",
  ],
  [
    "keeps the queue in which it has its machines",
    "team",
    { ...TEAM, found: reservation("granted", "other") },
    ["reserve in team"],
    "granted other",
  ],
])("a lease %s", async (_title, setting, given, calls, outcome) => {
  const world = ledgerOf(given);
  const queue = makeLeaseQueue(world.ledger, setting);
  const got = await queue.reserve(REQUEST, signal).then(
    (found) => [found.state, found.queue ?? ""].join(" ").trim(),
    (error: unknown) => (error as FaultError).message,
  );
  expect([got.includes(outcome) ? outcome : got, world.calls]).toEqual([outcome, calls]);
  const why = await queue.whyNone(REQUEST, signal);
  expect(why === undefined).toBe(setting === undefined ? given.queues.length === 0 : given.queues.includes(setting));
});

it("describes the wait for a queue, and not that for machines", () => {
  const because = { code: "QUEUE_HELD", pool: "n", requested: 1, parts: 0, available: 0, ahead: 0, queue: "team" };
  expect(findQueueWait(reservation("waiting", "team", because))).toContain("the queue team admits nothing now");
  expect(findQueueWait(reservation("waiting", "team", { ...because, code: "POOL_AVAILABILITY" }))).toBeUndefined();
  expect(findQueueWait(reservation("granted", "team"))).toBeUndefined();
});
