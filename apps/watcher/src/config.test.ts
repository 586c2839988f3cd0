import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

it("needs no variable", () => {
  expect(readConfig({})).toEqual({
    nats: { url: "nats://127.0.0.1:4222", token: undefined },
    kube: { kubeconfig: undefined, relistEveryMs: 600_000 },
    ageLimitMs: 180_000,
    systemNamespaces: ["kube-system"],
    policy: { namespace: "default", startGraceMs: 120_000, nodeGraceMs: 40_000, keepDeletedMs: 600_000 },
  });
});

it("names every wrong variable in one message", () => {
  const wrong = { WATCHER_RELIST_MS: "often", WATCHER_START_GRACE_MS: "-1" };
  expect(() => readConfig(wrong)).toThrow(/WATCHER_RELIST_MS is "often"[^]*WATCHER_START_GRACE_MS is "-1"/);
});

it("reads the system namespaces", () => {
  const read = (text: string) => readConfig({ WATCHER_SYSTEM_NAMESPACES: text }).systemNamespaces;
  expect(read("kube-system,gpu-operator")).toEqual(["kube-system", "gpu-operator"]);
  for (const wrong of ["kube-system,", "Kube", "a b", "-a", "a".repeat(64), "kube-system, x"]) {
    expect(() => read(wrong)).toThrow(
      `WATCHER_SYSTEM_NAMESPACES is "${wrong}"; comma-separated namespaces are needed, each a DNS label`,
    );
  }
});

it("reads exactly the documented variables, with the documented defaults", () => {
  const documented = readDocumentedVariables("watcher");
  const { env, names } = makeRecordingEnv();
  const config = readConfig(env);
  expect([...names].toSorted()).toEqual([...documented.keys()].toSorted());
  const defaults = [...documented].filter(([, fallback]) => fallback !== undefined);
  expect(readConfig(Object.fromEntries(defaults))).toEqual(config);
});
