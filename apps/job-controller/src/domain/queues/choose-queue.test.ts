import { labels } from "@muster/proto";
import { describe, expect, it } from "vitest";
import {
  chooseQueue,
  DEFAULT_QUEUE_LABEL,
  isUnserved,
  QUEUE_LABEL,
  type QueueChoice,
  type SeenQueue,
} from "@muster/ledger-client/choose-queue";
import { readQueue } from "./read-queue.ts";

const TEAM_A = { namespaceSelector: { matchLabels: { team: "a" } } };
const ALL = { namespaceSelector: {} };
const UNNAMED = { name: "", field: `the label ${QUEUE_LABEL} of the job` };

function queuesOf(specs: Readonly<Record<string, object>>, deleting: readonly string[] = []) {
  const seen = Object.entries(specs).map(([name, spec]): [string, SeenQueue] => {
    return [name, { record: readQueue(name, spec), isDeleting: deleting.includes(name) }];
  });
  return new Map(seen);
}

const TREE = queuesOf({
  company: ALL,
  "team-a": { ...TEAM_A, parent: "company" },
  "team-b": { namespaceSelector: { matchLabels: { team: "b" } }, parent: "company", maxPriority: 10 },
  spare: { parent: "company" },
});
const SERVED = "select the namespace in the spec.namespaceSelector of a queue without queues below it";

describe("the queue of a job", () => {
  const cases: readonly [
    title: string,
    given: { job?: string; preset?: string; of?: Record<string, string>; queues?: ReadonlyMap<string, SeenQueue> },
    expected: QueueChoice | string,
  ][] = [
    ["none while no Queue exists", { queues: queuesOf({}) }, { kind: "none" }],
    ["the one that its label names", { job: "team-a" }, { kind: "queue", name: "team-a" }],
    ["the default of its namespace", { preset: "team-a" }, { kind: "queue", name: "team-a" }],
    ["its label before the default", { job: "team-a", preset: "none" }, { kind: "queue", name: "team-a" }],
    ["the only leaf that serves its namespace", {}, { kind: "queue", name: "team-a" }],
    ["with its maximum of priorities", { of: { team: "b" } }, { kind: "queue", name: "team-b", maxPriority: 10 }],
    ["a root without queues below it", { queues: queuesOf({ all: ALL }) }, { kind: "queue", name: "all" }],
    ["empty labels name none", { job: "", preset: "" }, { kind: "queue", name: "team-a" }],
    [
      "one that cannot be read, which admits nothing",
      { queues: queuesOf({ all: { ...ALL, weight: -1 } }) },
      { kind: "queue", name: "all" },
    ],
    [
      "a leaf beside one that is being deleted",
      { queues: queuesOf({ a: ALL, b: ALL }, ["a"]) },
      { kind: "queue", name: "b" },
    ],
    ["no leaf serves its namespace", { of: { team: "c" } }, `no queue serves the namespace default: ${SERVED}`],
    [
      "several leaves serve its namespace",
      { queues: queuesOf({ b: ALL, a: ALL }) },
      `the queues a, b serve the namespace default: name one of them in the label ${QUEUE_LABEL} of the job, or in the label ${DEFAULT_QUEUE_LABEL} of the namespace`,
    ],
    [
      "a label without any queue",
      { job: "x", queues: queuesOf({}) },
      `the label ${QUEUE_LABEL} of the job names the queue "x", which does not exist; no queue serves the namespace default: ${SERVED}`,
    ],
    [
      "a label that names a missing queue",
      { job: "x" },
      `the label ${QUEUE_LABEL} of the job names the queue "x", which does not exist; name one of its queues: team-a`,
    ],
    [
      "a label that names an inner queue",
      { job: "company" },
      `the label ${QUEUE_LABEL} of the job names the queue "company", which has queues below it, and only a leaf queue has work; name one of its queues: team-a`,
    ],
    [
      "a label that names a queue of others",
      { job: "team-b" },
      `the label ${QUEUE_LABEL} of the job names the queue "team-b", which does not serve the namespace default: its spec.namespaceSelector does not match the labels; name one of its queues: team-a`,
    ],
    [
      "a default that serves no namespace",
      { preset: "spare" },
      `the label ${DEFAULT_QUEUE_LABEL} of the namespace default names the queue "spare", which does not serve the namespace default: it has no spec.namespaceSelector; name one of its queues: team-a`,
    ],
    [
      "a label that names a queue that is being deleted",
      { job: "a", queues: queuesOf({ a: ALL }, ["a"]) },
      `the label ${QUEUE_LABEL} of the job names the queue "a", which is being deleted; no queue serves the namespace default: ${SERVED}`,
    ],
  ];
  it.each(cases)("%s", (_title, { job, preset, of = { team: "a" }, queues = TREE }, expected) => {
    const namespace = {
      name: "default",
      labels: { ...of, ...(preset !== undefined && { [DEFAULT_QUEUE_LABEL]: preset }) },
    };
    const choice = chooseQueue({ ...UNNAMED, name: job ?? "" }, namespace, queues);
    expect(choice).toEqual(typeof expected === "string" ? { kind: "unknown", message: expected } : expected);
  });

  it("names five of many queues", () => {
    const many = queuesOf(Object.fromEntries(["a", "b", "c", "d", "e", "f", "g"].map((name) => [name, ALL])));
    expect(chooseQueue(UNNAMED, { name: "default", labels: {} }, many)).toMatchObject({
      message: expect.stringContaining("the queues a, b, c, d, e and 2 more serve") as unknown,
    });
  });
});

describe("a selector of namespaces", () => {
  const expression = (operator: string, values?: readonly string[]) => ({ key: "team", operator, values });
  const cases: readonly [operator: string, values: readonly string[] | undefined, matching: string][] = [
    ["In", ["a", "b"], "a b"],
    ["NotIn", ["a", "b"], "c -"],
    ["Exists", undefined, "a b c"],
    ["DoesNotExist", undefined, "-"],
  ];
  it.each(cases)("%s %j matches %s", (operator, values, matching) => {
    const queues = queuesOf({ q: { namespaceSelector: { matchExpressions: [expression(operator, values)] } } });
    const matched = ["a", "b", "c", "-"].filter((team) => {
      const namespace = { name: "n", labels: team === "-" ? {} : { team } };
      return chooseQueue(UNNAMED, namespace, queues).kind === "queue";
    });
    expect(matched.join(" ")).toBe(matching);
  });

  it("matches only if all of its parts match", () => {
    const selector = { matchLabels: { stage: "live" }, matchExpressions: [expression("Exists")] };
    const queues = queuesOf({ q: { namespaceSelector: selector } });
    const kindWith = (of: Record<string, string>) => chooseQueue(UNNAMED, { name: "n", labels: of }, queues).kind;
    expect([kindWith({ stage: "live" }), kindWith({ stage: "live", team: "a" })]).toEqual(["unknown", "queue"]);
  });
});

it("reads the labels of the contracts", () => {
  expect([labels.queue, labels.defaultQueue]).toEqual([QUEUE_LABEL, DEFAULT_QUEUE_LABEL]);
});

it.each([
  ["no Queue exists", queuesOf({}), false],
  ["a leaf serves it", TREE, false],
  ["only a queue with queues below it serves it", queuesOf({ company: ALL, spare: { parent: "company" } }), true],
  ["the only leaf that serves it is being deleted", queuesOf({ a: ALL }, ["a"]), true],
])("has no queue in a namespace: %s", (_title, queues, expected) => {
  expect(isUnserved({ name: "default", labels: { team: "a" } }, queues)).toBe(expected);
});
