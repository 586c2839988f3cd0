import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { holdLogger } from "./hold-logger.ts";

it("logs each state, and a loss with its cause at the level that the cause has", () => {
  const lines: unknown[] = [];
  const log = (level: string) => (fields: object, message: string) => void lines.push({ level, ...fields, message });
  const logState = holdLogger({ info: log("info"), warn: log("warn"), error: log("error") }, "the lead");
  const fault = new FaultError({ code: "unavailable", dependency: "JetStream", retryAfterMs: 1 });
  const defect = new TypeError("a defect");
  logState("leading");
  logState("lost", fault);
  logState("lost", defect);
  expect(lines).toEqual([
    { level: "info", state: "leading", message: "the lead" },
    { level: "warn", state: "lost", err: fault, message: "the lead" },
    { level: "error", state: "lost", err: defect, message: "the lead" },
  ]);
});
