import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { reportDeposed } from "./report-deposed.ts";

const fault = new FaultError({ code: "unavailable", dependency: "log ledger", retryAfterMs: 1 });

function reported(reason: unknown, isStopping: boolean) {
  const lines: unknown[] = [];
  const log = (level: string) => (fields: object) => void lines.push({ level, ...fields });
  let thrown: unknown;
  try {
    reportDeposed({ warn: log("warn"), error: log("error") }, reason, isStopping);
  } catch (error) {
    thrown = error;
  }
  return { lines, thrown };
}

it("logs why the writer of the ledger was deposed", () => {
  expect(reported(fault, false)).toEqual({ lines: [{ level: "warn", err: fault }], thrown: undefined });
});

it("logs a defect as an error, and rethrows it, also at a stop", () => {
  const defect = new TypeError("a defect");
  for (const isStopping of [false, true]) {
    expect(reported(defect, isStopping)).toEqual({ lines: [{ level: "error", err: defect }], thrown: defect });
  }
});

it("logs nothing at a stop", () => {
  expect(reported(fault, true)).toEqual({ lines: [], thrown: undefined });
});
