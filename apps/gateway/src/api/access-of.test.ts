import { RESOURCES, buildRoutes } from "@muster/gateway-api";
import { expect, it } from "vitest";
import { accessOf } from "./access-of.ts";

it.each([
  ["/v1/leases/:id", { id: "main" }, "main"],
  // The name of an engine is not the name of a lease.
  ["/v1/engines/:engine", { engine: "main" }, ""],
  ["/v1/machines/:node", { node: "n-1" }, "n-1"],
  ["/v1/jobs/:namespace", { namespace: "default" }, ""],
  ["/v1/jobs/:namespace/:name", { namespace: "default", name: "train" }, "train"],
])("requires the right of GET %s on the object that %j names: %j", (path, params, name) => {
  const route = buildRoutes(RESOURCES).find((each) => each.path === path && each.http === "GET")!;
  expect(accessOf(route, { params, query: {} }, "default").name).toBe(name);
});
