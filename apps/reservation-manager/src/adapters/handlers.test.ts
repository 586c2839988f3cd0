import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import type { QueueReport } from "../domain/decisions/list-queues.ts";
import { buildOwnerKey, type Reservation } from "../domain/ledger/reservation.ts";
import type { LedgerKeeper } from "../ledger-keeper.ts";
import { makeHandlers, type ReportedViews } from "./handlers.ts";

const VIEWS: ReportedViews = { scaledAtMs: () => 0, namespacesOf: () => undefined };

/** Gangs of 1,000 members with long names. */
const LARGE = Array.from({ length: 30 }, (_, index): Reservation => {
  const owner = { kind: "job", id: `gang-${String(index).padStart(2, "0")}` };
  const needs = Array.from({ length: 1000 }, (_each, member) => ({
    component: `worker-${member}`,
    pool: "p".repeat(60),
  }));
  return { sequence: index + 1, owner, needs, priority: 0, createdAtMs: 0 };
});

it("limits a page of reservations to what fits into a reply, and lists all of them over several pages", async () => {
  const keeper: Pick<LedgerKeeper, "list"> = {
    list: ({ after = "" }) => {
      const reports = LARGE.filter(({ owner }) => buildOwnerKey(owner) > after).map((reservation) => {
        return { reservation, because: undefined };
      });
      return Promise.resolve({ reports, next: undefined, nextSequence: LARGE.length + 1 });
    },
  };
  const { listReservations } = makeHandlers(keeper as LedgerKeeper, VIEWS);
  const context = { signal: new AbortController().signal, deadlineMs: Infinity, pageBytes: 512 * 1024 };
  const seen: string[] = [];
  let after = "";
  do {
    const request = new muster.reservation.v1.ListReservationsRequest({ continue: after });
    const reply = await listReservations(request, context);
    const message = muster.reservation.v1.ListReservationsReply.encode(reply).finish();
    expect(message.length).toBeLessThan(2 * context.pageBytes);
    seen.push(...(reply.reservations ?? []).map(({ owner }) => owner?.id ?? ""));
    after = reply.continue ?? "";
  } while (after !== "");
  expect(seen).toEqual(LARGE.map(({ owner }) => owner.id));
});

it("lists queues with the namespaces that they state, which the ledger does not keep", async () => {
  const report = (name: string): QueueReport => ({
    queue: { name, weightMilli: 1000, quotas: new Map(), strategy: "BestEffortFIFO", stopPolicy: "None" },
    ...{ used: new Map(), borrowed: new Map(), quota: new Map(), pending: 0, admitted: 0 },
    ...{ shareMillionths: 0, pastShareMillionths: 0, problem: undefined },
  });
  const keeper: Pick<LedgerKeeper, "listQueues"> = {
    listQueues: () => Promise.resolve({ reports: [report("all"), report("none")], next: undefined }),
  };
  const stated = muster.reservation.v1.LabelSelector.create({ matchLabels: { team: "a" } });
  const namespacesOf = (queue: string) => (queue === "all" ? stated : undefined);
  const { listQueues } = makeHandlers(keeper as LedgerKeeper, { ...VIEWS, namespacesOf });
  const context = { signal: new AbortController().signal, deadlineMs: Infinity, pageBytes: 512 * 1024 };
  const { queues } = await listQueues(new muster.reservation.v1.ListQueuesRequest(), context);
  expect(queues?.map(({ queue }) => [queue?.name, queue?.namespaces?.matchLabels])).toEqual([
    ["all", { team: "a" }],
    ["none", undefined],
  ]);
});
