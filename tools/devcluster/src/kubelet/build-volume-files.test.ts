import type { V1Volume } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { buildVolumeFiles } from "./build-volume-files.ts";

describe("buildVolumeFiles", () => {
  it("writes every key of a ConfigMap, or only the named ones, with their modes", () => {
    expect(build({ name: "v", configMap: { name: "c" } })).toEqual({
      built: true,
      files: [
        { path: "a", content: "1", mode: 0o644 },
        { path: "b", content: "2", mode: 0o644 },
      ],
    });
    const items = [{ key: "b", path: "deep/b", mode: 0o400 }];
    expect(build({ name: "v", configMap: { name: "c", items, defaultMode: 0o600 } })).toEqual({
      built: true,
      files: [{ path: "deep/b", content: "2", mode: 0o400 }],
    });
  });

  it.each<[string, Omit<V1Volume, "name">, string]>([
    ["a Secret that is not there", { secret: { secretName: "s" } }, 'secret "s" not found'],
    [
      "a key that is not there",
      { configMap: { name: "c", items: [{ key: "x", path: "x" }] } },
      'couldn\'t find key x in configmap "c"',
    ],
    ["a path that leaves", { configMap: { name: "c", items: [{ key: "a", path: "../a" }] } }, "../a is outside"],
    ["an unknown field", { downwardAPI: { items: [{ path: "f", fieldRef: { fieldPath: "spec.x" } }] } }, "spec.x"],
  ])("states the reason for %s", (_title, volume, message) => {
    const found = build({ name: "v", ...volume });
    expect(found).toMatchObject({ built: false, message: expect.stringContaining(message) as string });
  });

  it("omits missing optional sources, and volumes of other kinds", () => {
    expect(build({ name: "v", secret: { secretName: "s", optional: true } })).toEqual({ built: true, files: [] });
    expect(build({ name: "v", hostPath: { path: "/" } })).toEqual({ built: true, files: undefined });
    const sources = [{ serviceAccountToken: { path: "token" } }];
    expect(build({ name: "v", projected: { sources } })).toEqual({ built: true, files: [] });
  });
});

function build(volume: V1Volume): ReturnType<typeof buildVolumeFiles> {
  return buildVolumeFiles(volume, {
    pod: { metadata: { name: "p" } },
    podIp: "127.1.0.2",
    hostIp: "127.0.0.1",
    base: {},
    configMaps: new Map([["c", { a: "1", b: "2" }]]),
    secrets: new Map(),
  });
}
