import { describe, expect, it } from "vitest";
import {
  buildShare,
  countMachines,
  describeShare,
  buildMachineCell,
  buildPartCells,
  buildPartHeader,
  type Share,
} from "./share.ts";

it.each<[Readonly<Record<string, number>>, Share, string]>([
  [{}, {}, "no requests"],
  [{ memory: 2 ** 30, cpu: 500 }, { cpu: "500m", memory: "1Gi" }, "500m cpu, 1Gi"],
  [{ cpu: 2000, memory: 1e9 }, { cpu: "2", memory: "1G" }, "2 cpu, 1G"],
  [{ cpu: 1250, memory: 1_234_567 }, { cpu: "1250m", memory: "1234567" }, "1250m cpu, 1234567"],
  [
    { "nvidia.com/gpu": 1, "ephemeral-storage": 5 * 2 ** 30 },
    { "nvidia.com/gpu": "1", "ephemeral-storage": "5Gi" },
    "5Gi ephemeral-storage, 1 nvidia.com/gpu",
  ],
  [{ memory: 8 * 2 ** 50 }, { memory: "8Pi" }, "8Pi"],
])("shows %j as quantities", (requests, share, text) => {
  expect(buildShare(requests)).toEqual(share);
  expect(describeShare(buildShare(requests))).toBe(text);
});

describe("machines, and parts of machines", () => {
  const [whole, part] = [{}, { shared: { cpu: "500m" } }];

  it.each([
    [[], "0 machines", "0"],
    [[whole], "1 machine", "1"],
    [[part], "1 part of a machine", "1 part"],
    [[whole, whole, part, part, part], "2 machines and 3 parts of machines", "2 + 3 parts"],
  ])("are counted separately: %j", (all, text, cell) => {
    expect([countMachines(all), buildMachineCell(all)]).toEqual([text, cell]);
  });

  it("have a column of their own only if a part exists", () => {
    expect([buildPartHeader([whole]), buildPartCells(whole, [whole])]).toEqual([[], []]);
    expect(buildPartHeader([whole, part])).toEqual(["PART"]);
    expect([whole, part].map((each) => buildPartCells(each, [whole, part]))).toEqual([["whole"], ["500m cpu"]]);
  });
});
