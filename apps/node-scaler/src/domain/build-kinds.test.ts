import { expect, it } from "vitest";
import { buildPolicy } from "../../test/build-node.ts";
import { buildKinds } from "./build-kinds.ts";

const type = (name: string) => ({ name, cpuMilli: undefined, memoryBytes: undefined, gpus: 0 });
const instanceTypes = [type("small"), type("large")];
const kindsOf = (...args: Parameters<typeof buildPolicy>) =>
  buildKinds(buildPolicy(...args)).map(({ instanceType, spot }) => `${instanceType} ${spot ? "spot" : "on demand"}`);

it("requests every type of a pool by its spot policy", () => {
  expect(kindsOf({ instanceTypes, spot: "Never" })).toEqual(["small on demand", "large on demand"]);
  expect(kindsOf({ instanceTypes, spot: "Always" })).toEqual(["small spot", "large spot"]);
  expect(kindsOf({ instanceTypes: [type("small")], spot: "Preferred" })).toEqual(["small spot", "small on demand"]);
});

it("requests standby nodes, whatever the spot policy is, and each kind once", () => {
  const standby = [
    { instanceType: "small", count: 1, spot: true },
    { instanceType: "small", count: 1, spot: false },
    { instanceType: "large", count: 0, spot: true },
  ];
  expect(kindsOf({ instanceTypes, spot: "Never", standby })).toEqual([
    "small on demand",
    "large on demand",
    "small spot",
  ]);
});
