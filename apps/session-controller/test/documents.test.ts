import { readFileSync } from "node:fs";
import { annotations, labels, schedulingGates } from "@muster/proto";
import { expect, it } from "vitest";
import { buildPod } from "../src/domain/build-pod.ts";
import { COMPONENT_STATES, END_REASONS, TERMINAL_KINDS, WARNING_CODES } from "../src/domain/session.ts";
import { makeComponent } from "./samples.ts";

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const PAGE = read("docs/sessions.md");
const isDocumented = (word: string): boolean => PAGE.includes(`\`${word}\``);

it.each([
  ["end of a session", TERMINAL_KINDS],
  ["reason of an ERROR", END_REASONS],
  ["state of a component", COMPONENT_STATES],
  // Stands for a code of a later version.
  ["warning", WARNING_CODES.filter((code) => code !== "OTHER")],
])("docs/sessions.md describes each %s", (_what, words) => {
  expect(words.filter((word) => !isDocumented(word))).toEqual([]);
});

it("docs/sessions.md has each field of the schema", () => {
  type Schema = { readonly properties?: Readonly<Record<string, Schema>>; readonly items?: Schema };
  const schema = JSON.parse(read("schemas/session.schema.json")) as Schema;
  const { metadata, spec } = schema.properties ?? {};
  const component = spec?.properties?.["components"]?.items;
  const fields = [metadata, spec, component].flatMap((each) => Object.keys(each?.properties ?? {}));
  expect(fields.length).toBeGreaterThan(20);
  expect(fields.filter((field) => !isDocumented(field))).toEqual([]);
});

it.each(["driver", "server"] as const)("docs/sessions.md has each variable of a %s", (kind) => {
  const pod = buildPod(
    {
      session: { name: "s", uid: "u", timeoutMs: 0, killAfterMs: 0, workerPort: 1, scenarioJson: "{}" },
      component: makeComponent("main", kind),
      pool: "p",
      node: "n",
      workers: [],
      traceparent: "t",
    },
    {
      namespace: "default",
      installation: "i",
      poolLabel: "pool",
      imageDefault: "busybox",
      resultFile: "/result",
      keys: { labels, annotations, schedulingGates },
    },
  );
  const names = pod.spec.containers.flatMap(({ env }) => env.map(({ name }) => name));
  expect(names).toContain("POD_IP");
  expect(names.filter((name) => !isDocumented(name))).toEqual([]);
});
