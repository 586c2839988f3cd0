import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonValue } from "../apiserver/json.ts";
import { readMachineCommand } from "./read-machines.ts";
import { readMachinesFile } from "./read-machines-file.ts";

describe("readMachineCommand", () => {
  const inject = (rule: unknown) => ({ do: "inject", rules: [rule] });
  it.each<[string, JsonValue]>([
    ["answers", { do: "answer", code: 429, retryAfterSeconds: 2 }],
    ["delays", { do: "delay", ms: 5 }],
    ["boot delays", { do: "boot-delay", from: 1, to: 2 }],
    ["boot failures", { do: "boot-failure", message: "no disk" }],
    ["losses of spot", { do: "spot-loss", afterMs: 1, noticeMs: 2 }],
    ["machines that vanish", { do: "vanish", afterMs: 1 }],
    ["zombies", { do: "zombie", orders: 2 }],
    ["twins", { do: "twin" }],
  ])("knows %s", (_title, fault) => {
    const rule = { id: "r", match: { calls: ["create"], spot: true, zones: ["a"] }, fault, times: 2, share: 0.5 };
    expect(readMachineCommand(inject(rule))).toEqual(inject(rule));
  });

  it.each<[object, string | RegExp]>([
    [{ fault: { do: "twin" } }, "rules.0.id: is missing"],
    [{ id: "r" }, "rules.0.fault: is missing"],
    [{ id: "r", fault: { do: "explode" } }, /^rules.0.fault.do: one of answer, .*, twin is needed, not "explode"$/],
    [{ id: "r", fault: { do: "twin", ms: 1 } }, "rules.0.fault: unknown: ms; known: do"],
    [
      { id: "r", fault: { do: "answer", code: 418 } },
      "rules.0.fault.code: one of 400, 429, 500, 503 is needed, not 418",
    ],
    [{ id: "r", fault: { do: "delay", ms: -1 } }, "rules.0.fault.ms: at least 0 is needed, not -1"],
    [{ id: "r", fault: { do: "boot-delay", from: 3, to: 2 } }, "rules.0.fault.from: must not be more than to"],
    [
      { id: "r", match: { calls: ["sing"] }, fault: { do: "twin" } },
      'rules.0.match.calls.0: one of create, list, get, delete, images, types is needed, not "sing"',
    ],
    [
      { id: "r", match: { colour: "blue" }, fault: { do: "twin" } },
      "rules.0.match: unknown: colour; known: calls, owners, nodeNames, instanceTypes, spot, zones",
    ],
    [{ id: "r", fault: { do: "twin" }, times: 0 }, "rules.0.times: at least 1 is needed, not 0"],
    [{ id: "r", fault: { do: "twin" }, share: 2 }, "rules.0.share: at most 1 is needed, not 2"],
    [{ id: "r", fault: { do: "twin" }, times: 0.5, share: "all" }, "; rules.0.share: a number is needed"],
  ])("refuses %j: %s", (rule, reason) => {
    expect(() => readMachineCommand(inject(rule))).toThrow(reason);
  });

  it("refuses unknown commands", () => {
    expect(() => readMachineCommand({ do: "explode" })).toThrow(
      'do: one of inject, remove, lose-spot, vanish, count is needed, not "explode"',
    );
    expect(() => readMachineCommand({ do: "vanish", nodeName: "n", colour: "blue" })).toThrow("unknown: colour");
  });
});

describe("readMachinesFile", () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "muster-machines-file-"));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const read = (text: string) => {
    const file = join(directory, "machines.yaml");
    writeFileSync(file, text);
    return readMachinesFile(file);
  };

  it("reads YAML, with one boot time or a range of them", () => {
    const text = `
types: [{ name: small, cpu: 4, memory: 8Gi, bootMs: 100 }, { name: large, cpu: "16", memory: 64Gi, gpus: 2, spot: false }]
zones: [a, b]
bootMs: { from: 10, to: 20 }
machinesMax: 3
faults: [{ id: short, match: { zones: [a] }, fault: { do: no-capacity } }]
`;
    expect(read(text)).toEqual({
      types: [
        { name: "small", cpu: "4", memory: "8Gi", bootMs: { from: 100, to: 100 } },
        { name: "large", cpu: "16", memory: "64Gi", gpus: 2, spot: false },
      ],
      zones: ["a", "b"],
      bootMs: { from: 10, to: 20 },
      machinesMax: 3,
      faults: [{ id: "short", match: { zones: ["a"] }, fault: { do: "no-capacity" } }],
    });
  });

  it.each([
    ["types: [{ name: small }]", "types.0.cpu: is missing"],
    ["types: [{ name: small, cpu: 1, memory: 1Gi, colour: blue }]", "unknown: colour"],
    ["colours: []", "unknown: colours"],
    ["bootMs: -1", "bootMs.from: at least 0 is needed, not -1"],
    ["machinesMax: many", 'machinesMax: a number is needed, not "many"'],
    ["types: [", "machines.yaml"],
  ])("refuses %j: %s", (text, reason) => {
    expect(() => read(text)).toThrow(reason);
  });

  it("names a missing file", () => {
    expect(() => readMachinesFile(join(directory, "none.yaml"))).toThrow("none.yaml");
  });
});
