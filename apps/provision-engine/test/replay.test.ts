import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { planLease } from "../src/domain/plan-lease.ts";
import { toDecisionJson, readDecision } from "../src/domain/stored-decision.ts";

/** Decisions logged by running engines. */
const FOLDER = fileURLToPath(new URL("decisions/", import.meta.url));

it.each(readdirSync(FOLDER))("%s is decided again as the engine logged it", (file) => {
  const lines = readFileSync(`${FOLDER}/${file}`, "utf8").trim().split("\n");
  for (const line of lines) {
    const { snapshot, policy, nowNs, plan } = readDecision(line);
    expect(toDecisionJson(planLease(snapshot, policy, nowNs))).toEqual(plan);
  }
});

it("refuses other text, with the position of the problem", () => {
  const [file = ""] = readdirSync(FOLDER);
  const [line = ""] = readFileSync(`${FOLDER}/${file}`, "utf8").split("\n");
  expect(() => readDecision("{")).toThrow("decision: is not muster-lease-decision/1");
  expect(() => readDecision(line.replace('"phase":"', '"phase":"X'))).toThrow("snapshot.lease.phase");
});
