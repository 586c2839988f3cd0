import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

it("reads exactly the documented variables, with the documented defaults", () => {
  const documented = readDocumentedVariables("job-controller");
  const { env, names } = makeRecordingEnv();
  const config = readConfig(env);
  expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
  const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
  expect(readConfig(Object.fromEntries(defaults))).toEqual(config);
});

it("names every problem in one message", () => {
  const wrong = { MUSTER_NATS_URL: "here", JOB_WORKERS: "0", JOB_LOCK_TTL_MS: "5s", JOB_GANG_SCHEDULING: "2" };
  for (const name of Object.keys(wrong)) expect(() => readConfig(wrong)).toThrow(name);
});
