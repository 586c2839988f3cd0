import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kubeCalls, leaderElection, type KubeCalls, type Lead } from "../src/index.ts";
import { apiServers, type TestApiServer } from "./api-servers.ts";

/** Short, because here the time is real. */
const timing = { leaseMs: 2000, renewDeadlineMs: 1200, retryMs: 200 };

describe.each(apiServers())("on $title", ({ skip, start }) => {
  let server: TestApiServer;
  beforeAll(async () => {
    if (!skip) server = await start();
  });
  afterAll(async () => {
    if (!skip) await server[Symbol.asyncDispose]();
  });

  function candidate(calls: KubeCalls, name: string, told: string[]) {
    const stop = new AbortController();
    const terms: Lead[] = [];
    const ended = leaderElection({
      calls,
      lease: { namespace: "default", name },
      timing,
      stop: stop.signal,
      lead: (lead) => {
        const id = `term ${lead.fencing}`;
        terms.push(lead);
        told.push(`${id} begins`);
        return new Promise((resolve) => {
          AbortSignal.any([lead.signal, stop.signal]).addEventListener("abort", () => {
            told.push(`${id} ends`);
            resolve();
          });
        });
      },
    });
    return { stop, terms, ended };
  }

  it.skipIf(skip)(
    "leads alone, hands over when it is stopped, and takes over from one that has gone silent",
    async () => {
      const told: string[] = [];
      await using steady = kubeCalls(server.config);
      const cut = kubeCalls(server.config);
      const first = candidate(steady, "handed", told);
      await until("the first leads", () => first.terms.length === 1);
      const second = candidate(cut, "handed", told);
      const lease = { apiVersion: "coordination.k8s.io/v1", plural: "leases", namespace: "default" };
      const before = await steady.get(lease, "handed");
      await until("the lease is renewed", async () => {
        const now = await steady.get(lease, "handed");
        return now.metadata?.resourceVersion !== before.metadata?.resourceVersion;
      });
      expect(second.terms).toEqual([]);

      first.stop.abort();
      await first.ended;
      await until("the second leads", () => second.terms.length === 1);

      // Its connections are gone for good; it cannot release the lease.
      await cut[Symbol.asyncDispose]();
      const third = candidate(steady, "handed", told);
      await until("the third leads", () => third.terms.length === 1);
      expect(second.terms[0]!.signal.aborted).toBe(true);
      third.stop.abort();
      second.stop.abort();
      await Promise.all([third.ended, second.ended]);
      expect(told).toEqual([0, 1, 2].flatMap((fencing) => [`term ${fencing} begins`, `term ${fencing} ends`]));
    },
  );

  it.skipIf(skip)("has one leader of five that come at once", async () => {
    const told: string[] = [];
    await using calls = kubeCalls(server.config);
    const all = Array.from({ length: 5 }, () => candidate(calls, "crowded", told));
    for (let fencing = 0; fencing < all.length; fencing += 1) {
      const leader = await until("one leads", () =>
        all.find(({ terms, stop }) => !stop.signal.aborted && terms.some(({ holds }) => holds())),
      );
      expect(all.filter(({ terms }) => terms.some(({ holds }) => holds()))).toHaveLength(1);
      leader.stop.abort();
      await leader.ended;
    }
    expect(told).toEqual([0, 1, 2, 3, 4].flatMap((fencing) => [`term ${fencing} begins`, `term ${fencing} ends`]));
  });
});
