import { expect, it } from "vitest";
import { buildServiceVersions, buildVersionLines, isSupportedSkew } from "./build-versions.ts";

const replica = (name: string, version: string, id = "a") => ({ name, id, version });

it("lists each service once, by name, with the versions of its replicas", () => {
  const replicas = [
    replica("watch", "0.2.0"),
    replica("session", "0.2.0"),
    replica("session", "0.1.0", "b"),
    replica("future", "0.3.0"),
    replica("reservation", "0.2.0"),
  ];
  const services = buildServiceVersions(replicas);
  expect(buildServiceVersions(replicas.toReversed())).toEqual(services);
  expect(buildVersionLines(services)).toEqual([
    "future 0.3.0 (1 replica)",
    "reservation-manager 0.2.0 (leader only)",
    "session-controller 0.1.0 and 0.2.0 (2 replicas)",
    "watcher 0.2.0 (1 replica)",
  ]);
});

it.each([
  ["0.2.0", "0.2.9", true],
  ["0.2.0", "0.1.0", true],
  ["0.2.0", "0.3.0-rc.1", true],
  ["0.2.0", "0.4.0", false],
  ["1.3.0", "1.1.5", false],
  ["1.0.0", "2.0.0", false],
  ["1.0.0", "test", true],
])("supports a command of %s with a service of %s: %s", (client, service, supported) => {
  expect(isSupportedSkew(client, service)).toBe(supported);
  expect(isSupportedSkew(service, client)).toBe(supported);
});
