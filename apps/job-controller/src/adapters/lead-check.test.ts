import type { V1Pod } from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { createMembers } from "../members/change-members.ts";
import { makeExpectations } from "../members/expectations.ts";
import { runWhileLeading } from "./lead-check.ts";

it("creates no further pod after the lead changes between two pods", async () => {
  const pods = ["a", "b", "c", "d"].map((name): V1Pod => ({ metadata: { name } }));
  const made: string[] = [];
  const create = runWhileLeading(
    () => made.length < 1,
    (pod: V1Pod) => {
      made.push(pod.metadata?.name ?? "");
      return Promise.resolve({ did: "created", member: pod } as const);
    },
  );
  const expectations = makeExpectations();
  await expect(createMembers(pods, create, { expectations, key: "pods" })).rejects.toThrow("does not lead any more");
  expect(made).toEqual(["a"]);
});
