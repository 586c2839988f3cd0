import { makeMemoryBus } from "@muster/bus";
import { streams } from "@muster/proto";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { AuditRecord } from "../domain/replica-set.ts";
import { openAuditLog } from "./audit-log.ts";

const record = (replicaSet: string, id: number): AuditRecord => ({
  id: String(id),
  eventType: "SCALED",
  details: "{}",
  timestampMs: id,
  replicaSet,
  traceparent: "",
});

const NEVER = new AbortController().signal;

/** Record counts of consecutive runs of one set, so that trails are sparse in some ranges and dense in others. */
const trails = fc.array(fc.tuple(fc.constantFrom("web", "db", "cache"), fc.integer({ min: 1, max: 60 })), {
  maxLength: 12,
});

it("the pages of a trail from its end are the whole trail, and the limit bounds the cost of each", async () => {
  await fc.assert(
    fc.asyncProperty(trails, fc.integer({ min: 1, max: 20 }), async (runs, limit) => {
      await using bus = makeMemoryBus();
      let reads = 0;
      const log = openAuditLog({
        ...bus,
        readMessage: (...query) => {
          reads += 1;
          return bus.readMessage(...query);
        },
      });
      await bus.ensureStream(streams.audit);
      const written = runs.flatMap(([set, length]) => Array.from({ length }, () => set)).map(record);
      await log.publish(written);
      const own = written.filter(({ replicaSet }) => replicaSet === "web");
      let pages: AuditRecord[] = [];
      for (let before: number | undefined; ;) {
        reads = 0;
        const page = await log.page("web", { limit, before }, NEVER);
        const halvings = Math.log2(written.length + 1) + 1;
        expect(reads).toBeLessThanOrEqual(2 * halvings * (2 * limit + 4));
        expect(page.items.length).toBeLessThanOrEqual(limit);
        pages = [...page.items, ...pages];
        ({ before } = page);
        if (before === undefined) break;
        expect(page.items).toHaveLength(limit);
      }
      expect(pages).toEqual(own);
    }),
    { numRuns: 100 },
  );
});
