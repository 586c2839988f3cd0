import { describe, expect, it } from "vitest";
import { toCapitalizedNames, enums, toLowercaseNames, muster, type EnumTable } from "./index.ts";

const GENERATED = [
  ["AllocationStrategy", muster.farm.v1.AllocationStrategy, enums.AllocationStrategy],
  ["TransferCause", muster.farm.v1.TransferCause, enums.TransferCause],
  ["TransferPhase", muster.farm.v1.TransferPhase, enums.TransferPhase],
  ["RollPhase", muster.farm.v1.RollPhase, enums.RollPhase],
  ["Health", muster.health.v1.Health, enums.Health],
  ["NodePhase", muster.node.v1.NodePhase, enums.NodePhase],
  ["SignatureFormat", muster.provision.v1.SignatureFormat, enums.SignatureFormat],
  ["ResultState", muster.provision.v1.ResultState, enums.ResultState],
  ["LeasePhase", muster.provision.v1.LeasePhase, enums.LeasePhase],
  ["ReservationState", muster.reservation.v1.ReservationState, enums.ReservationState],
  ["ComponentKind", muster.session.v1.ComponentKind, enums.ComponentKind],
  ["SessionEventKind", muster.session.v1.SessionEventKind, enums.SessionEventKind],
] as const satisfies readonly (readonly [string, object, EnumTable<string>])[];

it("has a table for every enum", () => {
  expect(GENERATED.map(([title]) => title).sort()).toEqual(Object.keys(enums).sort());
});

describe.each(GENERATED)("%s", (_title, values, table: EnumTable<string>) => {
  const declared = Object.entries(values).filter(([value]) => Number.isNaN(Number(value)));

  it("names every value but the unspecified one, and brings each back", () => {
    const specified = declared.filter(([value]) => !value.endsWith("_UNSPECIFIED"));
    expect(Object.keys(table.numbers)).toHaveLength(specified.length);
    for (const [value, number] of specified) {
      const name = table.requireName(Number(number), "value");
      expect(value.endsWith(`_${name}`)).toBe(true);
      expect([table.numbers[name], table.numberOf(name)]).toEqual([number, number]);
    }
  });

  it("has no name for a number that only a later version defines", () => {
    expect(table.nameOf(99)).toBeUndefined();
    expect(() => table.requireName(99, "value")).toThrow("99 is no value that this version knows");
    expect(table.numberOf("LATER")).toBeUndefined();
  });
});

it("takes an absent field for the unspecified value", () => {
  expect(enums.Health.nameOf(muster.health.v1.Health.HEALTH_UNSPECIFIED)).toBeUndefined();
  expect(enums.Health.nameOf(undefined)).toBeUndefined();
  expect(() => enums.Health.requireName(undefined, "health")).toThrow("0 is no health that this version knows");
  // The zero of this enum is a regular value.
  expect(enums.ResultState.nameOf(undefined)).toBe("ERROR");
});

it("writes names as a domain has them", () => {
  expect(Object.keys(toLowercaseNames(enums.ReservationState).numbers)).toEqual(["waiting", "granted"]);
  expect(Object.keys(toCapitalizedNames(enums.AllocationStrategy).numbers)).toEqual(["Static", "Dynamic"]);
  expect(toCapitalizedNames(enums.NodePhase).nameOf(3)).toBe("Available");
});
