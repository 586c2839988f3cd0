import { describe, expect, it } from "vitest";
import { negotiateForm } from "./negotiate-form.ts";
import { isAuthorized } from "./authenticate.ts";
import { generateName } from "./names.ts";
import { formatHumanDuration } from "./duration.ts";
import { makeCatalogue } from "./resources.ts";
import { parseTarget } from "./target.ts";

describe("a path", () => {
  const place = (path: string): string | undefined => {
    const target = parseTarget(path, makeCatalogue());
    return target && [target.resource.plural, target.namespace, target.name, target.subresource].join(" ").trim();
  };
  it.each([
    ["/api/v1/pods", "pods"],
    ["/api/v1/pods/", "pods"],
    ["/api/v1/namespaces/a/pods", "pods a"],
    ["/api/v1/namespaces/a/pods/b", "pods a b"],
    ["/api/v1/namespaces/a/pods/b/log", "pods a b log"],
    ["/api/v1/namespaces", "namespaces"],
    ["/api/v1/namespaces/a", "namespaces  a"],
    ["/api/v1/namespaces/a/status", "namespaces  a status"],
    ["/api/v1/nodes/n%2F1", "nodes  n/1"],
    ["/apis/coordination.k8s.io/v1/leases", "leases"],
    ["/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "leases a b"],
  ])("%s is %s", (path, expected) => {
    expect(place(path)).toBe(expected);
  });

  it.each([
    "/api/v1/pods/b",
    "/api/v1/nothings",
    "/api/v1/namespaces/a/nodes/b/c",
    "/apis/v1/pods",
    "/api/v1/nodes/%ff",
    "/",
    "/api/v1/namespaces/a/pods/b/log/c",
  ])("%s is nothing", (path) => {
    expect(place(path)).toBeUndefined();
  });
});

describe("an Accept header", () => {
  const table = "application/json;as=Table;v=v1;g=meta.k8s.io";
  it.each([
    [undefined, "json"],
    ["*/*", "json"],
    ["application/json", "json"],
    [table, "table"],
    [`application/json;as=Table;v=v1beta1;g=meta.k8s.io,${table},application/json`, "table"],
    ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", "metadata"],
    ["application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", "json"],
    ["application/vnd.kubernetes.protobuf,application/json", "json"],
    ["application/vnd.kubernetes.protobuf", undefined],
    ["text/html", undefined],
  ])("%s asks for %s", (accept, expected) => {
    expect(negotiateForm(accept)).toBe(expected);
  });
});

describe("an Authorization header", () => {
  it.each([
    ["Bearer secret", true],
    ["bearer secret", true],
    ["Bearer  secret", true],
    ["Bearer secre", false],
    ["Bearer secrets", false],
    ["Basic secret", false],
    ["Bearer ", false],
    ["", false],
    [undefined, false],
  ])("%s lets in: %s", (header, expected) => {
    expect(isAuthorized(header, "secret")).toBe(expected);
  });

  it("refuses every client when the server has no token", () => {
    expect(isAuthorized("Bearer ", "")).toBe(false);
  });
});

describe("a generated name", () => {
  it("fits into a label, whatever its prefix", () => {
    expect(generateName("a-", () => 0)).toBe("a-bbbbb");
    expect(generateName("x".repeat(100), (below) => below - 1)).toBe(`${"x".repeat(58)}99999`);
  });
});

describe("a duration", () => {
  const seconds = (days: number, hours = 0, minutes = 0, rest = 0): number =>
    ((days * 24 + hours) * 60 + minutes) * 60 + rest;
  it.each([
    [-5, "<invalid>"],
    [-1, "0s"],
    [0, "0s"],
    [119, "119s"],
    [120, "2m"],
    [190, "3m10s"],
    [seconds(0, 0, 10), "10m"],
    [seconds(0, 3), "3h"],
    [seconds(0, 3, 5), "3h5m"],
    [seconds(0, 9, 59), "9h"],
    [seconds(2), "2d"],
    [seconds(2, 5), "2d5h"],
    [seconds(9, 5), "9d"],
    [seconds(731), "2y1d"],
    [seconds(365 * 8), "8y"],
  ])("of %i seconds is %s", (value, expected) => {
    expect(formatHumanDuration(value * 1000)).toBe(expected);
  });
});
