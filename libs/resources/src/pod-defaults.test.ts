import { expect, it } from "vitest";
import { buildPodDefaults } from "./pod-defaults.ts";
import { computeSpecRequests, type WrittenPodSpec } from "./spec-requests.ts";

const container = (item: object) => ({ type: "Container", ...item });
const kata = { name: "kata", overhead: { podFixed: { cpu: "250m", memory: "1Ki" } } };
const resources = (written: object) => ({ name: "main", resources: written });

function requests(spec: WrittenPodSpec, ...limits: readonly object[]) {
  const ranges = limits.map((item, index) => ({ name: `r${index}`, limits: [item] }));
  return computeSpecRequests(spec, buildPodDefaults(ranges, [kata, { name: "plain" }]));
}

it("adds the defaults of LimitRanges to each container and init container without requests", () => {
  const spec = { containers: [resources({}), resources({ requests: { cpu: 1 } })], initContainers: [resources({})] };
  expect(requests(spec, container({ defaultRequest: { cpu: "100m", memory: "1Ki" } }))).toEqual({
    cpu: 1100,
    memory: 2048,
  });
});

it("prefers a container's limit to the default, so that values completed by the API server count once", () => {
  const range = container({ default: { cpu: 2 }, defaultRequest: { cpu: 1 } });
  expect(requests({ containers: [resources({ limits: { cpu: "300m" } })] }, range)).toEqual({ cpu: 300 });
  expect(requests({ containers: [resources({ requests: { cpu: 1 }, limits: { cpu: 2 } })] }, range)).toEqual({
    cpu: 1000,
  });
});

it.each<[string, object, object]>([
  ["the default limit", { default: { cpu: 2 }, max: { cpu: 4 }, min: { cpu: 1 } }, { cpu: 2000 }],
  ["the maximum", { max: { cpu: 4 }, min: { cpu: 1 } }, { cpu: 4000 }],
  ["the minimum", { min: { cpu: 1 } }, { cpu: 1000 }],
])("completes a LimitRange without a default request by %s", (_title, item, expected) => {
  expect(requests({ containers: [resources({})] }, container(item))).toEqual(expected);
});

it("ignores limits of other objects, and takes the first LimitRange by name", () => {
  const other = { type: "PersistentVolumeClaim", min: { storage: "1Gi" } };
  const ranges = [container({ min: { cpu: 1 } }), container({ min: { cpu: 2 } }), { type: "Pod", max: { cpu: 9 } }];
  expect(requests({ containers: [resources({})] }, other, ...ranges)).toEqual({ cpu: 1000 });
});

it("adds the overhead of the RuntimeClass, and counts an existing one once", () => {
  const spec = { containers: [resources({ requests: { cpu: 1 } })], runtimeClassName: "kata" };
  expect(requests(spec)).toEqual({ cpu: 1250, memory: 1024 });
  expect(requests({ ...spec, overhead: { cpu: "250m", memory: "1Ki" } })).toEqual({ cpu: 1250, memory: 1024 });
  expect(requests({ ...spec, runtimeClassName: "plain", overhead: { cpu: 1 } })).toEqual({ cpu: 2000 });
});
