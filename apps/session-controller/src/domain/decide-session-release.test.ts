import { describe, expect, it } from "vitest";
import { record, START_MS } from "../../test/samples.ts";
import { decideSessionRelease, type FoundReservation } from "./decide-session-release.ts";

const needs = record().spec.components.map(({ name, pool }) => ({ component: name, pool }));
const found: FoundReservation = { id: "r-9", createdAtMs: START_MS, needs };

describe("decideSessionRelease", () => {
  it.each([
    ["what the record names, whatever stands under the name", record({ reservationId: "r-1" }), found, "r-1"],
    ["what was found, when the record names none", record(), found, "r-9"],
    ["nothing when nothing was found", record(), undefined, undefined],
    ["nothing that is older than the session", record(), { ...found, createdAtMs: START_MS - 1 }, undefined],
    ["nothing with fewer machines", record(), { ...found, needs: needs.slice(1) }, undefined],
    ["nothing of another pool", record(), { ...found, needs: needs.map((n) => ({ ...n, pool: "gpus" })) }, undefined],
  ])("releases %s", (_title, session, reservation, id) => {
    expect(decideSessionRelease(session, reservation)).toBe(id);
  });
});
