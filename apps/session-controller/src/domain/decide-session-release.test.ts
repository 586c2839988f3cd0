import { describe, expect, it } from "vitest";
import { makeRecord, START_MS } from "../../test/samples.ts";
import { decideSessionRelease, type FoundReservation } from "./decide-session-release.ts";

const needs = makeRecord().spec.components.map(({ name, pool }) => ({ component: name, pool }));
const found: FoundReservation = { id: "r-9", createdAtMs: START_MS, needs };

describe("decideSessionRelease", () => {
  it.each([
    ["what the record names, whatever stands under the name", makeRecord({ reservationId: "r-1" }), found, "r-1"],
    ["what was found, when the record names none", makeRecord(), found, "r-9"],
    ["nothing when nothing was found", makeRecord(), undefined, undefined],
    ["nothing that is older than the session", makeRecord(), { ...found, createdAtMs: START_MS - 1 }, undefined],
    ["nothing with fewer machines", makeRecord(), { ...found, needs: needs.slice(1) }, undefined],
    [
      "nothing of another pool",
      makeRecord(),
      { ...found, needs: needs.map((n) => ({ ...n, pool: "gpus" })) },
      undefined,
    ],
  ])("releases %s", (_title, session, reservation, id) => {
    expect(decideSessionRelease(session, reservation)).toBe(id);
  });
});
