import { describe, expect, it } from "vitest";
import { findUnknownKeys } from "./find-unknown-keys.ts";

const shown = (job: unknown) => findUnknownKeys(job).map(({ path, message }) => `${path.join(" ")}: ${message}`);
const annotated = (annotations: unknown) => ({ metadata: { annotations } });

describe("keys of Muster in a job", () => {
  it.each<[string, unknown, string]>([
    [
      "a misspelt annotation",
      annotated({ "muster.dev/share": "shared" }),
      'metadata annotations muster.dev/share: has no effect with the string "shared": did you mean "muster.dev/sharing"?',
    ],
    [
      "an annotation among the labels",
      { metadata: { labels: { "muster.dev/sharing": "shared" } } },
      'metadata labels muster.dev/sharing: has no effect with the string "shared": it belongs into annotations',
    ],
    [
      "a key that is near none",
      annotated({ "muster.dev/estimated-runtime": 1 }),
      "metadata annotations muster.dev/estimated-runtime: has no effect with the number 1: " +
        "known keys are muster.dev/main-container, muster.dev/pool, muster.dev/preemptible, muster.dev/sharing, muster.dev/topology",
    ],
    [
      "one in a template of any kind",
      { spec: { tfReplicaSpecs: { Worker: { template: annotated({ "muster.dev/pol": "a" }) } } } },
      'spec tfReplicaSpecs Worker template metadata annotations muster.dev/pol: has no effect with the string "a": did you mean "muster.dev/pool"?',
    ],
    [
      "the topology in a template",
      { spec: { replicaSpecs: { worker: { template: annotated({ "muster.dev/topology": "zone" }) } } } },
      "spec replicaSpecs worker template metadata annotations muster.dev/topology: " +
        'has no effect with the string "zone": it belongs on the job, not on a pod template',
    ],
    [
      "the topology among the labels of a template",
      {
        spec: {
          mpiReplicaSpecs: { Worker: { template: { metadata: { labels: { "muster.dev/topology": "zone" } } } } },
        },
      },
      "spec mpiReplicaSpecs Worker template metadata labels muster.dev/topology: " +
        'has no effect with the string "zone": it belongs into annotations of the job, not on a pod template',
    ],
    [
      "a misspelt label",
      { metadata: { labels: { "muster.dev/queues": "a" } } },
      'metadata labels muster.dev/queues: has no effect with the string "a": did you mean "muster.dev/queue"?',
    ],
    [
      "a label that is near none",
      { metadata: { labels: { "muster.dev/estimated-runtime": "a" } } },
      'metadata labels muster.dev/estimated-runtime: has no effect with the string "a": known keys are muster.dev/queue',
    ],
    [
      "the queue among the annotations",
      annotated({ "muster.dev/queue": "a" }),
      'metadata annotations muster.dev/queue: has no effect with the string "a": it belongs into labels',
    ],
    [
      "the queue on a template",
      { spec: { replicaSpecs: { worker: { template: { metadata: { labels: { "muster.dev/queue": "a" } } } } } } },
      "spec replicaSpecs worker template metadata labels muster.dev/queue: " +
        'has no effect with the string "a": it belongs on the job, not on a pod template',
    ],
  ])("are reported: %s", (_title, job, text) => {
    expect(shown(job)).toEqual([text]);
  });

  it("are reported neither where they exist nor of other groups", () => {
    const annotations = { "muster.dev/sharing": "half", "muster.dev/cancelled": "x", "example.com/share": "a" };
    expect(shown(annotated({ "muster.dev/topology": "zone" }))).toEqual([]);
    expect(shown({ metadata: { labels: { "muster.dev/queue": "a" } } })).toEqual([]);
    expect(
      shown({ ...annotated(annotations), spec: { replicaSpecs: { worker: { template: annotated(annotations) } } } }),
    ).toEqual([]);
  });

  it.each([undefined, null, 1, [], { metadata: [] }, { metadata: { labels: null }, spec: { replicaSpecs: { a: 1 } } }])(
    "are not found in %j",
    (job) => {
      expect(findUnknownKeys(job)).toEqual([]);
    },
  );
});
