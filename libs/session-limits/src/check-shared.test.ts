import { makeValueReader } from "@muster/documents";
import { expect, it } from "vitest";
import type { ComponentTemplate } from "./check-component-template.ts";
import { checkShared, computeTemplateRequests } from "./check-shared.ts";

const main = (resources: object): ComponentTemplate => ({ spec: { containers: [{ name: "main", resources }] } });

function findings(template: ComponentTemplate | undefined): string[] {
  const reader = makeValueReader();
  checkShared(reader, { shared: ["shared"], template: ["template"] }, template);
  return reader.findings.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

it.each<[string, ComponentTemplate]>([
  ["requests", main({ requests: { cpu: 1, memory: "1Gi" } })],
  ["limits, which count as requests", main({ limits: { "nvidia.com/gpu": 1 } })],
  ["a sidecar that requests", { spec: { initContainers: [{ name: "s", resources: { requests: { cpu: "1m" } } }] } }],
])("a component with %s can be shared", (_title, template) => {
  expect(findings(template)).toEqual([]);
});

const NOTHING =
  /^shared: cannot be true: .* its template requests nothing; write .*requests of its template, such as cpu/;

it.each<[string, ComponentTemplate | undefined, RegExp]>([
  ["no template", undefined, /^shared: cannot be true: .* it has no template; write .* or leave shared out/],
  ["an empty template", { spec: {} }, NOTHING],
  ["requests of nothing", main({ requests: { cpu: 0 } }), NOTHING],
  [
    "more than can be counted",
    main({ requests: { memory: "9Pi" } }),
    /^template.spec.containers.0.resources.requests.memory: must be a quantity from 0 to 8Pi, .* not the string "9Pi"$/,
  ],
])("a component with %s cannot be shared", (_title, template, text) => {
  const found = findings(template);
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(text);
});

it("sums up the containers of a template as Kubernetes does", () => {
  const amounts = (cpu: string) => ({ resources: { requests: { cpu } } });
  const initContainers = [
    { name: "fill", ...amounts("3") },
    { name: "proxy", restartPolicy: "Always", ...amounts("500m") },
  ];
  const { spec } = main({ requests: { cpu: 1 }, limits: { memory: "1Ki" } });
  expect(computeTemplateRequests({ spec: { ...spec, initContainers } })).toEqual({ cpu: 3000, memory: 1024 });
});
