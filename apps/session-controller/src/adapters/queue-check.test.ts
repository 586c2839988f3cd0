import { KubeError, type KubeCalls } from "@muster/kube";
import { expect, it } from "vitest";
import { makeQueueCheck } from "./queue-check.ts";

/** Builds a check on an API server that answers each list with this result. */
function checking(answer: () => unknown) {
  const refusals: string[] = [];
  const list = (): Promise<unknown> => new Promise((resolve) => resolve(answer()));
  const calls = { list } as Pick<KubeCalls, "list">;
  return { check: makeQueueCheck({ calls, onRefused: (problem) => refusals.push(problem) }), refusals };
}
const failing = (code: number, reason: string) =>
  checking(() => {
    throw new KubeError("GET", code, { reason });
  });

it.each([
  ["a Queue exists", checking(() => ({ items: [{}] })), true],
  ["none exists", checking(() => ({ items: [] })), false],
  ["the definition is not installed", failing(404, "NotFound"), false],
])("reports whether %s", async (_title, { check, refusals }, expected) => {
  expect(await check()).toBe(expected);
  expect(refusals).toEqual([]);
});

it("assumes that none exists without the right to list them, and reports that once", async () => {
  const { check, refusals } = failing(403, "Forbidden");
  expect([await check(), await check()]).toEqual([false, false]);
  expect(refusals).toEqual([expect.stringContaining("no right to list queues")]);
});

it("rejects with a retryable fault while the API server does not answer", async () => {
  const fault = { code: "unavailable", dependency: "kubernetes" };
  await expect(failing(503, "ServiceUnavailable").check()).rejects.toMatchObject({ fault });
  const away = checking(() => {
    throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  });
  await expect(away.check()).rejects.toMatchObject({ fault });
});

it("shares the next list among all calls during a list", async () => {
  const answers: PromiseWithResolvers<unknown>[] = [];
  const { check } = checking(() => {
    const answer = Promise.withResolvers<unknown>();
    answers.push(answer);
    return answer.promise;
  });
  const first = check();
  await expect.poll(() => answers.length).toBe(1);
  const others = [check(), check(), check()];
  // A Queue created after the first list began may be missing from it.
  answers[0]?.resolve({ items: [] });
  expect(await first).toBe(false);
  await expect.poll(() => answers.length).toBe(2);
  answers[1]?.resolve({ items: [{}] });
  expect(await Promise.all(others)).toEqual([true, true, true]);
  expect(answers).toHaveLength(2);
});

it("lists again after a failed list", async () => {
  let isAway = true;
  const { check } = checking(() => {
    if (isAway) throw new KubeError("GET", 503, { reason: "ServiceUnavailable" });
    return { items: [] };
  });
  const failed = check();
  const shared = check();
  await expect(failed).rejects.toThrow();
  await expect(shared).rejects.toThrow();
  isAway = false;
  expect(await check()).toBe(false);
});
