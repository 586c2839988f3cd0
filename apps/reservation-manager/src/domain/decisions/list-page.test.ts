import fc from "fast-check";
import { expect, it } from "vitest";
import { makeNode, makeOwner, makeRequest, startRun, stepRun } from "../../../test/random-world.ts";
import { buildPage } from "./list-page.ts";

it("lists every reservation of the kind once, in the order of owners, for every page size", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(fc.constantFrom("job", "session", "session-2"), fc.nat({ max: 50 })), {
        selector: String,
      }),
      fc.constantFrom(undefined, "job", "session", "none"),
      fc.integer({ min: 1, max: 5 }),
      (owners, kind, limit) => {
        const run = startRun([makeNode("a0", "a")]);
        for (const [ownerKind, id] of owners)
          stepRun(run, { kind: "reserve", request: makeRequest(id, ["a"], { owner: makeOwner(id, ownerKind) }) });
        const seen: string[] = [];
        let after: string | undefined;
        do {
          const page = buildPage(run.world.ledger, { kind, after, limit });
          expect(page.reservations.length).toBeLessThanOrEqual(limit);
          seen.push(...page.reservations.map(({ owner }) => `${owner.kind}!${owner.id}`));
          after = page.next;
        } while (after !== undefined);
        const wanted = owners.filter(([ownerKind]) => kind === undefined || kind === ownerKind);
        expect(seen).toEqual(wanted.map(([ownerKind, id]) => `${ownerKind}!o${id}`).sort());
      },
    ),
  );
});
