import { describeFault, type Fault } from "@muster/faults";
import { expect, it } from "vitest";
import { describeTrouble } from "./describe-trouble.ts";

const away = (dependency: string): Fault => ({ code: "unavailable", dependency, retryAfterMs: 500 });

it.each([
  ["session", "the session-controller service does not answer: no replica of it is connected"],
  ["job", "the job-controller service does not answer: no replica of it is connected"],
  ["kubernetes", describeFault(away("kubernetes"))],
])("describes the unavailable dependency %s: %s", (dependency, text) => {
  expect(describeTrouble(away(dependency))).toBe(text);
});

it("returns every other fault unchanged", () => {
  const fault: Fault = { code: "not_found", kind: "session", id: "x" };
  expect(describeTrouble(fault)).toBe(describeFault(fault));
});
