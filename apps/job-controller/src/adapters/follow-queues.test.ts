import { expect, it } from "vitest";
import { QUEUE_LABEL } from "@muster/ledger-client/choose-queue";
import { openQueues, QUEUES } from "./follow-queues.ts";

const NAMED = { [QUEUE_LABEL]: "team-a" };

/** Opens queues on an API server that answers each list with the status of its resource. */
function opened(statuses: Record<string, number>) {
  const warnings: unknown[] = [];
  const asked: unknown[] = [];
  const queues = openQueues({
    calls: {
      list: ({ plural }: { plural: string }, options: unknown) => {
        asked.push([plural, options]);
        const code = statuses[plural] ?? 404;
        return code === 200 ? Promise.resolve() : Promise.reject(Object.assign(new Error("no"), { code }));
      },
    },
    namespace: "work",
    changed: () => undefined,
    logger: { info: () => undefined, warn: (fields: unknown) => warnings.push(fields) },
  } as unknown as Parameters<typeof openQueues>[0]);
  return { queues, statuses, warnings, asked };
}

it("lists no queues before the API server has answered", async () => {
  const { queues } = opened({ queues: 503 });
  expect(queues.choose(undefined)).toEqual({ kind: "unlisted" });
  await expect(queues.discover()).rejects.toThrow("no");
  expect([queues.choose(NAMED).kind, queues.rows()]).toEqual(["unlisted", undefined]);
});

it("gives jobs of a cluster without the definition no queue, and removes entries only after a second answer", async () => {
  const { queues } = opened({});
  await queues.discover();
  expect(queues.choose(undefined)).toEqual({ kind: "none" });
  expect(queues.choose(NAMED)).toMatchObject({
    kind: "unknown",
    message: expect.stringContaining('names the queue "team-a", which does not exist') as unknown,
  });
  expect(queues.rows()).toBeUndefined();
  await queues.discover();
  expect(queues.rows()?.size).toBe(0);
  expect(queues.isUnserved()).toBe(false);
});

it.each([
  ["queues", { queues: 403 }],
  ["namespaces", { queues: 200, namespaces: 403 }],
])("warns once if it may not read %s, and delays only jobs with a label", async (_title, statuses) => {
  const { queues, warnings, asked } = opened(statuses);
  await queues.discover();
  await queues.discover();
  expect(warnings).toHaveLength(1);
  expect(queues.isRefused()).toBe(true);
  expect(queues.choose(undefined)).toEqual({ kind: "none" });
  expect(queues.choose(NAMED)).toMatchObject({
    kind: "unknown",
    message: expect.stringContaining("no right to read queues") as unknown,
  });
  expect(queues.rows()).toBeUndefined();
  const ofNamespace = { query: { fieldSelector: "metadata.name=work", limit: 1 } };
  if (asked.length > 2) expect(asked[1]).toEqual(["namespaces", ofNamespace]);
});

it("lists the resource of the definition", () => {
  expect(QUEUES).toEqual({ apiVersion: "muster.dev/v1", plural: "queues" });
});

it.each([
  ["an API server that does not answer", { queues: 503 }, [undefined, undefined]],
  ["a missing right", { queues: 403 }, [false, false]],
  ["a missing definition, which a second answer confirms", {}, [undefined, false]],
])("serves no further namespace with %s", async (_title, statuses, expected) => {
  const { queues } = opened(statuses);
  const seen: (boolean | undefined)[] = [];
  expect(queues.isServed("team-a")).toBeUndefined();
  for (const _ of expected) {
    await queues.discover().catch(() => undefined);
    seen.push(queues.isServed("team-a"));
  }
  expect(seen).toEqual(expected);
});
