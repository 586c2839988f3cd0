import type { V1Container, V1Pod } from "@kubernetes/client-node";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildEnvironment, expandVariables, listReferencedConfig } from "./build-environment.ts";

const pod: V1Pod = {
  metadata: {
    name: "web-0",
    namespace: "default",
    uid: "uid-1",
    labels: { app: "web" },
    annotations: { "example.com/trace": "00-ab" },
  },
  spec: { containers: [], nodeName: "a-0" },
};

describe("expandVariables", () => {
  it.each([
    ["$(A)", "1"],
    ["x$(A)y$(B)", "x1y2"],
    ["$(UNKNOWN)", "$(UNKNOWN)"],
    ["$$(A)", "$(A)"],
    ["$$$(A)", "$1"],
    ["$A", "$A"],
    ["$(A", "$(A"],
    ["$(toString)", "$(toString)"],
    ["100$", "100$"],
  ])("turns %s into %s", (text, expected) => {
    expect(expandVariables(text, { A: "1", B: "2" })).toBe(expected);
  });

  it("keeps every text without a dollar, and returns escaped text unchanged", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(expandVariables(text.replaceAll("$", "$$$$"), { A: "1" })).toBe(text);
      }),
    );
  });
});

describe("buildEnvironment", () => {
  it("gives the container's variables precedence over imported ones, and those over the base", () => {
    const container: V1Container = {
      name: "main",
      envFrom: [{ prefix: "P_", configMapRef: { name: "settings" } }],
      env: [{ name: "P_MODE", value: "own" }],
    };
    expect(build(container)).toEqual({
      built: true,
      env: { PATH: "/bin", P_LEVEL: "high", P_MODE: "own" },
    });
  });

  it("reads fields of the pod, keys of ConfigMaps and Secrets, and expands only earlier variables", () => {
    const fields = {
      NAME: "metadata.name",
      NAMESPACE: "metadata.namespace",
      UID: "metadata.uid",
      APP: "metadata.labels['app']",
      TRACE: "metadata.annotations['example.com/trace']",
      MISSING: "metadata.labels['none']",
      NODE: "spec.nodeName",
      IP: "status.podIP",
      HOST: "status.hostIP",
    };
    const container: V1Container = {
      name: "main",
      env: [
        { name: "EARLY", value: "$(NAME)" },
        ...Object.entries(fields).map(([name, fieldPath]) => ({ name, valueFrom: { fieldRef: { fieldPath } } })),
        { name: "URL", value: "http://$(IP):80/$(PATH)" },
        { name: "LEVEL", valueFrom: { configMapKeyRef: { name: "settings", key: "LEVEL" } } },
        { name: "TOKEN", valueFrom: { secretKeyRef: { name: "token", key: "value" } } },
        { name: "OPTIONAL", valueFrom: { secretKeyRef: { name: "nothing", key: "value", optional: true } } },
      ],
    };
    expect(build(container)).toEqual({
      built: true,
      env: {
        PATH: "/bin",
        EARLY: "$(NAME)",
        NAME: "web-0",
        NAMESPACE: "default",
        UID: "uid-1",
        APP: "web",
        TRACE: "00-ab",
        MISSING: "",
        NODE: "a-0",
        IP: "127.1.0.2",
        HOST: "127.0.0.1",
        URL: "http://127.1.0.2:80/$(PATH)",
        LEVEL: "high",
        TOKEN: "secret",
      },
    });
  });

  it.each<[string, Partial<V1Container>, string]>([
    ["a missing ConfigMap", { envFrom: [{ configMapRef: { name: "none" } }] }, 'configmap "none" not found'],
    ["a missing Secret", from({ secretKeyRef: { name: "none", key: "k" } }), 'secret "none" not found'],
    ["a missing key", from({ secretKeyRef: { name: "token", key: "k" } }), `couldn't find key k in secret "token"`],
    ["an unknown field", from({ fieldRef: { fieldPath: "spec.hostname" } }), "fieldRef spec.hostname is not known"],
    [
      "a resource",
      from({ resourceFieldRef: { resource: "limits.cpu" } }),
      "variable V: this kubelet knows fieldRef, configMapKeyRef and secretKeyRef only",
    ],
  ])("refuses %s with the reason", (_title, part, message) => {
    expect(build({ name: "main", ...part })).toEqual({ built: false, message });
  });

  it("names the ConfigMaps and Secrets to read first", () => {
    const container: V1Container = {
      name: "main",
      envFrom: [{ configMapRef: { name: "a" } }, { secretRef: { name: "b" } }],
      env: [{ name: "V", valueFrom: { configMapKeyRef: { name: "c", key: "k" } } }],
    };
    expect(listReferencedConfig(container)).toEqual({ configMaps: new Set(["a", "c"]), secrets: new Set(["b"]) });
  });
});

type ValueFrom = NonNullable<NonNullable<V1Container["env"]>[number]["valueFrom"]>;

function from(valueFrom: ValueFrom): Partial<V1Container> {
  return { env: [{ name: "V", valueFrom }] };
}

function build(container: V1Container): ReturnType<typeof buildEnvironment> {
  return buildEnvironment(container, {
    pod,
    podIp: "127.1.0.2",
    hostIp: "127.0.0.1",
    base: { PATH: "/bin" },
    configMaps: new Map([["settings", { LEVEL: "high", MODE: "imported" }]]),
    secrets: new Map([["token", { value: "secret" }]]),
  });
}
