import { afterAll, beforeAll, describe } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { failingPods } from "./failures/failing-pods.ts";
import { failureWorld, type FailureWorld } from "./failures/failure-world.ts";

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs and their failures under ${server.title}`, { timeout: 120_000 }, () => {
    let started: FailureWorld | undefined;
    const world = (): FailureWorld => started ?? missing();

    beforeAll(async () => {
      started = await failureWorld(server);
      await Promise.all([started.startReplica(), started.startReplica()]);
    }, 120_000);

    afterAll(() => started?.[Symbol.asyncDispose]());

    describe.concurrent("pods that fail", () => failingPods(world));
  });
}

function missing(): never {
  throw new Error("the world did not start");
}
