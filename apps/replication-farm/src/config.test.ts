import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { readConfig } from "./config.ts";

describe("readConfig", () => {
  it("needs no variable", () => {
    expect(readConfig({})).toMatchObject({ rcSelector: "", sessionTtlMs: 5000, webhook: undefined });
  });

  it("reads exactly the documented variables, with the documented defaults", () => {
    const documented = readDocumentedVariables("replication-farm");
    const { env, names } = makeRecordingEnv();
    const config = readConfig(env);
    expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
    const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
    expect(readConfig(Object.fromEntries(defaults))).toEqual(config);
  });

  it.each([
    [{ FARM_SESSION_TTL_MS: "5", FARM_RESYNC_MS: "often" }, /FARM_SESSION_TTL_MS is "5"[^]*FARM_RESYNC_MS is "often"/],
    [{ FARM_RC_SELECTOR: "tier in (a" }, /FARM_RC_SELECTOR: "tier in \(a" is not a label selector/],
    [{ FARM_ALERT_WEBHOOK_URL: "file:///etc/passwd" }, /FARM_ALERT_WEBHOOK_URL: is no http or https URL/],
  ])("refuses %j", (env, problem) => {
    expect(() => readConfig(env)).toThrow(problem);
  });
});
