import { expect, it } from "vitest";
import { RESOURCES } from "./resources.ts";
import { buildRoutes } from "./route.ts";
import { findList, listNames } from "./watch-path.ts";

const routes = buildRoutes(RESOURCES);

it.each([
  ["sessions", "/v1/sessions", {}],
  ["jobs", "/v1/jobs", {}],
  ["jobs/team-a", "/v1/jobs/:namespace", { namespace: "team-a" }],
  ["replica-sets", "/v1/replica-sets", {}],
  ["sessions/echo", undefined, undefined],
  ["jobs/team-a/train", undefined, undefined],
  ["audit", undefined, undefined],
  ["engines", undefined, undefined],
  ["", undefined, undefined],
])("finds the list %j", (name, path, params) => {
  const found = findList(routes, name);
  expect([found?.route.path, found?.params]).toEqual([path, params]);
});

it("finds every list by its own name", () => {
  for (const name of listNames(routes)) expect(findList(routes, name.replaceAll(/[{}]/g, "")), name).toBeDefined();
});
